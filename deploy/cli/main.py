"""The `eunoe` command: its subcommands, and the exit codes of their errors."""

import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Final

import typer

from eunoe.deploy.cli.output import errors
from eunoe.deploy.event_loop import collect_seldom
from eunoe.deploy.exits import Exit, code_of
from eunoe.schemas.errors import EunoeError

log = logging.getLogger(__name__)

COMMANDS: Final = {
    "up": "Run a broker, Redis, Qdrant and all stages on this machine until Ctrl-C.",
    "demo": "Play a conversation through the whole pipeline, then ask questions about it.",
    "worker": "Run stages in this process until SIGTERM or Ctrl-C.",
    "topics": "Create and list the topics, and change their number of partitions.",
    "produce": "Produce the events of a file into the conversations topic.",
    "ask": "Ask about a conversation; print the reply and the memory behind it.",
    "show": "Show the memory of a conversation: segments, memories, graph or tree.",
    "state": "Print counts and a SHA-256 of the state derived from a conversation; check the vector index against it.",
    "dead-letters": "List and show dead-lettered records, retry them, mark them resolved.",
    "repair": "Derive a conversation again from the log and replace its stored state, while workers run.",
    "rebuild": "Build a new generation of the memory from the log, while the live one keeps answering.",
    "diff": "Compare two generations: memories, segments, links, trees, retrieval.",
    "generations": "List the generations of the memory: which is live, how each was built.",
    "promote": "Make a generation live; promote the old one to undo it.",
    "drop": "Delete a generation: its topics, vectors and state; the log and recorded answers stay.",
    "schemas": "Write the JSON Schemas and the AsyncAPI document for clients in any language.",
    "eval": "Measure retrieval, replies or segmentation on your own data.",
}
"""Command → first line of its help, in the order of `eunoe --help`.

The module of a command has its name, and holds a function of that name or an ``app``. The help of `eunoe` is printed
without importing any of them.
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
            app.command(name, help=summary)(_group)
    return app


def _add(app: typer.Typer, name: str) -> None:
    module = import_module(f"eunoe.deploy.cli.{name.replace('-', '_')}")
    if hasattr(module, "app"):
        app.add_typer(module.app, name=name)
    else:
        app.command(name)(getattr(module, name))


def _group() -> None:
    """Long-term memory for chat products: events in through Kafka, replies that remember out."""


def main() -> None:
    """Run the command of ``sys.argv`` and end the process; an expected error prints one line."""
    run_to_exit(_run_called)


def _run_called() -> None:
    build_app(_called(os.environ, sys.argv[1:]))()


def run_to_exit(command: Callable[[], object]) -> None:
    """Run a command and end the process with the exit code of its outcome (see `eunoe.deploy.exits`)."""
    collect_seldom()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
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
    except EunoeError as fault:
        errors.print(f"eunoe: {fault}", style="red", markup=False, highlight=False, soft_wrap=True)
        return code_of(fault)
    except Exception:
        log.exception("eunoe crashed; this is a bug in eunoe")
        return Exit.SOFTWARE
    return Exit.OK


def _leave(code: int) -> None:
    """End the process, even if a library's non-daemon thread keeps running."""
    sys.stdout.flush()
    sys.stderr.flush()
    main_thread = threading.main_thread()
    if any(not thread.daemon and thread is not main_thread for thread in threading.enumerate()):
        os._exit(code)
    sys.exit(code)
