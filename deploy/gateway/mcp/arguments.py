"""Tools whose arguments are checked in full: a misspelt one is refused, and no value is repeated."""

from collections.abc import Callable
from typing import Any, Final

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import ValidationError
from pydantic_core import ErrorDetails

_SHOWN_CHARS: Final = 100
"""Characters of an argument's name that an error repeats: the caller chose it."""


class CheckedTool(Tool):
    """A tool that names what is wrong with its arguments, as the routes name the fields of a body."""

    @classmethod
    def of(cls, function: Callable[..., Any], description: str, annotations: ToolAnnotations) -> "CheckedTool":
        """The tool of a function; an argument that it does not have is refused.

        The library ignores such arguments: a request to forget something smaller, with a misspelt name, would be one
        to forget everything.
        """
        made = cls.from_function(function, description=description, annotations=annotations)
        form = made.fn_metadata.arg_model
        form.model_config["extra"] = "forbid"
        form.model_rebuild(force=True)
        made.parameters = form.model_json_schema(by_alias=True)
        assert isinstance(made, cls)
        return made

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:  # noqa: ANN401 - as the library's own
        """Run the tool; raises `ToolError` for wrong arguments, and as the library does."""
        try:
            self.fn_metadata.validate_arguments(arguments)
        except ValidationError as error:
            raise ToolError(f"wrong arguments of {self.name}: {_faults(error)}") from None
        return await super().run(arguments, context, convert_result)


def _faults(error: ValidationError) -> str:
    return "; ".join(map(_fault, error.errors(include_url=False, include_input=False)[:10]))


def _fault(fault: ErrorDetails) -> str:
    name = ".".join(map(str, fault["loc"]))[:_SHOWN_CHARS] or "arguments"
    match fault["type"]:
        case "extra_forbidden":
            return f"{name} is unknown here"
        case "missing":
            return f"{name} is missing"
        case "tuple_type":  # JSON has none
            return f"{name}: must be a list"
    return f"{name}: {fault['msg'].removeprefix('Value error, ')}"
