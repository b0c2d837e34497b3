"""`eunoe`: the commands, and what becomes of their faults."""

import logging
import os
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import typer

from eunoe.deploy.cli.output import errors
from eunoe.deploy.exits import Exit, code_of
from eunoe.deploy.loops import collect_seldom
from eunoe.schemas.errors import EunoeError

log = logging.getLogger(__name__)

COMMANDS: Final = (
    "up",
    "demo",
    "worker",
    "topics",
    "produce",
    "ask",
    "show",
    "state",
    "dead-letters",
    "repair",
    "rebuild",
    "diff",
    "generations",
    "promote",
    "drop",
    "schemas",
    "eval",
    "bench",
)
"""In the order of the help. Each is a module of its name, with a function of its name or an ``app``."""


def build_app(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """The command line with the commands ``names``; importing each brings its libraries."""
    app = typer.Typer(
        name="eunoe",
        help="Long-term memory for chat products: events in through Kafka, replies that remember out.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_group)
    for name in names:
        module = import_module(f"eunoe.deploy.cli.{name.replace('-', '')}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(getattr(module, name))
    return app


def _group() -> None:
    """Long-term memory for chat products: events in through Kafka, replies that remember out."""


def wanted(arguments: Sequence[str]) -> Sequence[str]:
    """The command that is called, alone: `eunoe show` need not wait for the models' libraries; else all of them."""
    return arguments[:1] if arguments and arguments[0] in COMMANDS else COMMANDS


def main() -> None:
    """Run a command; a user's mistake ends in one line and exit code 2, a server's silence in one and 69."""
    collect_seldom()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    _leave(_run())


def _run() -> int:
    try:
        build_app(wanted(sys.argv[1:]))()
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
