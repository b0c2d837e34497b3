"""The command line: `eunoe`."""
