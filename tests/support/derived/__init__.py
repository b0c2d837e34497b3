"""Writers of files that are derived from the code: `make contracts`."""
