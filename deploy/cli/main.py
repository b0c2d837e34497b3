"""The `eunoe` command: its subcommands, and the exit codes of their errors."""

import errno
import gc
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from keyword import iskeyword
from typing import Annotated, Final

import typer

from eunoe.deploy.cli.arguments import check_words, checked
from eunoe.deploy.cli.entry import end_on_interrupt, raise_on_interrupt
from eunoe.deploy.cli.output import NEWER, console, errors
from eunoe.deploy.event_loop import collect_seldom
from eunoe.deploy.exits import Exit, code_of
from eunoe.deploy.observability.logs import set_up_logs, writes_json
from eunoe.schemas.errors import EunoeError, NewerVersion

log = logging.getLogger(__name__)

USAGE_ERROR: Final[type[Exception]] = typer.BadParameter.__mro__[1]
"""The base of typer's exceptions for wrong command lines, whose module depends on the version."""

COMMANDS: Final = {
    "up": "Run a broker, Redis, Qdrant, all stages and the HTTP gateway on this machine until Ctrl-C.",
    "demo": "Play a conversation through the whole pipeline, then ask questions about it.",
    "worker": "Run stages in this process until SIGTERM or Ctrl-C.",
    "gateway": "Serve the memory over HTTP until SIGTERM or Ctrl-C.",
    "mcp": "Serve the memory as tools of an agent (MCP) over stdin and stdout.",
    "keys": "Make, list and revoke the API keys of the gateway; show and rewrap the data keys.",
    "topics": "Create and list the topics, and change their number of partitions.",
    "produce": "Produce the events of a file into the conversations topic.",
    "import": "Import chats and memories of other products at their true dates; asks stay fast meanwhile.",
    "ask": "Ask about a conversation; print the reply and what it cites.",
    "explain": "Explain a reply: its lines, the memories behind them, what made or ended these, what it did not cite.",
    "show": "Show the memory of a conversation: segments, memories, a profile, graph or tree.",
    "state": "Print counts and a SHA-256 of the state derived from a conversation; check it and the vector index.",
    "doctor": "Check the servers and the model's endpoint: what each can do, what is wrong, what to set.",
    "dead-letters": "List and show dead-lettered records, retry them, mark them resolved.",
    "skip": "Pass over a record that a stage cannot handle: it becomes a dead letter, and its partition goes on.",
    "repair": "Derive a conversation again from the log and replace its stored state, while workers run.",
    "erase": "Erase utterances, a session, a conversation or all of a tenant's: as if they had never been said.",
    "unsay": "Erase utterances, and show what memory no longer holds, holds now, and holds otherwise without them.",
    "retention": "Say how long a tenant keeps its sessions, and erase those that are older.",
    "cold": "Show how many conversations are in the cold store; move one there, or back; go on with another store.",
    "reindex": "Write the points that Qdrant lacks again from Redis, while workers run.",
    "rebuild": "Build a new generation of the memory from the log, while the live one keeps answering.",
    "diff": "Compare two generations: memories, segments, links, trees, retrieval.",
    "generations": "List the generations of the memory: which is live, how each was built.",
    "promote": "Make a generation live; promote the old one to undo it.",
    "drop": "Delete a generation: its topics, vectors and state; the log and recorded answers stay.",
    "schemas": "Write the JSON Schemas, the AsyncAPI and the OpenAPI document for clients in any language.",
    "bench": "Put a load on a system and judge how it holds.",
    "eval": "Measure retrieval, replies or segmentation on your own data, and prompts on bundled cases.",
}
"""Command → first line of its help, in the order of `eunoe --help`.

The module of a command has its name, of `import` with ``_``, and holds a function of that name or an ``app``. The help
of `eunoe` is printed without importing any of them.
"""


