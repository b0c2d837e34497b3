"""The OpenAPI 3.1 document, written from the routes and their forms."""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import orjson
from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from eunoe.deploy.contracts.json_schemas import DocumentedSchemas
from eunoe.deploy.gateway.bodies import ASK_PLACE, FEED_PLACE, WaitQuery
from eunoe.deploy.gateway.calls import JSON_TYPE
from eunoe.deploy.gateway.problems import PROBLEM_TYPE, ProblemDocument
from eunoe.deploy.gateway.results import AskAccepted
from eunoe.deploy.gateway.routing import ROUTES, Route
from eunoe.deploy.gateway.sse import EVENT_STREAM
from eunoe.schemas.base import Identifier

OPENAPI: Final = "openapi.json"
API_VERSION: Final = "1.0.0"
_REF: Final = "#/components/schemas/{model}"

INTRODUCTION: Final = """\
Long-term memory for chats, over HTTP. Every request but this document carries a key: `Authorization: Bearer eu_…`. The
tenant is that of the key. An accepted event (202) is in the log, acknowledged by all in-sync replicas.

Errors are problem documents (RFC 9457). `instance` is the id of the request, as in the header `X-Request-Id`.
"""

_STATUS: Final = {
    "401": "No valid credential.",
    "403": "The credential lacks the scope, or does not reach the conversation.",
    "404": "Unknown, or of another tenant.",
    "408": "The body did not come in time.",
    "409": "In conflict with an earlier request, or with the state.",
    "410": "The answer is gone: ask again, with other ids.",
    "413": "Too large.",
    "415": "Another content type is needed.",
    "422": "The request does not match its schema; `errors` names the fields.",
    "502": "The responder could not answer.",
    "503": "A server of the memory does not answer, or this replica holds too many open requests.",
    "504": "No answer in time; it may still come.",
}

_LOOK_UP: Final = ("ask", "resume_ask", "show_reply", "explain_reply")
"""The operations that may look for an answer in the log."""
_RETRY_AFTER: Final = {
    "description": "Seconds after which to come again.",
    "schema": {"type": "integer", "minimum": 1},
}

ASK_EVENTS: Final = ("accepted", "reply", "error", "closing")
FEED_EVENTS: Final = ("ready", "remembered", "derived", "reset", "error", "closing")

_PARAMETERS: Final = {
    "conversation": "The conversation's id.",
    "session": "The number of a closed session, `last`, `open`, or `id:` and the client's id of the session.",
    "request": "The `request_id` of the ask.",
    "memory": "The id of a memory.",
    "root": "The id of a memory of the timeline.",
    "reply": "The `reply_id` of a reply.",
    "generation": "The name of a generation.",
    "letter": "The id of the dead letter.",
    "erasure": "The `request_id` of the erasure.",
}

Document = dict[str, Any]


@cache
def openapi_bytes() -> bytes:
    """The document as JSON."""
    return orjson.dumps(openapi_document(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def openapi_document() -> Document:
    """The document."""
    schemas, refs = _schemas()
    paths: dict[str, Document] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, refs)
    paths["/v1/openapi.json"] = {"get": _own_operation()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "eunoe",
            "version": API_VERSION,
            "description": INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An API key of `eunoe keys`, or a JWT."}
            },
        },
    }


Refs = dict[tuple[int, JsonSchemaMode], Document]


def _forms() -> Iterator[tuple[Any, JsonSchemaMode]]:
    yield ProblemDocument, "serialization"
    yield AskAccepted, "serialization"
    for route in ROUTES:
        if route.body is not None:
            yield route.body, "validation"
        if route.result is not None:
            yield route.result, "serialization"


def _schemas() -> tuple[Document, Refs]:
    """The schemas of all forms, and the reference to each."""
    forms = {(id(form), mode): form for form, mode in _forms()}
    inputs = [(key, key[1], TypeAdapter(form)) for key, form in forms.items()]
    found, whole = TypeAdapter.json_schemas(inputs, ref_template=_REF, schema_generator=DocumentedSchemas)
    refs = {key: schema for (key, _), schema in found.items()}
    return whole.get("$defs", {}), refs


def _operation(route: Route, refs: Refs) -> Document:
    doc = str(route.handle.__doc__).strip().splitlines()[0]
    made: Document = {
        "operationId": route.handle.__name__,
        "summary": doc,
        "description": f"Scope: `{route.scope.value}`.",
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_header_parameters(route)],
        "responses": _responses(route, refs),
    }
    if route.body is not None:
        schema = refs[id(route.body), "validation"]
        made["requestBody"] = {"required": True, "content": {route.body_type: {"schema": schema}}}
        if route.body_type != JSON_TYPE:
            made["requestBody"]["description"] = "One JSON object a line; the schema is that of a line."
    return made


