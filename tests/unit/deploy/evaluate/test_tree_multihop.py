"""The multi-hop evaluation, on a small file of its own."""

import json

import pytest

from eunoe.deploy.evaluate.models import EvalModels
from eunoe.schemas.errors import Refused
from tests.papers.multihop import ALL, RETRIEVERS, Found, evaluate_multihop, read_multihop, within
from tests.support.in_memory import HashEmbedder

FACTS = [
    ["u1", "The bakery opened in March", "t", "2023-03-02T00:00:00+00:00"],
    ["u2", "The bakery closed in June", "t", "2023-06-02"],
    ["u3", "A storm hit the harbour", "t", "2023-01-02T00:00:00+00:00"],
    ["u3", "A storm hit the harbour ", "t", "2023-02-02T00:00:00+00:00"],
]


def write(tmp_path, document):
    path = tmp_path / "data.json"
    path.write_text(json.dumps(document))
    return path


def query(kind, text, *evidence):
    return {"id": "q", "question": text, "question_type": kind, "evidence_list": [{"fact": one} for one in evidence]}


async def test_every_retriever_finds_what_is_there(tmp_path):
    asked = query("temporal_query", "Did the bakery close after it opened?", FACTS[0][1], FACTS[1][1])
    path = write(tmp_path, {"facts": FACTS, "queries": [asked, query("null_query", "Who sings?")]})
    rows = await evaluate_multihop(path, EvalModels(HashEmbedder()))
    assert {(row.retriever, row.kind) for row in rows} == {
        (name, kind) for name in RETRIEVERS for kind in ("temporal_query", ALL)
    }
    assert all(row.questions == 1 and row.recall_at_10 == 100 and row.recall_at_tokens == 100 for row in rows)


def test_facts_come_by_date_and_once(tmp_path):
    facts, questions = read_multihop(write(tmp_path, {"facts": FACTS, "queries": []}))
    assert [fact.text for fact in facts] == ["A storm hit the harbour", FACTS[0][1], FACTS[1][1]]
    assert facts[0].at.month == 1
    assert questions == []


@pytest.mark.parametrize("document", [[], {"facts": []}, {"facts": [["u", "f"]], "queries": []}])
def test_another_file_is_refused(tmp_path, document):
    with pytest.raises(Refused, match="no multi-hop data"):
        read_multihop(write(tmp_path, document))


def test_a_budget_ends_at_the_first_that_does_not_fit():
    found = [Found(3, frozenset()), Found(3, frozenset()), Found(5, frozenset()), Found(1, frozenset())]
    assert within(found, 7) == found[:2]
