"""`python -m eunoe.deploy.cli`."""

from eunoe.deploy.cli.main import main

main()