def build_app(called: str | None = None) -> typer.Typer:
    """The command line; only the command ``called`` is imported, the others are listed by name.

    Importing a command imports its libraries: `eunoe show` does not wait for those of the models, and `eunoe --help`
    for none at all.
    """
    app = typer.Typer(
        name="eunoe",
        help="Long-term memory for chat products: events in through Kafka, replies that remember out.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_group)
    for name, summary in COMMANDS.items():
        if name == called:
            _add(app, name)
        else:
            app.command(name, help=summary)(_listed)
    return app


def _add(app: typer.Typer, name: str) -> None:
    word = f"{name}_" if iskeyword(name) else name.replace("-", "_")
    module = import_module(f"eunoe.deploy.cli.{word}")
    if hasattr(module, "app"):
        app.add_typer(_all_checked(module.app), name=name)
    else:
        app.command(name)(checked(getattr(module, word)))


def _all_checked(commands: typer.Typer) -> typer.Typer:
    """The subcommands of a command, with their values checked."""
    for command in commands.registered_commands:
        if command.callback is not None and not hasattr(command.callback, "__wrapped__"):
            command.callback = checked(command.callback)
    return commands


def _print_version(asked: bool) -> None:
    if asked:
        console.print(f"eunoe {version('eunoe')}", highlight=False)
        raise typer.Exit


def _group(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Long-term memory for chat products: events in through Kafka, replies that remember out."""


def _listed() -> None:
    """Stands for a command that is not called."""


def main() -> None:
    """Run the command of ``sys.argv`` and end the process; an expected error prints one line."""
    run_to_exit(_run_called)


def _run_called() -> None:
    if "_EUNOE_COMPLETE" not in os.environ:
        check_words(sys.argv[1:])
    app = build_app(_called(os.environ, sys.argv[1:]))
    raise_on_interrupt()
    code = app(prog_name="eunoe", standalone_mode=False)
    if isinstance(code, int) and code:
        raise SystemExit(code)


def run_to_exit(command: Callable[[], object]) -> None:
    """Run a command and end the process with the exit code of its outcome (see `eunoe.deploy.exits`)."""
    collect_seldom()
    set_up_logs(os.environ)
    _leave(_run(command))


def _called(variables: Mapping[str, str], arguments: Sequence[str]) -> str | None:
    """The command of the arguments, or of the line that a shell asks to complete; `None` where there is none."""
    line = variables.get("COMP_WORDS") or variables.get("_TYPER_COMPLETE_ARGS", "")
    return next(iter(line.split()[1:] or arguments), None)


def _run(command: Callable[[], object]) -> int:
    try:
        command()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(Exit.FAILED)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except Exception as fault:
        return _report(fault)
    return Exit.OK


def _report(fault: Exception) -> int:
    """Print an expected error in one line, log any other with its traceback; returns the exit code."""
    if type(fault).__name__ == "NoArgsIsHelpError":
        fault.show()  # type: ignore[attr-defined]  # the help itself
        return Exit.USAGE
    said, code = _said(_expected(_first_of(fault)))
    if said is None:
        log.error("eunoe crashed; this is a bug in eunoe", exc_info=fault)
        return Exit.SOFTWARE
    if writes_json(os.environ):
        log.critical(said)
    else:
        errors.print(f"eunoe: {said}", style="red", markup=False, highlight=False, soft_wrap=True)
    return code


def _first_of(fault: Exception) -> Exception:
    """The first fault of tasks that ran side by side, where all of them are expected; else ``fault`` itself."""
    if not isinstance(fault, ExceptionGroup) or fault.split(lambda one: isinstance(_expected(one), EunoeError))[1]:
        return fault
    return _first_of(fault.exceptions[0])


def _expected(fault: BaseException) -> BaseException:
    """The fault, or `NewerVersion` in its place where it is of a document that a newer version wrote."""
    from eunoe.schemas.versions import newer_fault  # noqa: PLC0415 - takes a third of the time of ``eunoe --help``

    newer = newer_fault(fault) if isinstance(fault, Exception) else None
    return fault if newer is None else NewerVersion(f"{NEWER} ({newer})")


def _said(fault: BaseException) -> tuple[str | None, int]:
    """The line and the exit code of an expected error; `None` for a bug."""
    match fault:
        case EunoeError():
            code = code_of(fault)
            return str(fault).replace("\n", " ") if code == Exit.USAGE else str(fault), code
        case ImportError():
            return f"the installation is incomplete: {fault}; install eunoe again", Exit.INCOMPLETE
        case OSError() if fault.filename is not None:
            return f"{fault.filename}: {fault.strerror}", Exit.USAGE
        case OSError() if fault.errno in _FULL:
            return (
                f"cannot write: {fault.strerror} (see standard output, the data and the temporary directory)",
                Exit.FAILED,
            )
        case typer.Abort():
            return "not confirmed; nothing was done", Exit.FAILED
        case _ if isinstance(fault, USAGE_ERROR):
            return _usage(fault), Exit.USAGE
    return None, Exit.SOFTWARE


_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Faults of a disk at a write, whose error names no file."""


def _usage(fault: Exception) -> str:
    """A wrong command line in one line: the fault, and where the help is."""
    context = getattr(fault, "ctx", None)
    command = context.command_path if context is not None else "eunoe"
    said = fault.format_message() if hasattr(fault, "format_message") else str(fault)
    said = said.replace(": Value error, ", ": ", 1)  # of the library that checks the values
    return f"{' '.join(said.split())} (see `{command} --help`)"


def _leave(code: int) -> None:
    """End the process, even if a library's non-daemon thread keeps running.

    The threads of obstore, which Python does not know, may still answer a request: into an interpreter that is being
    taken down they would abort the process (134).
    """
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError as fault:
        os._exit(code or _report(fault))  # without another flush, which would fail again
    end_on_interrupt()
    main_thread = threading.main_thread()
    threads = any(not thread.daemon and thread is not main_thread for thread in threading.enumerate())
    if threads or "obstore" in sys.modules:
        os._exit(code)
    gc.freeze()  # the interpreter's end would look through half a million objects, which go with the process
    sys.exit(code)
