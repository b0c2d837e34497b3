"""Replicas of two versions side by side, as in a rolling upgrade or after a rollback."""

import json

import pytest

from eunoe.deploy.gateway.bodies import UtteranceBody
from eunoe.deploy.gateway.requests_once import digest_of_body
from tests.support.gateway import TestGateway, make_gateway

C = "/v1/conversations/c"
EVENT = {"type": "utterance", "utterance_id": "u1", "speaker": "Ann", "text": "I moved to Lyon."}


@pytest.fixture
def gateway(tmp_path) -> TestGateway:
    return make_gateway(tmp_path)


class NewerBody(UtteranceBody):
    """An utterance as a later version takes it."""

    mood: str | None = None


def test_a_body_has_one_digest_in_a_version_that_has_more_fields():
    assert digest_of_body(NewerBody(**EVENT)) == digest_of_body(UtteranceBody(**EVENT))
    assert digest_of_body(NewerBody(**EVENT, mood="gay")) != digest_of_body(UtteranceBody(**EVENT))


async def test_a_request_that_a_newer_replica_noted_gets_the_same_answer_from_an_older(gateway):
    async with gateway.client() as client:
        first = await client.post(f"{C}/events", json=EVENT)
        for name, text in gateway.notes.texts.items():
            gateway.notes.texts[name] = json.dumps({**json.loads(text), "mood": "gay"})
        again = await client.post(f"{C}/events", json=EVENT)
    assert (again.status_code, again.json()) == (202, first.json())


async def test_memory_that_a_newer_stage_wrote_is_no_fault_of_the_gateway(gateway, monkeypatch, caplog):
    async def newer_state() -> None:
        UtteranceBody.model_validate({**EVENT, "mood": "gay"})

    monkeypatch.setattr(gateway.states, "live", newer_state)
    async with gateway.client() as client:
        answer = await client.get(f"{C}/memories")
    assert answer.status_code == 503
    assert "newer version" in answer.json()["detail"]
    assert int(answer.headers["Retry-After"]) > 0
    assert "mood" in caplog.text
    assert "gay" not in caplog.text
