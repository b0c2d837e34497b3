"""The form of memories as a question offers it: who spoke, and the lines that each of them said."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import ConfigDict, model_validator

from eunoe.workers.summarize.prompt import MAX_CITES, MemoriesAnswer

Schema = dict[str, Any]
Said = tuple[tuple[str, tuple[int, ...]], ...]
"""Speaker → the numbers of their lines that prove something, in order of appearance."""


@lru_cache(maxsize=1024)
def memories_form(said: Said) -> type[MemoriesAnswer]:
    """`MemoriesAnswer` of which every memory names a line that its own speaker said, and further ones of anybody.

    An endpoint that enforces such a schema cannot cite for somebody what only others said. The plain form, with all
    lines in ``cites``, is understood too: answers are recorded so, and an endpoint without schemas may give it.
    """

    class Form(MemoriesAnswer):
        # looking for docstrings in source files takes longer than all else, and there are none here
        model_config = ConfigDict(use_attribute_docstrings=False)

        @classmethod
        def model_json_schema(cls, *args: Any, **options: Any) -> Schema:  # noqa: ANN401 - pydantic's own
            return _by_speaker(MemoriesAnswer.model_json_schema(*args, **options), said)

        @model_validator(mode="before")
        @classmethod
        def _cited(cls, answer: Any) -> Any:  # noqa: ANN401 - any JSON
            if not isinstance(answer, Mapping) or not isinstance(answer.get("memories"), list):
                return answer
            return {**answer, "memories": [_plain(memory) for memory in answer["memories"]]}

    Form.__name__ = Form.__qualname__ = MemoriesAnswer.__name__
    return Form


def _by_speaker(schema: Schema, said: Said) -> Schema:
    item = schema["$defs"].pop("FormedMemory")
    every = sorted(number for _, numbers in said for number in numbers)
    schema["$defs"]["Line"] = {"type": "integer", "enum": every}
    for place, (speaker, numbers) in enumerate(said, 1):
        schema["$defs"][f"Memory{place}"] = {
            "type": "object",
            "properties": {
                "speaker": {"type": "string", "enum": [speaker]},
                "text": item["properties"]["text"],
                "own_line": {"type": "integer", "enum": list(numbers)},
                "cites": {"type": "array", "items": {"$ref": "#/$defs/Line"}, "maxItems": MAX_CITES - 1},
            },
        }
    kinds = [{"$ref": f"#/$defs/Memory{place}"} for place in range(1, len(said) + 1)]
    schema["properties"]["memories"]["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    return schema


def _plain(memory: Any) -> Any:  # noqa: ANN401 - any JSON
    """The memory with its speaker's line among those that it cites; what is of no such form stays, and is refused."""
    if not isinstance(memory, Mapping) or "own_line" not in memory or not isinstance(memory.get("cites"), list):
        return memory
    cites = [memory["own_line"], *(number for number in memory["cites"] if number != memory["own_line"])]
    return {**{name: part for name, part in memory.items() if name != "own_line"}, "cites": cites}
