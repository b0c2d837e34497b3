"""`python -m eunoe.deploy.cli`."""

from eunoe.deploy.cli.entry import main

main()
