"""Fields that came after the first version of a contract: each raises the version of every record that carries it.

Otherwise a process that does not know the field reads a version that it knows, and sets the record aside as invalid; it
should wait for its own update.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, get_args

import pytest
from pydantic.fields import FieldInfo

from eunoe.schemas.base import Contract, Value, absent
from eunoe.schemas.versions import CONTRACTS

FIRST = {
    "Ask": "request_id speak_as record strategy budget_tokens",
    "Change": "kind memory because",
    "DeadLetter": "stage topic partition offset key log_time reason error attempts number size sha256 truncated",
    "Ending": "status by session at because",
    "Erase": "tenant conversation_id request_id at utterance_ids",
    "Freshness": "session closed utterance_id at",
    "GenerationPromoted": "generation at nonce log",
    "Insight": "kind speaker text evidence replaces",
    "InsightsProposed": "tenant conversation_id session turn insights known_session because made_by",
    "LeftOut": "reason session utterance_ids memory_ids score",
    "Line": "utterance_id speaker text at reply_id",
    "LookedUp": "question memory_ids",
    "MemoriesChanged": "tenant conversation_id session changes known_from partial",
    "MemoriesDerived": "tenant conversation_id reason",
    "MemoriesFormed": "tenant conversation_id session drafts known_from turns made_by",
    "Memory": "memory_id session index speaker text evidence at known_from origin made_by ending reinforced suspected",
    "MemoryDraft": "speaker text evidence",
    "Provenance": "code model prompt fallback items fell_back",
    "Recalled": (
        "tenant conversation_id request_id text tokens rows sources dialogue strategy session known_session error"
    ),
    "RecalledRow": "speaker text at cites reply_id is_memory holds",
    "RecordedAnswer": "request text",
    "Reinforcement": "by session at",
    "Reply": (
        "tenant conversation_id reply_id request_id speaker text cited sources context context_tokens strategy "
        "known_session made_by error"
    ),
    "ReplyContext": "tenant conversation_id session request question dialogue insights infused",
    "ReplyRequested": "tenant conversation_id session turn request question dialogue reply_wanted",
    "SessionClosed": "tenant conversation_id session session_id lines known_from reason continues turns",
    "SessionEnded": "tenant conversation_id session_id at after_utterance_id",
    "SessionSegmented": "tenant conversation_id session session_id lines known_from turns spans made_by",
    "SessionSkipped": "tenant conversation_id session stage error turns",
    "Source": "kind id session at utterance_ids score memory_ids relations",
    "Span": "first last",
    "Suspicion": "by session because",
    "Utterance": "tenant conversation_id utterance_id session_id speaker text at reply_id ask",
    "UtteranceErased": "tenant conversation_id utterance_id session_id size text_bytes asked is_reply",
}
"""Class → its fields in the first version. A new class brings its row; a row never grows."""

ALWAYS_THERE = {"reply_requested": {"request.wants"}}
"""Contract → paths of later fields that its first version carried."""

HOW = "see 'Adding a field' in deploy/docs/architecture.md"


def values_in(annotation: Any) -> Iterator[type[Value]]:
    """The values that a field of this type may hold, at any depth of its type."""
    if isinstance(annotation, type) and issubclass(annotation, Value):
        yield annotation
    for part in get_args(annotation):
        yield from values_in(part)


def fields_of(kind: type[Value], above: str = "") -> Iterator[tuple[type[Value], str, FieldInfo]]:
    """Each field of a value and of the values in it: its class, its path, the field."""
    for name, field in kind.model_fields.items():
        yield kind, f"{above}{name}", field
        for value in values_in(field.annotation):
            yield from fields_of(value, f"{above}{name}.")


def faults_of(contract: type[Contract], first: dict[str, str]) -> list[str]:
    """What is wrong with the fields that the contract got after its first version; empty if nothing is."""
    faults = []
    always = {"type", "schema_version"} | ALWAYS_THERE.get(contract.type_tag(), set())
    for kind, path, field in fields_of(contract):
        if path in always or path.rpartition(".")[2] in first.get(kind.__name__, "").split():
            continue
        if path not in contract.ADDED:
            faults.append(f"{contract.__name__}.ADDED lacks {path!r}, a field of {kind.__name__}")
        if field.default is not None or field.exclude_if is None:
            faults.append(f"{kind.__name__}.{path.rpartition('.')[2]} needs the default absent()")
    return faults


@pytest.mark.parametrize("contract", CONTRACTS.values(), ids=CONTRACTS)
def test_a_field_that_came_later_raises_the_version(contract: type[Contract]):
    assert not faults_of(contract, FIRST), HOW


class Weight(Value):
    """A value of a record, with a field that came later."""

    grams: int
    unit: str | None = None


class Parcel(Contract):
    """A record that carries it twice."""

    LATEST = 2
    ADDED: ClassVar = {"color": 2}

    type: Literal["parcel"] = "parcel"
    weights: tuple[Weight, ...] = ()
    heaviest: Weight | None = None
    color: str | None = absent()


def test_a_field_of_a_value_counts_wherever_the_value_is():
    faults = faults_of(Parcel, {"Parcel": "weights heaviest", "Weight": "grams"})
    assert faults == [
        "Parcel.ADDED lacks 'weights.unit', a field of Weight",
        "Weight.unit needs the default absent()",
        "Parcel.ADDED lacks 'heaviest.unit', a field of Weight",
        "Weight.unit needs the default absent()",
    ]
    assert faults_of(Parcel, {"Parcel": "weights heaviest", "Weight": "grams unit"}) == []
