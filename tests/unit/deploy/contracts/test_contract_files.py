"""The written contracts: true to the code, valid by their metaschemas, and as strict as the code where they can be."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from eunoe.deploy.contracts.asyncapi import KEY_PATTERN
from eunoe.deploy.contracts.json_schemas import ZONED, contract_schema
from eunoe.deploy.contracts.write import ASYNCAPI, contract_files, schema_file, write_contracts
from eunoe.deploy.gateway.openapi import OPENAPI, openapi_bytes
from eunoe.schemas.events import CloseReason, SessionClosed, SessionEnded, Utterance
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.versions import CONTRACTS, ContractError, read_contract
from eunoe.streams.dead_letters import DEAD_LETTER_HEADER
from eunoe.streams.topics import TOPICS, Topic, TopicNames
from tests.support.derived.files import DERIVED, write_derived
from tests.support.derived.stages import with_stage_tables

CHECKOUT = Path(__file__).parents[4]
WRITTEN = CHECKOUT / "deploy" / "contracts"
AT = "2026-03-01T09:30:00Z"
LINE = {"utterance_id": "u1", "speaker": "Ada", "text": "hello", "at": AT}
MADE_BY = {"code": "eunoe 0.1.0", "model": "offline"}
ASK = {"request_id": "r1", "speak_as": "agent", "record": False, "strategy": "segment", "budget_tokens": 800}
SOURCE = {"kind": "segment", "id": "s", "session": 1, "at": AT, "utterance_ids": ["u1"], "score": 0.5}

MEMORY = {
    "memory_id": "m", "session": 1, "index": 0, "speaker": "Ada", "text": "Ada said hello.", "evidence": [LINE],
    "at": AT, "known_from": AT, "made_by": MADE_BY,
}  # fmt: skip

EXAMPLES: dict[str, dict[str, Any]] = {
    "utterance_erased": {"conversation_id": "c", "utterance_id": "erased-1", "size": 90, "text_bytes": 9},
    "utterance": {"conversation_id": "c", **LINE, "text": "안녕 👋", "ask": ASK, "session_id": None},
    "session_ended": {"conversation_id": "c", "session_id": "s", "at": "2026-03-01T09:30:00.25+09:00"},
    "erase": {"conversation_id": "c", "request_id": "r", "at": AT, "utterance_ids": ["u1"]},
    "generation_promoted": {"generation": "v2", "at": AT},
    "session_closed": {
        "conversation_id": "c", "session": 1, "lines": [LINE], "known_from": AT, "reason": "idle", "turns": [1],
    },
    "session_segmented": {
        "conversation_id": "c", "session": 1, "lines": [LINE], "known_from": AT,
        "spans": [{"first": 0, "last": 0}], "made_by": MADE_BY,
    },
    "memories_formed": {
        "conversation_id": "c", "session": 1, "known_from": AT, "made_by": MADE_BY,
        "drafts": [{"speaker": "Ada", "text": "Ada said hello.", "evidence": [LINE]}],
    },
    "insights_proposed": {
        "conversation_id": "c", "session": 1, "turn": 1, "known_session": 0, "made_by": MADE_BY,
        "insights": [{"kind": "new", "speaker": "Ada", "text": "Ada said hello.", "evidence": [LINE]}],
    },
    "memories_changed": {
        "conversation_id": "c", "session": 1, "known_from": AT, "changes": [{"kind": "added", "memory": MEMORY}],
    },
    "memories_derived": {"conversation_id": "c", "reason": "erased"},
    "session_skipped": {"conversation_id": "c", "session": 2, "stage": "segment", "error": "failed"},
    "reply_requested": {"conversation_id": "c", "session": 1, "turn": 3, "request": ASK, "question": LINE},
    "reply_context": {"conversation_id": "c", "session": 1, "request": ASK, "question": LINE, "dialogue": [LINE]},
    "reply": {
        "conversation_id": "c", "reply_id": "y", "request_id": "r1", "speaker": "agent", "text": "", "cited": ["u1"],
        "sources": [SOURCE], "strategy": "segment", "known_session": 0, "made_by": MADE_BY, "error": "no answer",
    },
    "recalled": {
        "conversation_id": "c", "request_id": "r1", "text": "1 Ada: hello", "tokens": 3, "sources": [SOURCE],
        "rows": [{"speaker": "Ada", "text": "hello", "at": AT, "cites": ["u1"]}], "dialogue": [LINE],
        "strategy": "fused", "session": 2, "known_session": 1,
    },
    "dead_letter": {
        "stage": "intake", "topic": "conversations", "partition": 0, "offset": 7, "key": None, "log_time": AT,
        "reason": "not_json", "error": "line 1", "size": 3, "sha256": "00",
    },
    "recorded_answer": {"request": "0f", "text": "{}"},
}  # fmt: skip


@cache
def validator(tag: str) -> Draft202012Validator:
    return Draft202012Validator(contract_schema(CONTRACTS[tag]), format_checker=Draft202012Validator.FORMAT_CHECKER)


def example(tag: str) -> dict[str, Any]:
    return {"type": tag, **EXAMPLES[tag]}


def accepted(document: dict[str, Any]) -> bool:
    try:
        read_contract(document)
    except ContractError:
        return False
    return True


# ---- the files


def test_the_written_files_are_what_the_contracts_say_now() -> None:
    written = {path.name: path.read_bytes() for path in WRITTEN.glob("*.json")}
    assert written == {**contract_files(), OPENAPI: openapi_bytes()}, (
        "run `eunoe schemas` (make contracts) and commit what it wrote"
    )


@pytest.mark.parametrize("name", DERIVED)
def test_the_derived_parts_of_files_are_true(name: str) -> None:
    text = (CHECKOUT / name).read_text()
    assert DERIVED[name](text) == text, "run `make contracts` and commit what it wrote"


def test_derived_parts_are_written_between_their_marks(tmp_path: Path) -> None:
    for name in DERIVED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((CHECKOUT / name).read_text())
    assert write_derived(tmp_path) == []
    compose = tmp_path / "deploy" / "compose.yaml"
    written = compose.read_text()
    compose.write_text(written.replace("command: [worker, link]", "command: [worker, chain]"))
    assert write_derived(tmp_path) == [compose]
    assert compose.read_text() == written


def test_a_file_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="no <!-- stages --> … <!-- /stages -->"):
        with_stage_tables("<!-- stages --> <!-- topics -->")


def test_there_is_a_schema_for_each_contract_and_one_asyncapi_document() -> None:
    assert set(contract_files()) == {f"{tag}.schema.json" for tag in CONTRACTS} | {ASYNCAPI}


def test_writing_removes_schemas_of_contracts_that_are_no_more(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "contracts"
    write_contracts(folder)
    (folder / "gone.schema.json").write_text("{}")
    (folder / "notes.txt").write_text("mine")
    written = write_contracts(folder)
    assert {path.name for path in folder.iterdir()} == {path.name for path in written} | {"notes.txt"}


# ---- JSON Schema


@pytest.mark.parametrize("tag", CONTRACTS)
def test_a_schema_obeys_its_metaschema_and_says_what_it_is(tag: str) -> None:
    schema = contract_schema(CONTRACTS[tag])
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:eunoe:schema:{tag}:{CONTRACTS[tag].LATEST}"
    assert schema["description"]
    assert schema["required"][0] == "type"


@pytest.mark.parametrize("tag", CONTRACTS)
def test_a_schema_accepts_the_contract_as_clients_write_it_and_as_we_do(tag: str) -> None:
    validator(tag).validate(example(tag))
    ours = read_contract(example(tag)).to_json()
    validator(tag).validate(json.loads(ours))


@pytest.mark.parametrize("tag", CONTRACTS)
def test_a_schema_refuses_what_is_missing_strange_or_of_another_version(tag: str) -> None:
    schema = contract_schema(CONTRACTS[tag])
    wrong = [
        {**example(tag), "tyop": 1},
        {**example(tag), "schema_version": CONTRACTS[tag].LATEST + 1},
        {**example(tag), "type": "other"},
    ]
    wrong += [{name: value for name, value in example(tag).items() if name != gone} for gone in schema["required"]]
    for document in wrong:
        assert not validator(tag).is_valid(document), document
        assert not accepted(document), document


@pytest.mark.parametrize(
    ("tag", "field", "value"),
    [
        ("utterance", "at", "2026-03-01T09:30:00"),
        ("utterance", "at", "yesterday"),
        ("utterance", "text", " \n"),
        ("utterance", "text", ""),
        ("utterance", "text", None),
        ("utterance", "speaker", "A" * 101),
        ("utterance", "speaker", " Ada"),
        ("utterance", "utterance_id", "u" * 201),
        ("utterance", "utterance_id", "u\u00001"),
        ("utterance", "conversation_id", "c\u2028d"),
        ("utterance", "tenant", ""),
        ("utterance", "ask", {}),
        ("utterance", "ask", {**ASK, "budget_tokens": 0}),
        ("utterance", "ask", {**ASK, "strategy": "luck"}),
        ("erase", "utterance_ids", [" "]),
        ("session_closed", "session", 0),
        ("session_closed", "reason", "bored"),
        ("session_segmented", "spans", [{"first": -1, "last": 0}]),
        ("memories_derived", "reason", "bored"),
        ("reply", "known_session", -1),
        ("dead_letter", "reason", "mood"),
    ],
)
def test_schema_and_code_refuse_the_same_faults(tag: str, field: str, value: object) -> None:
    document = {**example(tag), field: value}
    assert not accepted(document)
    with pytest.raises(ValidationError):
        validator(tag).validate(document)


# Python's `$` also matches before a last line break, that of other languages does not: such ids are left out here
identifiers = st.text(max_size=210).filter(lambda text: not text.endswith("\n"))


@given(identifiers)
def test_schema_and_code_agree_on_ids(text: str) -> None:
    document = {**example("session_ended"), "session_id": text}
    assert validator("session_ended").is_valid(document) == accepted(document)


@given(st.text(max_size=20))
def test_schema_and_code_agree_on_blank_texts(text: str) -> None:
    document = {**example("utterance"), "text": text}
    assert validator("utterance").is_valid(document) == accepted(document)


@given(st.from_regex(ZONED, fullmatch=True, alphabet=st.characters(max_codepoint=127)) | st.text(max_size=30))
def test_every_time_that_the_code_takes_is_a_time_for_the_schema(text: str) -> None:
    if accepted({**example("session_ended"), "at": text}):
        assert re.search(ZONED, text)


def test_docstrings_arrive_in_the_schemas() -> None:
    utterance = contract_schema(Utterance)
    assert utterance["properties"]["session_id"]["description"].endswith("`null` joins the one spoken in last.")
    assert utterance["$defs"]["Ask"]["properties"]["record"]["description"].startswith(
        "Whether the utterance becomes part"
    )
    reasons = contract_schema(SessionClosed)["$defs"]["CloseReason"]
    assert reasons["x-enumDescriptions"].keys() == {reason.value for reason in CloseReason}
    letters = contract_schema(CONTRACTS["dead_letter"])["$defs"]["DeadLetterReason"]
    assert letters["x-enumDescriptions"].keys() == {reason.value for reason in DeadLetterReason}


def test_from_version_two_on_the_version_is_required() -> None:
    class Newer(SessionEnded):
        """A session end of a later time."""

        LATEST = 2

    schema = contract_schema(Newer)
    assert schema["required"][:2] == ["type", "schema_version"]
    assert schema["properties"]["schema_version"]["const"] == 2
    assert schema["$id"] == "urn:eunoe:schema:session_ended:2"


# ---- AsyncAPI


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return dict(json.loads(contract_files()[ASYNCAPI]))


def refs(node: object) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if "$ref" in node else []
        return own + [ref for value in node.values() for ref in refs(value)]
    return [ref for value in node for ref in refs(value)] if isinstance(node, list) else []


def resolve(document: dict[str, Any], ref: str) -> Any:
    node: Any = document
    for part in ref.removeprefix("#/").split("/"):
        node = node[part]
    return node


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    files = {f"./{name}" for name in contract_files()}
    for ref in refs(document):
        if ref.startswith("#/"):
            assert resolve(document, ref)
        else:
            assert ref in files


def test_each_channel_is_a_topic_under_its_name(document: dict[str, Any]) -> None:
    assert set(document["channels"]) == {topic.value for topic in Topic}
    for topic, spec in TOPICS.items():
        channel = document["channels"][topic.value]
        defaults = {name: parameter["default"] for name, parameter in channel["parameters"].items()}
        assert channel["address"].format(**defaults) == TopicNames().name(topic)
        carried = [resolve(document, ref)["name"] for ref in refs(channel["messages"])]
        assert carried == [contract.type_tag() for contract in spec.carries]
        assert channel["x-partitioner"] == "murmur2"


def test_each_message_points_to_the_schema_of_its_contract(document: dict[str, Any]) -> None:
    messages = document["components"]["messages"]
    assert {message["name"] for message in messages.values()} == set(CONTRACTS)
    for message in messages.values():
        payload = message["payload"].get("x-letter", message["payload"])
        assert payload["$ref"] == f"./{schema_file(CONTRACTS[message['name']])}"
    assert messages["DeadLetter"]["headers"]["required"] == [DEAD_LETTER_HEADER]


def test_an_operation_carries_only_messages_of_its_channel(document: dict[str, Any]) -> None:
    for operation in document["operations"].values():
        channel = operation["channel"]["$ref"]
        assert all(ref.startswith(f"{channel}/messages/") for ref in refs(operation["messages"]))
    assert document["operations"]["receive-conversations"]["action"] == "receive"
    assert "receive-replies" not in document["operations"]


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_the_pattern_of_keys_fits_every_key(tenant: str, conversation_id: str) -> None:
    assert re.fullmatch(KEY_PATTERN, conversation_key(tenant, conversation_id))
