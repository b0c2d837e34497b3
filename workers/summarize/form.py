"""The answer form of one prompt: the speakers, and the numbers of each speaker's lines."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import ConfigDict, model_validator

from eunoe.workers.summarize.prompt import MAX_CITES, MemoriesAnswer

Schema = dict[str, Any]
LinesBySpeaker = tuple[tuple[str, tuple[int, ...]], ...]
"""(speaker, numbers of their evidence lines), in order of appearance."""


@lru_cache(maxsize=1024)
def memories_form(lines_by_speaker: LinesBySpeaker) -> type[MemoriesAnswer]:
    """`MemoriesAnswer` in which every memory cites a line of its own speaker, and optionally others.

    An endpoint that enforces the schema cannot attribute to a speaker what only others said. The plain form, with all
    lines in ``cites``, is accepted too: answers are recorded in it, and endpoints without schemas may return it.
    """

    class Form(MemoriesAnswer):
        # searching the source for attribute docstrings is slow, and there are none here
        model_config = ConfigDict(use_attribute_docstrings=False)

        @classmethod
        def model_json_schema(cls, *args: Any, **options: Any) -> Schema:  # noqa: ANN401 - pydantic's own
            return _by_speaker(MemoriesAnswer.model_json_schema(*args, **options), lines_by_speaker)

        @model_validator(mode="before")
        @classmethod
        def _cited(cls, answer: Any) -> Any:  # noqa: ANN401 - any JSON
            if not isinstance(answer, Mapping) or not isinstance(answer.get("memories"), list):
                return answer
            return {**answer, "memories": [_without_own_line(memory) for memory in answer["memories"]]}

    Form.__name__ = Form.__qualname__ = MemoriesAnswer.__name__
    return Form


def _by_speaker(schema: Schema, lines_by_speaker: LinesBySpeaker) -> Schema:
    item = schema["$defs"].pop("FormedMemory")
    every = sorted(number for _, numbers in lines_by_speaker for number in numbers)
    schema["$defs"]["Line"] = {"type": "integer", "enum": every}
    for place, (speaker, numbers) in enumerate(lines_by_speaker, 1):
        schema["$defs"][f"Memory{place}"] = {
            "type": "object",
            "properties": {
                "speaker": {"type": "string", "enum": [speaker]},
                "text": item["properties"]["text"],
                "own_line": {"type": "integer", "enum": list(numbers)},
                "cites": {"type": "array", "items": {"$ref": "#/$defs/Line"}, "maxItems": MAX_CITES - 1},
            },
        }
    kinds = [{"$ref": f"#/$defs/Memory{place}"} for place in range(1, len(lines_by_speaker) + 1)]
    schema["properties"]["memories"]["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    return schema


def _without_own_line(memory: Any) -> Any:  # noqa: ANN401 - any JSON
    """The memory with ``own_line`` moved into ``cites``; anything of another form is returned unchanged."""
    if not isinstance(memory, Mapping) or "own_line" not in memory or not isinstance(memory.get("cites"), list):
        return memory
    cites = [memory["own_line"], *(number for number in memory["cites"] if number != memory["own_line"])]
    return {**{name: part for name, part in memory.items() if name != "own_line"}, "cites": cites}
