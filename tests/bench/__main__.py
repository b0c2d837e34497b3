"""The benchmarks, run from a checkout: ``python -m tests.bench --help``."""

from eunoe.deploy.cli.main import run_to_exit
from tests.bench.commands import app

run_to_exit(app)
