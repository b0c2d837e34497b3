"""The experiments of the five papers on your own data, run from a checkout: ``python -m tests.papers --help``."""

import typer

from eunoe.deploy.cli.main import run_to_exit
from tests.papers.memory_command import ablation, memory
from tests.papers.operations_command import multihop, operations
from tests.papers.teafarm_command import teafarm

app = typer.Typer(
    help="Run the experiments of the five papers on your own data.", no_args_is_help=True, rich_markup_mode="markdown"
)
for command in (memory, ablation, operations, multihop, teafarm):
    app.command(command.__name__)(command)


if __name__ == "__main__":
    run_to_exit(app)
