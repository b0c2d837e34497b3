"""The contracts as JSON Schema (2020-12), with what their docstrings say."""

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final, get_args

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from eunoe.deploy.contracts.docstrings import attribute_docs
from eunoe.schemas.base import Contract, Identifier, Text, Value

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
WRITTEN: Final = "Written by `eunoe schemas`; do not edit."

# The rules of the vocabulary that pydantic cannot put into a schema by itself, in the part of regular expressions
# that ECMAScript, RE2 and Python have in common (so no look-around, and the separators as themselves)
_CONTROLS = "\\x00-\\x1f\\x7f-\\x9f\u2028\u2029"
NO_CONTROLS: Final = rf"^[^\s{_CONTROLS}]([^{_CONTROLS}]*[^\s{_CONTROLS}])?$"
NOT_BLANK: Final = r"\S"
ZONED: Final = r"^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)$"

_JSON_NAMES: Mapping[str, str] = {"None": "null", "True": "true", "False": "false"}

Rule = tuple[Any, str]


def _rule_of(name: object, pattern: str) -> Rule:
    return get_args(name)[-1].func, pattern


_PATTERNS: Mapping[Any, str] = dict([_rule_of(Identifier, NO_CONTROLS), _rule_of(Text, NOT_BLANK)])


def contract_schema(contract: type[Contract]) -> dict[str, Any]:
    """The JSON Schema of a contract's latest version, whole: all that it refers to is in its ``$defs``.

    ``type`` is required, and so is ``schema_version`` from version 2 on: a record without one is of version 1. Where
    later versions only added fields, a record of any version is one of the latest.
    """
    tag, latest = contract.type_tag(), contract.LATEST
    schema = contract.model_json_schema(schema_generator=DocumentedSchemas)
    is_open = latest == 1 or bool(contract.ADDED)
    values = {"enum": list(range(1, latest + 1))} if contract.ADDED else {"const": latest}
    version: dict[str, Any] = {**values, "description": "The version of the schema that the record follows."}
    schema["properties"]["schema_version"] = {**version, "default": 1} if is_open else version
    needed = ["type"] if is_open else ["type", "schema_version"]
    schema["required"] = [*needed, *(name for name in schema.get("required", ()) if name not in needed)]
    return {"$schema": DIALECT, "$id": f"urn:eunoe:schema:{tag}:{latest}", "$comment": WRITTEN, **schema}


class DocumentedSchemas(GenerateJsonSchema):
    """Adds the docstrings of fields and enum members, and the patterns of the vocabulary."""

    def field_title_should_be_set(self, schema: object) -> bool:
        """Never: a title that repeats the field's name says nothing."""
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """The object, with what the docstring under each field says."""
        made = super().model_schema(schema)
        docs = {name: text for base in reversed(schema["cls"].__mro__) for name, text in _docs_of(base)}
        for name, field in made.get("properties", {}).items():
            if name in docs:
                field["description"] = docs[name]
        return made

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        """The values, with what the docstring under each says."""
        made = super().enum_schema(schema)
        cls: type[Enum] = schema["cls"]
        docs = {cls[name].value: text for name, text in _docs_of(cls)}
        return {**made, "x-enumDescriptions": docs} if docs else made

    def function_after_schema(self, schema: core_schema.AfterValidatorFunctionSchema) -> JsonSchemaValue:
        """The inner schema, with the pattern of the rule that the function checks."""
        made = super().function_after_schema(schema)
        pattern = _PATTERNS.get(schema["function"]["function"])
        return made if pattern is None else {**made, "pattern": pattern}

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        """A time with a zone: ``format`` alone binds no validator."""
        return {**super().datetime_schema(schema), "pattern": ZONED}


def _docs_of(cls: type[Any]) -> Iterator[tuple[str, str]]:
    """(name, docstring) of each attribute of a class of ours."""
    if issubclass(cls, Enum | Value) and cls.__module__.startswith("eunoe."):
        yield from ((name, _in_json_terms(text)) for name, text in attribute_docs(cls).items())


def _in_json_terms(text: str) -> str:
    named = re.sub(r"\b(None|True|False)\b", lambda match: _JSON_NAMES[match[0]], text)
    return named.replace("``", "`")
