"""Memory made again from the log, into a generation of its own, while the old one serves."""
