"""Experiments after the five papers, on data of yours; run from a checkout: ``python -m tests.papers --help``."""

import typer

from eunoe.deploy.cli.evalmemory import ablation, memory
from eunoe.deploy.cli.main import run_to_exit
from eunoe.deploy.cli.papers_operations import multihop, operations
from eunoe.deploy.cli.papers_teafarm import teafarm

app = typer.Typer(help="Experiments after the five papers, on data of yours.", no_args_is_help=True)
for command in (memory, ablation, operations, multihop, teafarm):
    app.command(command.__name__)(command)


if __name__ == "__main__":
    run_to_exit(app)
