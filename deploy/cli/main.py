"""`eunoe`: the commands, and what becomes of their faults."""

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
    "up": "Start a broker, Redis, Qdrant, a worker that answers and one that remembers; run until Ctrl-C.",
    "demo": "Play a conversation through the whole pipeline, then ask about it.",
    "worker": "Run stages in this process until it is told to stop (SIGTERM, Ctrl-C).",
    "topics": "Create and list the topics, and change the number of their partitions.",
    "produce": "Produce the events of a file into the conversations topic.",
    "ask": "Say something to a conversation and print the reply, with what it rests on.",
    "show": "Show what is remembered of a conversation: its topic segments, its memories, their graph or their tree.",
    "state": "Say what was derived from a conversation, as counts and one SHA-256, and check the index against it.",
    "dead-letters": "Records that were set aside: list them, look at one, send them back, call them dealt with.",
    "repair": "Derive a conversation again from the log, in place of what the stores hold; workers go on meanwhile.",
    "rebuild": "Make memory again from the log, into another generation, while the live one goes on answering.",
    "diff": "Compare two generations of the memory: what only one remembers, what changed, links, trees, retrieval.",
    "generations": "List the generations of the memory: which one answers, how each was made.",
    "promote": "Let another generation answer from now on; `eunoe promote` of the old one undoes it.",
    "drop": "Remove a generation for good: its topics, its points, its state. The log and recorded answers stay.",
    "schemas": "Write the contracts for clients in any language.",
    "eval": "Measure quality on data of yours.",
}
"""Command → what it does, in the order of the help. Each is a module of its name, with a function of its name or an
``app``, and the first line of its help is this one: the list of commands is shown without importing any of them."""


def build_app(called: str | None = None) -> typer.Typer:
    """The command line with the command ``called`` in it; all others are there by name only.

    Importing a command brings its libraries: `eunoe show` need not wait for those of the models, `eunoe --help` for
    none at all.
    """
    app = typer.Typer(
        name="eunoe",
        help="Long-term memory for chat products: events in through Kafka, replies that remember out.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_group)
    for name, does in COMMANDS.items():
        if name == called:
            _add(app, name)
        else:
            app.command(name, help=does)(_group)
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
    """Run a command; a user's mistake ends in one line and exit code 2, a server's silence in one and 69."""
    run_to_exit(_run_called)


def _run_called() -> None:
    build_app(_called(os.environ, sys.argv[1:]))()


def run_to_exit(command: Callable[[], object]) -> None:
    """Run a command and end the process with the exit code that its outcome means (see `eunoe.deploy.exits`)."""
    collect_seldom()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    _leave(_run(command))


def _called(variables: Mapping[str, str], arguments: Sequence[str]) -> str | None:
    """The command that is called, or of which a shell asks how its line may go on."""
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
        log.exception("eunoe crashed; this is a fault of eunoe")
        return Exit.SOFTWARE
    return Exit.OK


def _leave(code: int) -> None:
    """End the process, even where a library's thread would not end."""
    sys.stdout.flush()
    sys.stderr.flush()
    main_thread = threading.main_thread()
    if any(not thread.daemon and thread is not main_thread for thread in threading.enumerate()):
        os._exit(code)
    sys.exit(code)
