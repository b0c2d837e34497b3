"""The gateway on real servers answers as its OpenAPI document says, to good and bad requests derived from it."""

import asyncio
import json
import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from pydantic import SecretStr
from schemathesis import Case, GenerationMode
from schemathesis.checks import CHECKS

from eunoe.deploy.gateway.app import GatewayApp
from eunoe.deploy.gateway.keys import KeyFile, KeyPlan, KeyScope, new_key
from eunoe.deploy.gateway.openapi import openapi_document
from eunoe.deploy.gateway.server import open_gateway, serving
from tests.support.gateway import LATER, SESSION, InMemoryPlans, told
from tests.support.pipeline import Pipeline, pipeline_at_work
from tests.support.session import SessionServers

pytestmark = [pytest.mark.broker, pytest.mark.timeout(120)]

SCHEMA = schemathesis.openapi.from_dict(openapi_document())
SCHEMA.config.max_stream_events = 1

UNSAID = {
    "list_conversations": "the cursor is that of a page",
    "resume_ask": "the place is one of the conversation's partition",
    "follow_conversation": "the place is one of the conversation's partition",
    "follow_all": "the place names all partitions",
    "show_reply": "the time lies between 1900 and tomorrow",
    "explain_reply": "the time lies between 1900 and tomorrow",
}
"""The operations with a parameter of which a schema cannot say all: valid requests may be 422."""
WAITS = 5
"""One of so many requests that wait for an answer waits; the pipeline would take minutes for all."""


@schemathesis.serializer("application/x-ndjson")
def _ndjson(_context: Any, value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


@pytest.fixture(scope="module")
def at_work(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory):
    with pipeline_at_work(tmp_path_factory.mktemp("contract"), servers) as pipeline:
        yield pipeline


@pytest.fixture(scope="module")
def gateway(at_work: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A gateway in a thread of its own, with a conversation ``c``; gives its URL and a key."""
    folder, found, ready = tmp_path_factory.mktemp("keys"), SimpleNamespace(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(at_work, folder, found, ready)), daemon=True)
    thread.start()
    assert ready.wait(60)
    yield found
    found.loop.call_soon_threadsafe(found.stop.set)
    thread.join()


async def _serve(pipeline: Pipeline, folder: Path, found: SimpleNamespace, ready: threading.Event) -> None:
    secret, kept = new_key(KeyPlan("contract", frozenset(KeyScope)), datetime.now(UTC))
    KeyFile(folder / "keys.json").add(kept)
    limits = {"rate": 10_000.0, "burst": 10_000, "shutdown_seconds": 1, "wait_seconds": 0.5}
    own = pipeline.settings.gateway.model_copy(update={"keys": folder / "keys.json", **limits})
    headers = {"Authorization": f"Bearer {secret}"}
    ledger = SecretStr(str(folder / "ledger.sqlite"))
    async with (
        open_gateway(pipeline.settings.model_copy(update={"gateway": own, "erasures": ledger})) as app,
        serving(_planning_at_once(app), "127.0.0.1:0") as url,
        httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as client,
    ):
        for events in (SESSION, LATER):
            *_, ended = await told(client, "c", events)
        where = {"wait": "memory", "after": ended["position"]["offset"], "timeout": 60}
        assert (await client.get("/v1/conversations/c/sessions/last", params=where)).json()["remembered"]
        memories = (await client.get("/v1/conversations/c/memories")).json()["memories"]
        asked = {"text": "Where does Ann live?", "speaker": "Ben", "request_id": "r1", "record": False}
        wait = {"Prefer": "wait=60"}
        reply = (await client.post("/v1/conversations/c/asks", json=asked, headers=wait)).json()
        memory = memories[0]["memory"]["memory_id"]
        found.ids = {
            "conversation": "c", "session": "1", "request": "r1", "memory": memory, "root": memory,
            "reply": reply["reply_id"],
        }  # fmt: skip
        found.url, found.headers, found.loop, found.stop = url, headers, asyncio.get_running_loop(), asyncio.Event()
        ready.set()
        await found.stop.wait()


def _planning_at_once(app: GatewayApp) -> GatewayApp:
    """The application with a stand-in for the planner of erasures, which starts a process for every plan."""
    return replace(app, gateway=replace(app.gateway, plans=InMemoryPlans()))


@pytest.mark.filterwarnings("ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning")
@SCHEMA.parametrize()
@settings(max_examples=8, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_every_operation_answers_as_the_document_says(case: Case, gateway: SimpleNamespace) -> None:
    valid = case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE
    with suppress(KeyError, TypeError, ValueError):
        case.query["timeout"] = str(min(float(case.query["timeout"]), 0.05))
    if valid:
        _narrow(case, gateway)
    name = case.operation.definition.raw["operationId"]
    answer = case.call(base_url=gateway.url, headers=gateway.headers, timeout=20)
    left_out = ["not_a_server_error"] if answer.status_code in (502, 504) else []
    left_out += ["positive_data_acceptance"] if name in UNSAID else []
    case.validate_response(answer, excluded_checks=[CHECKS.get_one(check) for check in left_out])


def _narrow(case: Case, gateway: SimpleNamespace) -> None:
    """Narrow a valid request to what no schema says: times near now, utterances or a session to erase.

    Short waits, too, and for half of the requests ids that exist.
    """
    number = zlib.crc32(repr((case.body, case.path_parameters, case.query)).encode("utf-8", "replace"))
    if isinstance(case.body, dict) and (case.body.get("at") or "conversation_id" in case.body):
        case.body["at"] = "2026-01-02T03:04:05Z"
    if isinstance(case.body, dict) and case.body.get("utterance_ids"):
        case.body["session"] = None
    if case.operation.label.endswith("sessions/{session}"):
        case.query = {**(case.query or {}), "timeout": 0.05}
    if number % WAITS and {"Prefer"} & {one.name for one in case.operation.headers}:
        case.headers = {**(case.headers or {}), "Prefer": "wait=0"}
    if number % 2:
        known = {name: gateway.ids.get(name, value) for name, value in case.path_parameters.items()}
        case.path_parameters = known
