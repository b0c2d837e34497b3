"""The state of stages: on Redis, in memory, and in files for one very long conversation."""
