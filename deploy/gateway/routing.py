"""The table of routes, and the search in it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from pydantic import TypeAdapter, ValidationError

from eunoe.deploy.gateway import bodies, erasures, operation_results, results
from eunoe.deploy.gateway.calls import JSON_TYPE, NDJSON_TYPES, Handler
from eunoe.deploy.gateway.keys import OF_ALL_TENANTS, KeyScope
from eunoe.deploy.gateway.problems import FieldFault, Problem
from eunoe.deploy.gateway.routes import (
    asks,
    conversations,
    events,
    feeds,
    letters,
    memory,
    operation,
    recalls,
    replies,
)
from eunoe.deploy.gateway.routes import erasures as erasing
from eunoe.deploy.inspect.explain import Explanation
from eunoe.schemas.base import Identifier, Value
from eunoe.schemas.replies import Recalled, Reply

_ID: Final[TypeAdapter[str]] = TypeAdapter(Identifier)
_LONE_PERCENT: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a path, with all that its description needs."""

    method: str
    path: str
    """With parameters in braces: ``/v1/conversations/{conversation}``."""
    scope: KeyScope
    handle: Handler
    query: type[Value] = bodies.NoQuery
    body: Any = None
    """The type of the body; `None` means that there is none."""
    body_type: str = JSON_TYPE
    status: int = 200
    result: type[Value] | None = None
    """The form of the answer; `None` for a stream alone."""
    streams: bool = False
    """Whether the answer can be a stream."""
    waits: bool = False
    """Whether the header ``Prefer: wait`` counts."""
    parts: tuple[str, ...] = field(init=False)
    pattern: tuple[bytes | None, ...] = field(init=False)
    """The parts as they are sent; `None` for a parameter."""

    def __post_init__(self) -> None:
        parts = tuple(self.path.strip("/").split("/"))
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "pattern", tuple(None if part.startswith("{") else part.encode() for part in parts))

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names in the path."""
        return tuple(part[1:-1] for part in self.parts if part.startswith("{"))

    @property
    def of_tenant(self) -> bool:
        """Whether the credential must name one tenant; only dead letters and processes are seen across tenants."""
        return self.scope not in OF_ALL_TENANTS


_C: Final = "/v1/conversations/{conversation}"

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "POST", f"{_C}/events", KeyScope.EVENTS_WRITE, events.add_event, body=bodies.EventBody, status=202,
        result=results.EventAccepted,
    ),
    Route(
        "POST", "/v1/events", KeyScope.EVENTS_WRITE, events.add_batch, body=bodies.BatchLine, body_type=NDJSON_TYPES[0],
        status=202, result=results.BatchAccepted,
    ),
    Route("POST", f"{_C}/asks", KeyScope.ASK, asks.ask, body=bodies.AskBody, result=Reply, streams=True, waits=True),
    Route("GET", f"{_C}/asks/{{request}}", KeyScope.ASK, asks.resume_ask, result=Reply, streams=True, waits=True),
    Route(
        "POST", f"{_C}/recall", KeyScope.MEMORY_READ, recalls.recall, body=bodies.RecallBody, result=Recalled,
        waits=True,
    ),
    Route(
        "GET", "/v1/conversations", KeyScope.MEMORY_READ, conversations.list_conversations, query=bodies.PageQuery,
        result=results.ConversationPage,
    ),
    Route("GET", _C, KeyScope.MEMORY_READ, conversations.show_conversation, result=results.ConversationStatus),
    Route(
        "GET", f"{_C}/sessions", KeyScope.MEMORY_READ, conversations.list_sessions, query=bodies.SessionPageQuery,
        result=results.SessionPage,
    ),
    Route(
        "GET", f"{_C}/sessions/{{session}}", KeyScope.MEMORY_READ, conversations.show_session, query=bodies.WaitQuery,
        result=results.SessionView,
    ),
    Route(
        "GET", f"{_C}/memories", KeyScope.MEMORY_READ, memory.list_memories, query=bodies.MemoriesQuery,
        result=results.MemoryPage,
    ),
    Route(
        "GET", f"{_C}/profile", KeyScope.MEMORY_READ, memory.show_profile, query=bodies.ProfileQuery,
        result=results.ProfileView,
    ),
    Route(
        "GET", f"{_C}/memories/{{memory}}/history", KeyScope.MEMORY_READ, memory.show_history,
        result=results.MemoryHistory,
    ),
    Route(
        "GET", f"{_C}/timelines", KeyScope.MEMORY_READ, memory.list_timelines, query=bodies.SessionPageQuery,
        result=results.TimelinePage,
    ),
    Route(
        "GET", f"{_C}/timelines/{{root}}", KeyScope.MEMORY_READ, memory.show_timeline, query=bodies.TimelineQuery,
        result=results.TimelineView,
    ),
    Route("GET", f"{_C}/tree", KeyScope.MEMORY_READ, memory.show_tree, query=bodies.TreeQuery, result=results.TreeView),
    Route(
        "GET", f"{_C}/replies/{{reply}}", KeyScope.MEMORY_READ, replies.show_reply, query=bodies.ReplyQuery,
        result=Reply,
    ),
    Route(
        "GET", f"{_C}/replies/{{reply}}/why", KeyScope.MEMORY_READ, replies.explain_reply, query=bodies.ReplyQuery,
        result=Explanation,
    ),
    Route("GET", f"{_C}/state", KeyScope.OPERATE, memory.show_state, result=operation_results.StateView),
    Route(
        "GET", f"{_C}/generations/{{generation}}/diff", KeyScope.OPERATE, operation.show_difference,
        query=bodies.DifferenceQuery, result=operation_results.GenerationDifference,
    ),
    Route(
        "GET", "/v1/generations", KeyScope.OPERATE, operation.list_generations, result=operation_results.GenerationPage,
    ),
    Route(
        "GET", "/v1/processes", KeyScope.PROCESSES_READ, operation.list_processes, result=operation_results.ProcessPage,
    ),
    Route(
        "GET", f"{_C}/remembered", KeyScope.MEMORY_READ, feeds.follow_conversation, query=bodies.StreamQuery,
        streams=True,
    ),
    Route("GET", "/v1/remembered", KeyScope.MEMORY_READ, feeds.follow_all, query=bodies.StreamQuery, streams=True),
    Route(
        "GET", "/v1/dead-letters", KeyScope.LETTERS_READ, letters.list_letters, query=bodies.LettersQuery,
        result=operation_results.LetterPage,
    ),
    Route(
        "GET", "/v1/dead-letters/{letter}", KeyScope.LETTERS_READ, letters.show_letter,
        result=operation_results.LetterView,
    ),
    Route(
        "POST", "/v1/dead-letters/{letter}/retry", KeyScope.LETTERS_WRITE, letters.retry_letter,
        result=operation_results.LetterView,
    ),
    Route(
        "POST", "/v1/dead-letters/{letter}/discard", KeyScope.LETTERS_WRITE, letters.discard_letter,
        result=operation_results.LetterView,
    ),
    Route(
        "POST", f"{_C}/erasures", KeyScope.ERASE, erasing.add_erasure, body=bodies.EraseBody, status=202,
        result=erasures.ErasureView,
    ),
    Route(
        "POST", f"{_C}/erasure-plans", KeyScope.ERASE, erasing.plan_erasure, body=bodies.EraseBody,
        result=erasures.ErasurePlan,
    ),
    Route("GET", f"{_C}/erasures", KeyScope.ERASE, erasing.list_erasures, result=erasures.ErasurePage),
    Route("GET", f"{_C}/erasures/{{erasure}}", KeyScope.ERASE, erasing.show_erasure, result=erasures.ErasureView),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    """A route and the parameters of its path."""

    route: Route
    path: Mapping[str, str]


def find_route(method: str, raw_path: bytes) -> Found:
    """The route of a request, by the path as it was sent: each part is unquoted once, so that ids may hold slashes.

    HEAD is the GET whose answer has no body.

    Raises `Problem`: 404 for an unknown path, 405 for another method, 422 for a part that is no id.
    """
    parts = tuple(raw_path.split(b"?")[0].strip(b"/").split(b"/"))
    there = [route for route in ROUTES if _fits(route, parts)]
    if not there:
        raise Problem(404, "there is no such address; /v1/openapi.json lists all")
    wanted = "GET" if method == "HEAD" else method
    for route in there:
        if route.method == wanted:
            return Found(route, _values(route, parts))
    methods = {route.method for route in there}
    allowed = ", ".join(sorted(methods | {"HEAD"} if "GET" in methods else methods))
    raise Problem(405, f"this address takes {allowed}", headers={"Allow": allowed})


def _fits(route: Route, parts: Sequence[bytes]) -> bool:
    if len(parts) != len(route.pattern):
        return False
    # backwards: the last parts tell routes apart, nearly all begin alike
    for wanted, given in zip(reversed(route.pattern), reversed(parts), strict=True):
        if wanted != given and (wanted is not None or not given):
            return False
    return True


def _values(route: Route, parts: Sequence[bytes]) -> dict[str, str]:
    pairs = zip(route.parts, parts, strict=True)
    return {wanted[1:-1]: _value(wanted[1:-1], given) for wanted, given in pairs if wanted.startswith("{")}


def _value(name: str, given: bytes) -> str:
    try:
        # unquoting would leave it as it is: to a client that does not encode, one id would serve and the next not
        if _LONE_PERCENT.search(given) is None:
            return _ID.validate_python(unquote_to_bytes(given).decode())
        why = "has a % without two hexadecimal digits behind it: percent-encode ids, so that it is %25"
    except UnicodeDecodeError:
        why = "is not percent-encoded UTF-8"
    except ValidationError:
        why = "must have 1 to 200 characters, without control characters or white space at its ends"
    raise Problem(422, "a part of the path is no id", errors=[FieldFault(field=name, message=why)])
