"""Faults of the runner."""

from eunoe.schemas.errors import EunoeError


class Fenced(EunoeError):
    """Another process committed for this conversation: this one lost its partition and must restart."""
