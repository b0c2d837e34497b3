"""A gateway with something to look at: the demo's conversation, a hostile one, and a large one.

``python -m tests.support.page`` serves it for people, and prints the address with a key.
"""

import asyncio
import json
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from eunoe.deploy.datasets.load import load_conversation
from eunoe.deploy.demo.bundled import CONVERSATION
from eunoe.deploy.gateway.server import serving
from eunoe.deploy.observability.process_records import DurationBounds, ProcessStatus, StageStatus
from eunoe.schemas.base import Value, write_time
from eunoe.schemas.decisions import Commit, Put, Scope, Timer
from eunoe.schemas.events import Ask, Line, Provenance, SessionEnded, Utterance
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.memory import ChangeKind, Ending, Memory, MemoryOrigin, MemoryStatus, Segment
from eunoe.schemas.relations import Relation
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic
from eunoe.workers.compress.segments import segment_id
from eunoe.workers.compress.settings import CompressSettings
from eunoe.workers.compress.tables import SEGMENTS
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.intake.head import Head
from eunoe.workers.link.graph import AgeKey, Related, choose_links
from eunoe.workers.link.reads import read_stored_neighbours
from eunoe.workers.link.writes import graph_writes
from eunoe.workers.models.local.embedding import WordLlamaEmbedder
from eunoe.workers.registry import StageSettings
from eunoe.workers.stores.records.generations import Generation, GenerationState
from eunoe.workers.summarize.settings import SummarizeSettings
from eunoe.workers.tree.nodes import NODES, ROOT, TreeNode
from eunoe.workers.update.memories import SessionSteps, Step, session_row
from eunoe.workers.update.tables import CHANGES, MEMORIES
from tests.support.gateway import TestGateway, make_gateway
from tests.support.memory.process_records import MemoryRecords

TENANT = "acme"
DEMO, ASKED, HOSTILE, LARGE, LONG = "mina-and-jonas", "asked", "hostile/<b>", "large", "long"
QUESTION = "Where does Mina live now?"
SCRIPT = "<script>document.title='taken'</script><img src=x onerror=alert(1)>"
RIGHT_TO_LEFT = "אני גרה עכשיו בחיפה ואוהבת את הים"
PER_SESSION = 10
START = datetime(2024, 1, 1, 9, tzinfo=UTC)
LOG_START = datetime(2025, 11, 10, 9, tzinfo=UTC)
"""Log time of the first record: after the last line of the demo."""
NOW = datetime(2025, 11, 10, 12, tzinfo=UTC)
"""The time in the browser."""
MADE_BY = Provenance(code="planted/1", model="offline")


