"""The model that an answer names, beside the one that was asked for: a proxy may have another one answer."""

import logging
import re
from typing import Any, Final

log = logging.getLogger(__name__)

_MAX_NAME: Final = 100
"""Characters of a name that are read."""
_MAX_NAMES: Final = 8
"""Names of a model that are logged: some servers give each answer a name of its own."""
_DATED: Final = re.compile(r"[-@:](?:latest|\d{4}-\d{2}-\d{2}|\d{4,8})\Z")
"""The end of a name that says which edition of the model it is."""


def named_model(document: Any) -> str:  # noqa: ANN401 - JSON
    """The model that an answer names; empty where it names none."""
    name = document.get("model") if isinstance(document, dict) else None
    return name[:_MAX_NAME] if isinstance(name, str) else ""


def is_another(asked: str, named: str) -> bool:
    """Whether an answer names another model: a provider in front of a name and a date behind it make no other."""
    return bool(named) and _plain(asked) != _plain(named)


def _plain(name: str) -> str:
    return _DATED.sub("", name.rpartition("/")[2].strip().casefold())


class AnsweringModels:
    """Logs each other model that answers in the place of ``asked``, once."""

    def __init__(self, asked: str) -> None:
        self._asked = asked
        self._named: set[str] = set()

    def note(self, named: str, server: str) -> None:
        """Note the name in an answer of ``server``."""
        if named in self._named or len(self._named) >= _MAX_NAMES or not is_another(self._asked, named):
            return
        self._named.add(named)
        log.info("%s: its answers name another model: %r", server, named)
