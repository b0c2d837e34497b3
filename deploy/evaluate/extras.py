"""Imports libraries of the package's extras, used by evaluations only."""

import importlib
from typing import Any

from eunoe.schemas.errors import Refused


def extra(module: str) -> Any:  # noqa: ANN401 - a module of an extra
    """Import a module of an extra; raises `Refused` with the command to install it where it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        name = "bertscore" if module == "bert_score" else "eval"
        raise Refused(f"{module.partition('.')[0]} is not installed: pip install 'eunoe[{name}]'") from None
