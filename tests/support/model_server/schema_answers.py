"""A value that fits a JSON Schema, drawn from the words of a prompt by its hash.

A list of numbered items has one for each that the prompt says there is.
"""

import hashlib
import random
import re
from collections.abc import Mapping
from typing import Any

_ROW = re.compile(r"^\[?(\d{1,6})\]?[ :]", re.MULTILINE)
_NUMBERED = re.compile(r"numbered 1 to (\d{1,6})")
_PHRASE = re.compile(r"[^\n.!?<>{}]{8,160}")
_DEEPEST = 6


class SchemaAnswers:
    """Makes answers to one question: the same prompt and schema give the same answer."""

    def __init__(self, schema: Mapping[str, Any], prompt: str) -> None:
        self._schema = schema
        self._defs: Mapping[str, Any] = schema.get("$defs", {})
        self._chance = random.Random(hashlib.sha256(prompt.encode()).digest())
        self._phrases = [phrase.strip() for phrase in _PHRASE.findall(prompt)][-40:] or ["nothing was said here"]
        self._rows = [int(number) for number in _ROW.findall(prompt)]
        self._items = max((int(number) for number in _NUMBERED.findall(prompt)), default=0)

    def make(self) -> Any:
        """A value of the schema."""
        return self._value(self._schema, 0)

    def _value(self, node: Mapping[str, Any], depth: int) -> Any:
        if "$ref" in node:
            return self._value(self._defs[node["$ref"].rsplit("/", 1)[-1]], depth)
        if "const" in node:
            return node["const"]
        if "enum" in node:
            return self._chance.choice(node["enum"])
        for either in ("anyOf", "oneOf"):
            if either in node:
                return self._value(self._pick(node[either], depth), depth)
        return self._typed(node, depth)

    def _pick(self, choices: list[Mapping[str, Any]], depth: int) -> Mapping[str, Any]:
        flat = [choice for choice in choices if choice.get("type") == "null"]
        return flat[0] if flat and depth > _DEEPEST else self._chance.choice(choices)

    def _typed(self, node: Mapping[str, Any], depth: int) -> Any:
        match node.get("type"):
            case "object":
                return {name: self._value(part, depth + 1) for name, part in node.get("properties", {}).items()}
            case "array" if self._items and "n" in self._item(node).get("properties", {}):
                rows = [self._value(node["items"], depth + 1) for _ in range(self._items)]
                return [{**row, "n": number} for number, row in enumerate(rows, 1)]
            case "array":
                return [self._value(node["items"], depth + 1) for _ in range(self._length(node, depth))]
            case "integer":
                return self._integer(node)
            case "number":
                return round(node.get("minimum", 0) + self._chance.random() * _room(node), 3)
            case "boolean":
                return self._chance.random() < 0.5
            case "null":
                return None
            case _:
                return self._text(node)

    def _item(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        """The schema of a list's items."""
        item: Mapping[str, Any] = node["items"]
        return self._defs[item["$ref"].rsplit("/", 1)[-1]] if "$ref" in item else item

    def _length(self, node: Mapping[str, Any], depth: int) -> int:
        least = node.get("minItems", 0)
        most = least if depth > _DEEPEST else max(least, min(node.get("maxItems", 3), 3))
        return self._chance.randint(min(least or 1, most), most)

    def _integer(self, node: Mapping[str, Any]) -> int:
        least, most = node.get("minimum", 0), node.get("maximum", 10**9)
        fitting = [number for number in self._rows if least <= number <= most]
        return self._chance.choice(fitting) if fitting else int(least)

    def _text(self, node: Mapping[str, Any]) -> str:
        if node.get("format") == "date-time":
            return "2026-03-01T00:00:00Z"
        text: str = self._chance.choice(self._phrases)[: node.get("maxLength", 200)]
        return text.ljust(node.get("minLength", 0), ".")


def _room(node: Mapping[str, Any]) -> float:
    return float(node.get("maximum", node.get("minimum", 0) + 1) - node.get("minimum", 0))


def wrong_ids(value: Any) -> Any:
    """The same value with every number and every id one that nobody offered."""
    if isinstance(value, dict):
        return {key: "no-such-id" if _names_id(key, part) else wrong_ids(part) for key, part in value.items()}
    if isinstance(value, list):
        return [wrong_ids(part) for part in value]
    return value + 1_000_000 if isinstance(value, int) and not isinstance(value, bool) else value


def _names_id(key: str, part: Any) -> bool:
    return isinstance(part, str) and (key == "id" or key.endswith("_id"))


def is_strict(node: Any) -> bool:
    """True: every object in the schema is closed and requires all its fields, as structured outputs ask."""
    if isinstance(node, list):
        return all(is_strict(part) for part in node)
    if not isinstance(node, dict):
        return True
    if node.get("type") == "object" and (
        node.get("additionalProperties") is not False
        or set(node.get("required", ())) != set(node.get("properties", ()))
    ):
        return False
    return all(is_strict(part) for part in node.values())
