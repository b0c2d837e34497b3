"""Libraries that only evaluations use, an extra of the package."""

import importlib
from typing import Any

from eunoe.schemas.errors import Refused


def extra(module: str) -> Any:  # noqa: ANN401 - a module of an extra
    """The module; raises `Refused` with what to install where it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        name = "bertscore" if module == "bert_score" else "eval"
        raise Refused(
            f"{module.partition('.')[0]} is not installed, which this needs: pip install 'eunoe[{name}]'"
        ) from None