def _path_parameters(route: Route) -> Iterator[Document]:
    schema = TypeAdapter(Identifier).json_schema(schema_generator=DocumentedSchemas)
    for name in route.parameters:
        yield {"name": name, "in": "path", "required": True, "description": _PARAMETERS[name], "schema": schema}


def _query_parameters(route: Route) -> Iterator[Document]:
    schema = route.query.model_json_schema(schema_generator=DocumentedSchemas)
    for name, field in schema.get("properties", {}).items():
        own = dict(field)
        made = {
            "name": name,
            "in": "query",
            "required": False,
            "description": own.pop("description", ""),
            "schema": own,
        }
        yield made if made["description"] else {key: part for key, part in made.items() if key != "description"}


def _header_parameters(route: Route) -> Iterator[Document]:
    if route.waits:
        late = "202" if route.streams else "504"
        text = f"`wait=30`: how many seconds to wait for the answer; without an answer by then, {late}."
        yield {"name": "Prefer", "in": "header", "required": False, "description": text, "schema": {"type": "string"}}
    if route.streams and route.method == "GET":
        text = "The id of the last event that came; the stream goes on behind it."
        schema = {"type": "string", "pattern": ASK_PLACE if route.waits else FEED_PLACE}
        yield {"name": "Last-Event-ID", "in": "header", "required": False, "description": text, "schema": schema}


def _responses(route: Route, refs: Refs) -> Document:
    content: Document = {}
    if route.result is not None:
        content[JSON_TYPE] = {"schema": refs[id(route.result), "serialization"]}
    if route.streams:
        content[EVENT_STREAM] = {"schema": _event_schema(route)}
    responses: Document = {str(route.status): {"description": "Done." if route.status == 200 else "Accepted."}}
    responses[str(route.status)]["content"] = content
    if route.waits and route.streams:
        accepted = {JSON_TYPE: {"schema": refs[id(AskAccepted), "serialization"]}}
        responses["202"] = {"description": "Accepted; the answer has not come yet.", "content": accepted}
    problem = {PROBLEM_TYPE: {"schema": refs[id(ProblemDocument), "serialization"]}}
    faults = {status: {**_fault(status, route), "content": problem} for status in _faults_of(route)}
    return {**responses, **faults}


def _fault(status: str, route: Route) -> Document:
    """The description of an error, with its headers."""
    if status == "429":
        return {"description": _too_many(route), "headers": {"Retry-After": {**_RETRY_AFTER, "required": True}}}
    found: Document = {"description": _STATUS[status]}
    return {**found, "headers": {"Retry-After": _RETRY_AFTER}} if status == "503" else found


def _too_many(route: Route) -> str:
    """The reasons for which an operation may answer 429."""
    name = route.handle.__name__
    kinds = [
        *(["open streams"] if route.streams else []),
        *(["requests that wait"] if route.waits or route.query is WaitQuery else []),
        *(["lookups in the log of answers"] if name in _LOOK_UP else []),
    ]
    reasons = ["too many requests with this key"]
    if kinds:
        reasons.append(f"too many {' or '.join(kinds)} of this key or of its tenant")
    if name == "plan_erasure":
        reasons.append("a plan of this tenant is being made")
    text = ", or ".join(reasons)
    return f"{text[0].upper()}{text[1:]}; `detail` says which." if len(reasons) > 1 else f"{text[0].upper()}{text[1:]}."


def _event_schema(route: Route) -> Document:
    """The schema of one event of a stream."""
    text = "One event of the stream; `data` is a JSON text."
    if not route.waits:
        text += " The first is `ready` or `reset`: what is read after it lacks nothing of what came before its `id`."
    return {
        "type": "object",
        "description": text,
        "properties": {
            "id": {"type": "string", "pattern": ASK_PLACE if route.waits else FEED_PLACE},
            "event": {"enum": list(ASK_EVENTS if route.waits else FEED_EVENTS)},
            "data": {"type": "string"},
        },
        "required": ["event", "data"],
    }


def _faults_of(route: Route) -> Iterator[str]:
    yield from ("401", "403")
    if route.parameters:
        yield "404"
    if route.body is not None:
        yield from ("408", "409", "413", "415")
    if route.handle.__name__ in ("retry_letter", "discard_letter", "resume_ask"):
        yield "409"
    if route.handle.__name__ in ("ask", "resume_ask"):
        yield "410"
    yield from ("422", "429")
    if route.waits:
        yield from ("502", "504")
    yield "503"


def _own_operation() -> Document:
    return {
        "operationId": "openapi",
        "summary": "This document.",
        "security": [],
        "responses": {"200": {"description": "Done.", "content": {JSON_TYPE: {"schema": {"type": "object"}}}}},
    }
