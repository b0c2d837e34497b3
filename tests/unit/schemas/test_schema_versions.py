"""Versions of contracts: what older and newer stages read of each other's records."""

import json
from typing import ClassVar, Literal

import pytest
from pydantic import ValidationError

from eunoe.schemas.base import Contract, absent
from eunoe.schemas.events import Ask, Utterance, Wants
from eunoe.schemas.memory import MemoriesFormed
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.versions import CONTRACTS, ContractError, read_contract


class Parcel(Contract):
    """A record as version 1 knows it."""

    type: Literal["parcel"] = "parcel"
    weight: int


class ParcelWithLabels(Contract):
    """The same record with a field of version 2 and one of version 3."""

    LATEST = 3
    ADDED: ClassVar = {"label": 2, "color": 3}

    type: Literal["parcel"] = "parcel"
    weight: int
    label: str | None = absent()
    color: str | None = absent()


OLD, NEW = {"parcel": Parcel}, {"parcel": ParcelWithLabels}


def test_a_record_without_the_added_fields_is_written_as_before():
    assert ParcelWithLabels(weight=3).to_json() == Parcel(weight=3).to_json()


@pytest.mark.parametrize(
    ("fields", "version"),
    [({}, 1), ({"label": "a"}, 2), ({"color": "red"}, 3), ({"label": "a", "color": "red"}, 3)],
)
def test_a_record_carries_the_lowest_version_that_has_its_fields(fields: dict[str, str], version: int):
    written = json.loads(ParcelWithLabels(weight=3, **fields).to_json())
    assert written == {"type": "parcel", "weight": 3, "schema_version": version, **fields}
    assert read_contract(written, NEW) == ParcelWithLabels(weight=3, **fields)


def test_an_older_stage_reads_what_has_no_new_field_and_names_the_version_of_what_has():
    assert read_contract(json.loads(ParcelWithLabels(weight=3).to_json()), OLD) == Parcel(weight=3)
    with pytest.raises(ContractError, match="schema version 2; the newest known here is 1") as newer:
        read_contract(json.loads(ParcelWithLabels(weight=3, label="a").to_json()), OLD)
    assert newer.value.reason is DeadLetterReason.NEWER_VERSION


def test_an_unknown_field_is_still_refused():
    with pytest.raises(ValidationError):
        ParcelWithLabels(weight=3, size=1)  # type: ignore[call-arg]


def test_each_version_of_a_contract_adds_a_field():
    for contract in CONTRACTS.values():
        assert {1, *contract.ADDED.values()} == set(range(1, contract.LATEST + 1))
        assert {path.split(".")[0] for path in contract.ADDED} <= contract.model_fields.keys()


def test_a_field_inside_a_value_counts_too():
    fields = {
        "conversation_id": "c",
        "utterance_id": "u",
        "speaker": "Ann",
        "text": "hello",
        "at": "2026-01-01T00:00:00Z",
    }
    ask = {"request_id": "r", "record": False}
    said = [Utterance.model_validate({**fields, "ask": one}) for one in (None, ask, {**ask, "wants": "memory"})]
    assert [one.schema_version for one in said] == [1, 1, 2]
    assert "wants" not in said[1].to_json().decode()
    assert [read_contract(json.loads(one.to_json())) for one in said] == said
    again = Utterance(**{**fields, "ask": Ask(request_id="r", record=False, wants=Wants.MEMORY)})
    assert again == said[2]


def test_a_field_of_one_item_of_a_list_counts_too():
    line = {"utterance_id": "u", "speaker": "Ann", "text": "I ski.", "at": "2026-01-01T00:00:00Z"}
    plain = {"speaker": "Ann", "text": "Ann skis.", "evidence": [line]}
    fields = {
        "conversation_id": "c",
        "session": 1,
        "known_from": "2026-01-01T00:00:00Z",
        "made_by": {"code": "a", "model": "b"},
    }
    drafts = [[], [plain], [plain, {**plain, "kind": "state"}], [{**plain, "expires_at": "2026-01-02T00:00:00Z"}]]
    formed = [MemoriesFormed.model_validate({**fields, "drafts": some}) for some in drafts]
    assert [one.schema_version for one in formed] == [1, 1, 3, 3]
    assert "kind" not in formed[1].to_json().decode()
    assert [read_contract(json.loads(one.to_json())) for one in formed] == formed