class _Seconds:
    """A clock that goes on by a second each time it is asked, so that pictures are the same each time."""

    def __init__(self) -> None:
        self._now = LOG_START

    def __call__(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now


async def make_page_gateway(folder: Path, memories: int = 10_000) -> TestGateway:
    """A gateway over a pipeline that remembers all three conversations."""
    pipeline = InMemoryPipeline(WordLlamaEmbedder(), StageSettings(), log=MemoryLog(clock=_Seconds()))
    gateway = make_gateway(folder, pipeline=pipeline, processes=LivingRecords())
    for event in (*_demo(), *_hostile()):
        await gateway.log.append([event])
    await _ask_and_show(gateway)
    await pipeline.send(Message(Topic.CONVERSATIONS, b"acme/mina-and-jonas", b'{"type": "utterance", "text": 7}'))
    await pipeline.send(Message(Topic.CONVERSATIONS, b"acme/mina-and-jonas", f"not JSON {SCRIPT}".encode()))
    if memories:
        await _plant(pipeline, memories)
        await _plant(pipeline, memories, LONG)
    await _rebuild(gateway)
    for process in _processes():
        await gateway.app.gateway.processes.write(process.name, process.model_dump_json())
    return gateway


async def _rebuild(gateway: TestGateway) -> None:
    """A generation v2 of the demo's conversation, which keeps fewer memories and other segments."""
    changes = {"summarize.max_memories": "2", "compress.keep": "0.5"}
    summarize, compress = SummarizeSettings(max_memories=2), CompressSettings(keep=0.5)
    other = InMemoryPipeline(WordLlamaEmbedder(), StageSettings(summarize=summarize, compress=compress))
    await other.play(_demo())
    gateway.states.others["v2"] = other.store
    made = Generation(name="v2", state=GenerationState.BUILT, made_at=START, source="v1", changes=changes)
    await gateway.states.book.write(made)


class LivingRecords(MemoryRecords):
    """Records of processes that go on writing, but for the one that is called silent."""

    async def read(self) -> dict[str, str]:
        now = {"at": write_time(datetime.now(UTC))}
        found = {name: json.loads(text) for name, text in self.texts.items()}
        return {name: json.dumps(one | ({} if "silent" in name else now)) for name, one in found.items()}


def _processes() -> list[ProcessStatus]:
    """Two that work, one that waits for the model, one that is silent."""
    waits = {"ready": False, "why": ("2 waiting for model.internal",)}
    memory = ("intake", "segment", "compress", "summarize", "update", "link", "tree")
    fresh, quick = DurationBounds(count=41, half_s=2.0, most_s=10.0), DurationBounds(count=212, half_s=0.1, most_s=0.5)

    def stage(name: str, **more: object) -> StageStatus:
        answers = name in ("intake", "blend", "respond")
        told = {"lag": 0, "oldest_s": 0.0, "events": 512, "dead_letters": 0, "answers": answers}
        return StageStatus(**{**told, "took": quick if answers else fresh, **more})

    def process(name: str, stages: dict[str, StageStatus], **more: object) -> ProcessStatus:
        told = {"generation": "v1", "started": START, "at": START, "phase": "running", "live": True, "ready": True}
        return ProcessStatus(**{**told, "name": name, "stages": stages, **more})

    busy = {"segment": {"lag": 14, "oldest_s": 21.0, "items": 130, "items_offline": 3}, "update": {"lag": 3, "held": 1}}
    return [
        process("memory-a/7", {name: stage(name, **busy.get(name, {})) for name in memory}),
        process("memory-b/7", {name: stage(name) for name in memory}, **waits),
        process("reply-a/7", {name: stage(name, items=212) for name in ("blend", "respond")}),
        process("silent-a/7", {"respond": stage("respond")}),
    ]


def _demo() -> list[Utterance | SessionEnded]:
    return [event.model_copy(update={"tenant": TENANT}) for event in load_conversation(CONVERSATION).events]


async def _ask_and_show(gateway: TestGateway) -> None:
    """A question that is part of a session, and the reply to it as the client showed it."""
    about = {"tenant": TENANT, "conversation_id": ASKED, "session_id": "session-6"}
    first = [event.model_copy(update={"conversation_id": ASKED}) for event in _demo()]
    at = max(event.at for event in first) + timedelta(days=1)
    ask = Ask(request_id="asked-before")
    question = Utterance(**about, utterance_id="6.1", speaker="Jonas", text=QUESTION, at=at, ask=ask)
    for event in (*first, question):
        await gateway.log.append([event])
    (reply,) = [one for one in gateway.pipeline.replies() if one.request_id == "asked-before"]
    said = {"text": reply.text, "reply_id": reply.reply_id, "at": at + timedelta(seconds=4)}
    await gateway.log.append([Utterance(**about, utterance_id="6.2", speaker="agent", **said)])
    await gateway.log.append([SessionEnded(**about, at=at + timedelta(minutes=1))])


def _hostile() -> list[Utterance | SessionEnded]:
    texts = (
        f"My name is {SCRIPT} and I moved to Lyon in March.",
        RIGHT_TO_LEFT,
        "I have a dog called Rex. " + "He barks at every bicycle in the street. " * 790,
        "\u202eI live in Rome now\u202c, and my sister Eva works in Oslo.",
    )
    common = {"tenant": TENANT, "conversation_id": HOSTILE}
    said = [
        Utterance(**common, utterance_id=f"h{n}<i>", session_id="s", speaker="<b>Ann</b>", text=text, at=START)
        for n, text in enumerate(texts)
    ]
    return [*said, SessionEnded(**common, session_id="s", at=START)]


# ---- a large conversation, written as the stages would leave it


async def _plant(pipeline: InMemoryPipeline, memories: int, conversation: str = LARGE) -> None:
    """A large conversation; ``LONG`` is one timeline."""
    sessions = memories // PER_SESSION
    key = conversation_key(TENANT, conversation)
    known = [_memory(number, memories) for number in range(memories)]
    await _write(pipeline, key, "update", sessions, _update_rows(known, sessions))
    await _write(pipeline, key, "compress", sessions, [_segment_row(key, n, known) for n in range(1, sessions + 1)])
    await _write(pipeline, key, "tree", sessions, _tree_rows(known))
    await _plant_graph(pipeline, key, known, lanes=PER_SESSION if conversation == LONG else 3)
    await _write(pipeline, key, "intake", 1, [Put.of("head", "head", Head(opened=sessions, closed=sessions))])
    for stage in ("segment", "summarize"):
        await _write(pipeline, key, stage, sessions, [])
    await pipeline.log_positions.schedule(0, key, Timer(after_utterance_id=None, since=_day(memories)))


async def _write(pipeline: InMemoryPipeline, key: str, stage: str, applied: int, writes: list[Put]) -> None:
    commit = Commit(expect=0, applied=applied, writes=tuple(writes))
    assert await pipeline.store.commit(Scope(stage, key), commit)


def _day(number: int) -> datetime:
    return START + timedelta(hours=2 * number)


def _memory(number: int, memories: int) -> Memory:
    speaker = ("Ann", "Ben")[number % 2]
    text = f"{speaker} mentioned matter {number} of the {('garden', 'house', 'boat', 'choir', 'office')[number % 5]}."
    session = number // PER_SESSION + 1
    ending = None
    if number % 7 == 3 and number + PER_SESSION < memories:
        ending = Ending(
            status=MemoryStatus.SUPERSEDED,
            by=_id(number + PER_SESSION),
            session=session + 1,
            at=_day(number + PER_SESSION),
            because="a later sentence replaced it",
        )
    return Memory(
        memory_id=_id(number),
        session=session,
        index=number % PER_SESSION,
        speaker=speaker,
        text=text,
        origin=MemoryOrigin.INSIGHT if number % 11 == 5 else MemoryOrigin.SUMMARY,
        evidence=(Line(utterance_id=f"l{number}", speaker=speaker, text=text, at=_day(number)),),
        at=_day(number),
        known_from=_day(session * PER_SESSION),
        made_by=MADE_BY,
        ending=ending,
    )


def _id(number: int) -> str:
    return f"{number:08d}-0000-5000-8000-000000000000"


def _update_rows(known: list[Memory], sessions: int) -> list[Put]:
    rows: list[tuple[str, str, Value]] = [(MEMORIES, memory.memory_id, memory) for memory in known]
    for session in range(1, sessions + 1):
        born = known[(session - 1) * PER_SESSION : session * PER_SESSION]
        ended = [one for one in known[max(0, (session - 2) * PER_SESSION) : (session - 1) * PER_SESSION] if one.ending]
        steps = [Step(kind=ChangeKind.ADDED, memory_id=one.memory_id, at=one.at) for one in born]
        for one in ended:
            by = one.ending.by if one.ending else None
            steps.append(Step(kind=ChangeKind.SUPERSEDED, memory_id=one.memory_id, by=by, at=born[0].at))
        made = SessionSteps(session=session, known_from=born[0].known_from, steps=tuple(steps), made_by=MADE_BY)
        rows.append((CHANGES, session_row(session), made))
    return [Put.of(*row) for row in rows]


def _segment_row(key: str, session: int, known: list[Memory]) -> Put:
    lines = tuple(one.evidence[0] for one in known[(session - 1) * PER_SESSION : session * PER_SESSION])
    id_ = segment_id(key, session, 0)
    made = Segment(
        segment_id=id_,
        session=session,
        index=0,
        lines=lines,
        denoised="\n".join(line.text for line in lines),
        known_from=lines[-1].at,
        made_by=MADE_BY,
    )
    return Put.of(SEGMENTS, id_, made)


async def _plant_graph(pipeline: InMemoryPipeline, key: str, known: list[Memory], lanes: int) -> None:
    """A timeline for each of some places: a memory goes on with the one of the same place a session before.

    Where all places have one, the second session joins them.
    """
    relations = tuple(Relation)
    for first in range(0, len(known), PER_SESSION):
        new = [_age(number) for number in range(first, first + PER_SESSION)]
        related = [
            Related(_age(number - PER_SESSION), _age(number), relations[number % len(relations)], "it goes on")
            for number in range(first, first + PER_SESSION)
            if first and number % PER_SESSION < lanes
        ]
        if first == PER_SESSION == lanes:
            related += [
                Related(_age(place - 1), _age(first + place), Relation.CAUSE, "both") for place in range(1, first)
            ]
        stored = await read_stored_neighbours(pipeline.store, key, [pair.older.memory_id for pair in related])
        writes = graph_writes(new, choose_links(related, stored.roots), stored, MADE_BY)
        session = first // PER_SESSION + 1
        commit = Commit(expect=session - 1, applied=session, writes=tuple(writes))
        assert await pipeline.store.commit(Scope("link", key), commit)


def _age(number: int) -> AgeKey:
    return AgeKey(number // PER_SESSION + 1, number % PER_SESSION, _id(number))


def _tree_rows(known: list[Memory]) -> list[Put]:
    """A root of nodes of at most 32 nodes of at most 32 nodes of at most 32 leaves."""
    nodes = [
        TreeNode(
            node_id=f"leaf-{one.memory_id}", depth=4, text=one.text, entry=one.memory_id, ended=one.ending is not None,
            first_at=one.at, last_at=one.at, created=one.session, changed=one.session,
        )
        for one in known
    ]  # fmt: skip
    level, found = nodes, list[TreeNode]()
    for depth in (3, 2, 1, 0):
        size = 32 if depth else len(level)
        above = []
        for place in range(0, len(level), size):
            below = level[place : place + size]
            id_ = ROOT if not depth else f"node-{depth}-{place // size}"
            found += [one.model_copy(update={"parent": id_}) for one in below]
            above.append(
                TreeNode(
                    node_id=id_, depth=depth, children=tuple(one.node_id for one in below), created=1, changed=1,
                    text=f"Matters of {len(below)} kinds, level {depth}" if depth else "",
                    descendants=sum(one.descendants or 1 for one in below),
                    current=sum(map(_current, below)) if depth else None,
                    first_at=below[0].first_at, last_at=below[-1].last_at, made_by=MADE_BY if depth else None,
                )
            )  # fmt: skip
        level = above
    return [Put.of(NODES, node.node_id, node) for node in (*found, *level)]


def _current(node: TreeNode) -> int:
    return int(not node.ended) if node.current is None else node.current


async def _serve() -> None:
    with tempfile.TemporaryDirectory() as folder:
        gateway = await make_page_gateway(Path(folder))
        async with serving(gateway.app, "127.0.0.1:8799") as url:
            print(f"{url}/#key={gateway.key(TENANT)}", flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve())
