import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.base import field_at
from eunoe.schemas.events import Utterance
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.versions import CONTRACTS, ContractError
from eunoe.streams.codec import decode, encode
from tests.support.contracts import SAMPLES, a, calm

SAID = {
    "type": "utterance",
    "conversation_id": "c",
    "utterance_id": "u",
    "speaker": "Ann",
    "at": "2026-03-01T09:30:00Z",
}


def fault(value: bytes) -> ContractError:
    with pytest.raises(ContractError) as caught:
        decode(value)
    return caught.value


@pytest.mark.parametrize("tag", sorted(CONTRACTS))
@calm
@given(data=st.data())
def test_every_contract_is_written_as_plain_json_and_comes_back_as_it_was(tag, data):
    event = data.draw(a(CONTRACTS[tag]))
    written = encode(event)
    assert decode(written) == event
    document = orjson.loads(written)
    assert document["type"] == tag == event.type_tag()
    added = [version for path, version in event.ADDED.items() if field_at(event, path) is not None]
    assert document["schema_version"] == max(added, default=1)


@pytest.mark.parametrize("text", SAMPLES)
def test_text_of_every_script_stays_what_it_is(text):
    event = decode(orjson.dumps({**SAID, "text": text}))
    assert isinstance(event, Utterance)
    assert event.text == text
    assert orjson.loads(encode(event))["text"] == text


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff\xfe",
        b"{",
        b"NaN",
        b'{"a": Infinity}',
        b'{"a": 1e999}',
        rb'{"a": "\ud800"}',
        rb'{"a": "\udc00 \ud800"}',
        b'{"a": "\xed\xa0\x80"}',
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
    ids=lambda value: repr(value[:16]),
)
def test_what_is_no_json(value):
    assert fault(value).reason is DeadLetterReason.NOT_JSON


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"[]", DeadLetterReason.INVALID),
        (b"null", DeadLetterReason.INVALID),
        (b"{}", DeadLetterReason.UNKNOWN_TYPE),
        (b'{"type": "nonsense"}', DeadLetterReason.UNKNOWN_TYPE),
        (b'{"type": "utterance"}', DeadLetterReason.INVALID),
        (b'{"type": "utterance", "schema_version": 3}', DeadLetterReason.NEWER_VERSION),
        (orjson.dumps({**SAID, "text": " "}), DeadLetterReason.INVALID),
        (orjson.dumps({**SAID, "text": "hi", "more": 1}), DeadLetterReason.INVALID),
    ],
)
def test_json_that_is_no_contract(value, reason):
    assert fault(value).reason is reason


@pytest.mark.parametrize("field", ["type", "schema_version", "text", "ask", "more"])
@pytest.mark.parametrize("depth", [300, 1000, 1020])
def test_nesting_as_deep_as_json_allows_is_a_plain_fault(field, depth):
    bomb = b"[" * depth + b"]" * depth
    rest = orjson.dumps({name: value for name, value in SAID.items() if name != field})
    error = fault(rest[:-1] + b',"%s":%s}' % (field.encode(), bomb))
    assert error.reason in {DeadLetterReason.INVALID, DeadLetterReason.UNKNOWN_TYPE}
    assert len(str(error)) < 1000


@calm
@given(st.binary(max_size=200))
def test_any_bytes_are_a_contract_or_a_fault(value):
    assert fault(value).reason in DeadLetterReason


@calm
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda kids: st.dictionaries(st.text(), kids)))
def test_any_document_is_a_contract_or_a_fault(document):
    assert fault(orjson.dumps(document)).reason in DeadLetterReason


def test_a_lone_surrogate_is_not_written():
    event = decode(orjson.dumps({**SAID, "text": "hi"})).model_copy(update={"text": "a\ud800"})
    with pytest.raises(ContractError, match="lone surrogate"):
        encode(event)
