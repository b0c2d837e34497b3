"""Pictures of memory."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from eunoe.deploy.inspect.drawing import history_tree, memories_tree, memory_graph, render, timelines_tree, write_dot
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Line, Provenance
from eunoe.schemas.memory import ChangeKind, Ending, Memory, MemoryStatus, Reinforcement, Suspicion
from eunoe.schemas.relations import Relation
from eunoe.workers.link.graph import Edge
from eunoe.workers.update.reads import HistoryEntry
from tests.support.in_memory import START

MADE_BY = Provenance(code="x", model="y")


def memory(number: int, text: str, *, ended: bool = False) -> Memory:
    at = START + timedelta(days=number)
    ending = Ending(status=MemoryStatus.SUPERSEDED, by="m9", session=9, at=at, because="moved") if ended else None
    line = Line(utterance_id=f"u{number}", speaker="Ann", text=text, at=at)
    return Memory(
        memory_id=f"m{number}",
        session=number,
        index=0,
        speaker="Ann",
        text=text,
        evidence=(line,),
        at=at,
        known_from=at,
        made_by=MADE_BY,
        ending=ending,
    )


def edge(older: int, newer: int, relation: Relation) -> Edge:
    return Edge(older=f"m{older}", newer=f"m{newer}", relation=relation, explanation="x", made_by=MADE_BY)


MEMORIES = [memory(1, 'Ann lives in "Rome"', ended=True), memory(2, "Ann moved to [Lyon]"), memory(3, "Ann has a cat")]
EDGES = [edge(1, 2, Relation.CHANGED)]


def printed(tree: object) -> list[str]:
    console = Console(width=100, no_color=True, legacy_windows=False)
    with console.capture() as capture:
        console.print(tree, highlight=False)
    return [line.strip("│├└─ ") for line in capture.get().splitlines()]


def test_timelines_run_from_old_to_new_with_their_relations():
    assert printed(timelines_tree("c", MEMORIES, EDGES)) == [
        "c: 3 memories, 1 link",
        'Ann lives in "Rome" (2026-01-02, m1, superseded by m9 on 2026-01-02)',
        "Changed Ann moved to [Lyon] (2026-01-03, m2)",
        "memories without links: 1",
        "Ann has a cat (2026-01-04, m3)",
    ]


def test_timelines_without_links_say_why_there_may_be_none():
    assert printed(timelines_tree("c", MEMORIES, []))[:3] == [
        "c: 3 memories, 0 links",
        "memories without links: 3; the offline rules link only what they are sure of, a language model",
        "finds more (OPENAI_BASE_URL)",
    ]


def test_a_memory_that_two_lead_to_is_shown_once_and_then_named():
    rows = printed(timelines_tree("c", MEMORIES, [edge(1, 3, Relation.CAUSE), edge(2, 3, Relation.SAME_TOPIC)]))
    assert [row for row in rows if "cat" in row] == [
        "Cause Ann has a cat (2026-01-04, m3)",
        "SameTopic Ann has a cat (2026-01-04, m3) … see above",
    ]


def test_memories_stand_by_session():
    assert printed(memories_tree("all", MEMORIES[1:])) == [
        "all",
        "session 2",
        "Ann moved to [Lyon] (2026-01-03, m2)",
        "session 3",
        "Ann has a cat (2026-01-04, m3)",
    ]


def test_what_became_of_a_memory_stands_beside_it():
    old, new, last = MEMORIES
    assert old.ending is not None
    gone = Ending(status=MemoryStatus.RETIRED, session=9, at=old.at, because="over")
    retired = old.model_copy(update={"ending": gone})
    repeated = new.model_copy(update={"ending": old.ending.model_copy(update={"session": new.session})})
    note = {"by": "m8", "session": 8}
    flagged = last.model_copy(
        update={
            "reinforced": (Reinforcement(at=START, **note),),
            "suspected": (Suspicion(because="two values", **note),),
        }
    )
    assert [row for row in printed(memories_tree("all", [retired, repeated, flagged])) if "Ann" in row] == [
        'Ann lives in "Rome" (2026-01-02, m1, retired on 2026-01-02)',
        "Ann moved to [Lyon] (2026-01-03, m2, see m9)",
        "Ann has a cat (2026-01-04, m3, said again on 2026-01-01, perhaps contradicted by m8)",
    ]


def test_the_last_day_of_what_names_an_end_stands_beside_it():
    last, ended = MEMORIES[2], MEMORIES[0]
    ends = {"expires_at": datetime(2026, 3, 13, tzinfo=UTC)}
    rows = printed(memories_tree("all", [ended.model_copy(update=ends), last.model_copy(update=ends)]))
    assert [row for row in rows if "Ann" in row] == [
        'Ann lives in "Rome" (2026-01-02, m1, superseded by m9 on 2026-01-02)',
        "Ann has a cat (2026-01-04, m3, until 2026-03-12)",
    ]


def test_a_history_tells_what_by_whom_why_and_where_it_was_said():
    old, new, _ = MEMORIES
    entries = [
        HistoryEntry(1, START, old.at, ChangeKind.ADDED, old, None, ""),
        HistoryEntry(2, START, new.at, ChangeKind.SUPERSEDED, old, new, "she [moved]"),
    ]
    assert printed(history_tree(entries)) == [
        "2 changes",
        "session 1 known since 2026-01-01 00:00 UTC",
        'added Ann lives in "Rome" (m1)',
        "on 2026-01-02, said in u1",
        "session 2 known since 2026-01-01 00:00 UTC",
        'superseded Ann lives in "Rome" (m1)',
        "by Ann moved to [Lyon] (m2)",
        "because: she [moved]",
        "on 2026-01-03, said in u2",
    ]


def test_what_is_only_suspected_has_a_question_mark():
    guess = edge(1, 2, Relation.CHANGED).model_copy(update={"suspicion": True})
    assert "Changed? Ann moved to [Lyon] (2026-01-03, m2)" in printed(timelines_tree("c", MEMORIES, [guess]))


def test_a_graph_has_the_linked_memories_their_relations_and_grey_for_what_no_longer_holds(tmp_path: Path):
    write_dot(memory_graph(MEMORIES, EDGES), tmp_path / "g.dot")
    drawn = (tmp_path / "g.dot").read_text()
    assert "m1 -> m2 [label=Changed]" in drawn
    assert 'lives in \\"Rome\\"' in drawn
    assert drawn.count("fontcolor=grey") == 1
    assert "m3" not in drawn


def test_a_drawing_is_made_where_graphviz_is_and_else_refused_with_what_to_do(tmp_path: Path):
    picture = tmp_path / "g.svg"
    if shutil.which("dot"):
        render(memory_graph(MEMORIES, EDGES), picture)
        assert "<svg" in picture.read_text()
    else:
        with pytest.raises(Refused, match="apt-get install graphviz"):
            render(memory_graph(MEMORIES, EDGES), picture)


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path):
    with pytest.raises(Refused, match="nowhere"):
        write_dot(memory_graph(MEMORIES, EDGES), tmp_path / "nowhere" / "g.dot")
