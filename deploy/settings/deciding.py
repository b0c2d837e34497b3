"""The settings that decide the contents of memory, and how a process hands them on to one that decides with it."""

import json
from typing import Any, Final

from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.names import PREFIX
from eunoe.deploy.settings.sections import ModelOptions
from eunoe.workers.registry import StageSettings

_OF_MODELS: Final = frozenset(
    {"model", "models", *(f"model_{name}" for name in ModelOptions.model_fields.keys() - {"model", "timeout_seconds"})}
)
DECIDING: Final = frozenset({*StageSettings.model_fields, *_OF_MODELS, "embedding", "compression", "language"})
"""Names of these settings: a rebuild may change them. None of them names a server."""


def decided(settings: Settings) -> dict[str, Any]:
    """The deciding settings that are set, as JSON; what is left at its default is left out, also within sections."""
    return settings.model_dump(mode="json", include=set(DECIDING), exclude_unset=True)


def deciding_variables(settings: Settings) -> dict[str, str]:
    """Environment variables that give a child process the deciding settings; a section is one variable, as JSON."""
    return {
        f"{PREFIX}{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in decided(settings).items()
        if value is not None
    }
