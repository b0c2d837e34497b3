"""The tables of `deploy/docs/settings.md`, made from the settings themselves: one for each tier."""

from collections.abc import Iterator
from typing import NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from eunoe.deploy.contracts.docstrings import attribute_docs
from eunoe.deploy.settings import Settings
from eunoe.schemas.base import Tier
from tests.support.derived.blocks import markdown_marks, with_block


class SettingRow(NamedTuple):
    """A row of a table."""

    name: str
    """The environment variable."""
    default: str
    meaning: str
    tier: Tier


def settings_rows(form: type[BaseModel] = Settings, prefix: str = "EUNOE_") -> Iterator[SettingRow]:
    """Every setting: servers and process first, then those of the broker's clients and of the stages."""
    docs = _docs_of(form)
    own_first = sorted(form.model_fields, key=lambda name: name not in form.__annotations__)
    for name in own_first:
        field = form.model_fields[name]
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from settings_rows(inner, f"{prefix}{name.upper()}__")
        else:
            meaning = " ".join((field.description or docs.get(name, "")).split())
            yield SettingRow(f"{prefix}{name.upper()}", _default(field), meaning, _tier(field))


def _docs_of(form: type[BaseModel]) -> dict[str, str]:
    """Name → docstring of the fields of a section; other fields have their descriptions beside them."""
    if issubclass(form, BaseSettings):
        return {}
    sections = [base for base in reversed(form.__mro__) if issubclass(base, BaseModel) and base is not BaseModel]
    return {name: text for section in sections for name, text in attribute_docs(section).items()}


def settings_table(tier: Tier) -> str:
    """The settings of a tier as Markdown."""
    rows = [f"| `{row.name}` | {row.default} | {row.meaning} |" for row in settings_rows() if row.tier is tier]
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows])


def _tier(field: FieldInfo) -> Tier:
    return next((mark for mark in field.metadata if isinstance(mark, Tier)), Tier.LEAVE)


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=False)
    return "–" if value is None else f"`{getattr(value, 'value', value)}`"


def with_tables(page: str) -> str:
    """The page with the table of each tier between its marks; raises ``ValueError`` where a mark is missing."""
    for tier in Tier:
        page = with_block(page, markdown_marks(f"settings: {tier}"), settings_table(tier))
    return page
