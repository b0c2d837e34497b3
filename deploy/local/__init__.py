"""The embedded stack: three real servers as child processes on loopback."""
