"""The table of settings for the README, made from the settings themselves.

``python -m eunoe.deploy.contracts.settings_page README.md`` writes it between its two marks.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from eunoe.deploy.settings import Settings

Row = tuple[str, str, str]
"""(environment variable, default, meaning)."""


def settings_rows(form: type[BaseModel] = Settings, prefix: str = "EUNOE_") -> Iterator[Row]:
    """Every setting, rooms and broker included: servers and process first, the rooms after them."""
    own_first = sorted(form.model_fields, key=lambda name: name not in form.__annotations__)
    for name in own_first:
        field = form.model_fields[name]
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from settings_rows(inner, f"{prefix}{name.upper()}__")
        else:
            yield f"{prefix}{name.upper()}", _default(field), " ".join((field.description or "").split())


def settings_table() -> str:
    """The rows as Markdown."""
    rows = [f"| `{name}` | {default} | {meaning} |" for name, default, meaning in settings_rows()]
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows])


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=False)
    return "–" if value is None else f"`{getattr(value, 'value', value)}`"


BEGIN, END = "<!-- settings -->", "<!-- /settings -->"


def with_table(text: str) -> str:
    """The text with the table between its marks; raises ``ValueError`` where they are not."""
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{settings_table()}\n{END}{after}"


if __name__ == "__main__":
    readme = Path(sys.argv[1])
    readme.write_text(with_table(readme.read_text()))
