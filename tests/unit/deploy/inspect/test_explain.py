"""The reasons of a reply, over the pipeline in memory and over drawn parts."""

from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console

from eunoe.deploy.inspect.explain import Explanation, Reasons, behind, explain, shown_ids
from eunoe.deploy.inspect.explained import explanation_tree, holds
from eunoe.schemas.events import Line, Provenance, Strategy
from eunoe.schemas.memory import Ending, Memory, MemoryStatus
from eunoe.schemas.replies import Reply, Source
from tests.support.gateway import LATER, SESSION, TestGateway, make_gateway, told
from tests.support.in_memory import START

C = "/v1/conversations/c"
MADE_BY = Provenance(code="drawn", model="drawn")


def line(id_: str) -> Line:
    return Line(utterance_id=id_, speaker="Ann", text=f"said {id_}", at=START)


def memory(id_: str, *evidence: str, ending: Ending | None = None) -> Memory:
    return Memory(
        memory_id=id_, session=1, index=0, speaker="Ann", text=id_, evidence=tuple(map(line, evidence)), at=START,
        known_from=START, made_by=MADE_BY, ending=ending,
    )  # fmt: skip


def source(kind: Strategy, *ids: str, memories: tuple[str, ...] = ()) -> Source:
    return Source(kind=kind, id="s", session=1, at=START, utterance_ids=ids, score=1.0, memory_ids=memories)


def reply(*sources: Source, cited: tuple[str, ...] = ()) -> Reply:
    return Reply(
        conversation_id="c", reply_id="r", request_id="q", speaker="agent", text="so", cited=cited, sources=sources,
        strategy=Strategy.FUSED, known_session=1, made_by=MADE_BY,
    )  # fmt: skip


def test_what_was_shown_is_in_the_order_of_the_prompt_and_once():
    given = reply(source(Strategy.SEGMENT, "1", "2"), source(Strategy.TREE, "2", "3"), cited=("3", "9"))
    assert shown_ids(given) == ["1", "2", "3", "9"]


def test_memories_behind_cited_lines_come_first_and_strangers_not_at_all():
    given = reply(source(Strategy.SEGMENT, "1", "2"), source(Strategy.CURRENT, memories=("d",)), cited=("2",))
    known = [memory("a", "1"), memory("b", "2"), memory("c", "7"), memory("d", "8")]
    assert [one.memory_id for one in behind(given, known)] == ["b", "a", "d"]


def test_lines_name_their_memories_and_a_lost_line_is_named_all_the_same():
    given = reply(source(Strategy.SEGMENT, "1", "2"), cited=("2", "gone"))
    found = explain(given, Reasons({"1": (line("1"), 1), "2": (line("2"), 1)}, [memory("b", "2")], {}))
    assert [(one.utterance_id, one.cited, one.memory_ids) for one in found.lines] == [
        ("1", False, ()),
        ("2", True, ("b",)),
        ("gone", True, ()),
    ]
    assert found.lines[-1].line is None
    assert [one.cited for one in found.memories] == [True]


def test_what_no_longer_holds_says_so():
    ended = Ending(status=MemoryStatus.SUPERSEDED, by="b", session=2, at=START, because="moved")
    given = reply(source(Strategy.SEGMENT, "1"))
    found = explain(given, Reasons({}, [memory("a", "1", ending=ended)], {}))
    assert [(one.status, one.cited) for one in found.memories] == [(MemoryStatus.SUPERSEDED, False)]


@pytest.fixture
def gateway(tmp_path) -> TestGateway:
    return make_gateway(tmp_path)


