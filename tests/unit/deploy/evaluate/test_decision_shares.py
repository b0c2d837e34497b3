"""Shares of decisions made offline, read from the state of a conversation."""

from itertools import permutations

from eunoe.deploy.datasets.load import load_conversation
from eunoe.deploy.demo.bundled import CONVERSATION
from eunoe.deploy.evaluate.indexed import unasked
from eunoe.deploy.inspect.decisions import DecisionCount, DecisionShare, joined
from eunoe.schemas.errors import AnswerFault, AnswerInvalid
from eunoe.schemas.identity import conversation_key
from eunoe.workers.derive.digest import StateRow
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.registry import STAGES, StageSettings
from eunoe.workers.tree.settings import TreeSettings
from tests.support.in_memory import HashEmbedder
from tests.support.whole_state import read_digest


def decision_shares(state):
    """The rows of a state that is read whole."""
    found = DecisionCount()
    for at, (stage, part) in enumerate(state.items()):
        for number, (table, rows) in enumerate(part.get("tables", {}).items()):
            for place, (id_, document) in enumerate(rows.items()):
                found.add(StateRow(stage, table, (at, number, place), id_, document))
    return found.shares()


class Babbling:
    """A model whose answers are of no form."""

    name = "babbling"

    async def answer(self, prompt, form, *, urgent=False):
        raise AnswerInvalid("the answer is no JSON", AnswerFault.UNREADABLE)


async def shares_of(language):
    settings = StageSettings(tree=TreeSettings(ask_model=True))
    pipeline = InMemoryPipeline(HashEmbedder(), settings, language=language)
    loaded = load_conversation(CONVERSATION)
    await pipeline.play(unasked(loaded.events))
    first = loaded.utterances[0]
    key = conversation_key(first.tenant, first.conversation_id)
    return decision_shares((await read_digest(pipeline.store, key, STAGES)).state)


async def test_without_a_model_nothing_was_asked():
    assert await shares_of(None) == []


async def test_a_model_that_answers_nothing_of_use_decides_nothing():
    shares = {row.stage: row for row in await shares_of(Babbling())}
    assert {"summarize", "tree"} <= shares.keys()
    for row in shares.values():
        assert row.decisions == row.fell_back > 0
        assert row.offline == 1
    assert shares["summarize"].decisions == 5  # one a session


def made_by(code, **more):
    return {"code": code, "model": "m", "prompt": f"{code}/x", "fallback": False, **more}


def test_decisions_of_a_session_count_once_and_by_items():
    partly = made_by("link/1", items=40, fell_back=2)
    state = {
        "update": {
            "tables": {
                "memories": {
                    "a": {"session": 1, "made_by": made_by("summarize/1")},
                    "b": {"session": 1, "made_by": made_by("summarize/1")},
                    "c": {"session": 2, "made_by": made_by("summarize/1", fallback=True)},
                    "d": {"session": 2, "made_by": {"code": "summarize/1", "model": "offline"}},
                }
            }
        },
        "link": {
            "tables": {
                "edges": {
                    "c": {"edges": [{"newer": "c", "made_by": partly}, {"newer": "c", "made_by": partly}]},
                    "a": {"edges": [{"newer": "a", "made_by": partly}]},
                }
            }
        },
    }
    shares = decision_shares(state)
    assert shares == [
        DecisionShare("summarize", decisions=2, fell_back=1, items=3, items_offline=1),
        DecisionShare("link", decisions=2, fell_back=2, items=80, items_offline=4),
    ]
    assert joined(shares).offline == 5 / 83


async def test_the_order_in_which_documents_are_counted_changes_nothing():
    by_model = made_by("link/1", items=4, fell_back=1)
    state = {
        "update": {
            "tables": {"memories": {"m1": {"session": 1, "made_by": made_by("summarize/1")}, "m2": {"session": 2}}}
        },
        "link": {
            "tables": {
                "vertices": {"m2": {"session": 7}},
                "edges": {
                    "m1": {"edges": [{"newer": "m1", "made_by": by_model}, {"newer": "m2", "made_by": by_model}]},
                    "m3": {"edges": [{"newer": "gone", "made_by": by_model}]},
                },
            }
        },
    }  # fmt: skip
    rows = [
        StateRow(stage, table, (at, number, place), id_, document)
        for at, (stage, part) in enumerate(state.items())
        for number, (table, documents) in enumerate(part["tables"].items())
        for place, (id_, document) in enumerate(documents.items())
    ]
    for order in permutations(rows):
        found = DecisionCount()
        for row in order:
            found.add(row)
        assert found.shares() == decision_shares(state)
    assert [(row.stage, row.decisions, row.items, row.items_offline) for row in decision_shares(state)] == [
        ("summarize", 1, 1, 0),
        ("link", 3, 12, 3),
    ]
