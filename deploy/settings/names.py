"""Names of environment variables that nearly are settings: a misspelt one would leave a default in force unseen."""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from pydantic import BaseModel

PREFIX = "EUNOE_"

_SERVICE_LINK = re.compile(r"_(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP)\w*)?)$")
"""The end of what Kubernetes sets in every container for a service whose name begins with ``eunoe-``."""
_LIKENESS = 0.8
"""Of two names without their prefix, from which on one is taken for the other misspelt (see `difflib`)."""


def setting_names(form: type[BaseModel], prefix: str = PREFIX) -> Iterator[str]:
    """The environment variables of a class of settings: its fields, and those of its sections, ``SECTION__FIELD``."""
    for name, field in form.model_fields.items():
        yield f"{prefix}{name.upper()}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from setting_names(field.annotation, f"{prefix}{name.upper()}__")


def misspelt(variables: Iterable[str], form: type[BaseModel]) -> dict[str, str]:
    """The variables that no field of ``form`` reads although they resemble one → the one that they resemble.

    Unlike names are left alone: other programs may have variables with this prefix. A wrong field of a right section is
    refused when the settings are read.
    """
    sections = {f"{PREFIX}{name.upper()}" for name in form.model_fields}
    unknown = [name for name in variables if name.startswith(PREFIX) and name.split("__")[0] not in sections]
    known = {name.removeprefix(PREFIX): name for name in setting_names(form)} if unknown else {}
    found = {}
    for name in sorted(name for name in unknown if not _SERVICE_LINK.search(name)):
        for likely in get_close_matches(name.removeprefix(PREFIX), known, n=1, cutoff=_LIKENESS):
            found[name] = known[likely]
    return found