async def test_a_reply_is_explained_down_to_the_utterances(gateway):
    async with gateway.client() as client:
        await told(client)
        await told(client, events=LATER)
        asked = await client.post(
            f"{C}/asks", json={"text": "When did Ann move to Lyon?", "speaker": "Ben", "record": False}
        )
        given = asked.json()
        found = await client.get(f"{C}/replies/{given['reply_id']}/why")
    assert found.status_code == 200, found.text
    why = found.json()
    assert why["reply"] == given
    texts = {event["utterance_id"]: event["text"] for event in (*SESSION, *LATER) if "text" in event}
    lines = {one["utterance_id"]: one for one in why["lines"]}
    assert all(one["line"]["text"] == texts[id_] for id_, one in lines.items())
    assert {id_ for id_, one in lines.items() if one["cited"]} == set(given["cited"])
    behind_cited = [one for one in why["memories"] if one["cited"]]
    assert behind_cited
    for one in behind_cited:
        kinds = [change["kind"] for change in one["changes"] if change["memory"] == one["memory"]]
        assert kinds[0] == "added"
        assert one["changes"][0]["decided_by"]["code"].startswith("summarize")


async def test_what_was_left_out_is_named_with_its_reason(gateway):
    async with gateway.client() as client:
        await told(client)
        await told(client, events=LATER)
        body = {"text": "Where does Ann live?", "speaker": "Ben", "record": False, "budget_tokens": 22}
        given = (await client.post(f"{C}/asks", json=body)).json()
        found = await client.get(f"{C}/replies/{given['reply_id']}/why")
    why = Explanation.model_validate_json(found.content)
    shown = set(shown_ids(why.reply))
    assert why.left_out
    for one, kept in zip(why.left_out, why.reply.left_out or (), strict=True):
        assert one.reason == kept.reason
        assert [said.utterance_id for said in one.lines] == list(kept.utterance_ids)
        assert not shown.issuperset(kept.utterance_ids)
    drawn = StringIO()
    console = Console(width=200, file=drawn)
    console.print(explanation_tree(why))
    assert why.left_out[0].lines[0].text in drawn.getvalue()


async def test_the_reasons_of_an_unknown_reply_are_not_found(gateway):
    async with gateway.client() as client, gateway.client("other") as other:
        await told(client)
        given = (await client.post(f"{C}/asks", json={"text": "Where?", "speaker": "Ben"})).json()
        assert (await client.get(f"{C}/replies/nobody/why")).status_code == 404
        assert (await other.get(f"{C}/replies/{given['reply_id']}/why")).status_code == 404
        assert (await client.get(f"{C}/replies/{given['reply_id']}/why?at=2030-01-01T00:00:00Z")).status_code == 422


async def test_a_long_gone_reply_is_found_by_its_time(gateway):
    async with gateway.client() as client:
        await told(client)
        given = (await client.post(f"{C}/asks", json={"text": "Where does Ann live?", "speaker": "Ben"})).json()
        gateway.notes.texts.clear()
        why = f"{C}/replies/{given['reply_id']}/why"
        near = await client.get(why, params={"at": datetime.now(UTC).isoformat()})
        far = await client.get(why, params={"at": "2020-01-01T00:00:00Z"})
    assert (near.status_code, far.status_code) == (200, 404)


async def test_the_reasons_are_drawn_for_the_terminal(gateway):
    async with gateway.client() as client:
        await told(client)
        body = {"text": "When did Ann move to Lyon?", "speaker": "Ben", "record": False}
        given = (await client.post(f"{C}/asks", json=body)).json()
        found = await client.get(f"{C}/replies/{given['reply_id']}/why")
    drawn = StringIO()
    console = Console(width=200, file=drawn)
    console.print(explanation_tree(Explanation.model_validate_json(found.content)))
    for part in (
        "cites",
        "behind these",
        "formed",
        "offline rules",
        "I moved to Lyon in March.",
        "shown, but not cited",
    ):
        assert part in drawn.getvalue()


@pytest.mark.parametrize(
    ("answer", "found"), [('{"text": "Ann said \\"yes\\"."}', True), ('{"text": "Ann said no."}', False), ("", False)]
)
def test_a_recorded_answer_that_holds_a_memory_is_found(answer, found):
    assert holds(answer, ['Ann said "yes".']) is found
