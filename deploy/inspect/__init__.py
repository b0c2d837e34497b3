"""Read-only views of memory and of dead letters."""
