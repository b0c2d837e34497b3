"""Stage update alone on a log, with an operator or a model that answers by the texts of a pair."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from eunoe.schemas.events import Insight, InsightKind, Line, Provenance, SessionSkipped
from eunoe.schemas.memory import InsightsProposed, MemoriesChanged, MemoriesFormed, Memory, MemoryDraft
from eunoe.schemas.model_ports import Prompt
from eunoe.schemas.ports import StateStore
from eunoe.streams.codec import decode, encode
from eunoe.streams.memory_log import MemoryConsumer, MemoryLog
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic
from eunoe.workers.link.offline import OfflineJudge
from eunoe.workers.link.settings import LinkSettings
from eunoe.workers.link.stage import LinkStage
from eunoe.workers.models.questions.answer_forms import OperationRow, OperationsForm
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.runner import Runner
from eunoe.workers.stage import StageSpec
from eunoe.workers.update.model import ModelOperator
from eunoe.workers.update.offline import OfflineOperator
from eunoe.workers.update.operator import Operation, Operator
from eunoe.workers.update.reads import all_memories, current_ids, read_memories
from eunoe.workers.update.settings import UpdateSettings
from eunoe.workers.update.stage import UpdateStage
from tests.support.in_memory import START, HashEmbedder, Stores

KEY = "default/c"
MADE = Provenance(code="summarize/1", model="m")
UPDATE, LINK = replace(STAGES["update"], in_order=()), STAGES["link"]
"""The stages; a session that comes before its predecessor waits here: nothing before them was lost."""
Gathered = MemoriesFormed | InsightsProposed | SessionSkipped

Script = Mapping[tuple[str, str], str]
"""(old text, new text) → operation, or "FUSE: the fused text"; whatever is not there is APPEND."""

_PAIR = re.compile(r"^\[(\d+)\] about .*\n    m \([^)]*\): (.*)\n    s \([^)]*\): (.*)$", re.MULTILINE)


async def current_memories(store: StateStore, key: str) -> list[Memory]:
    """The current memories, oldest first; reads one document for each."""
    found = await read_memories(store, key, await current_ids(store, key))
    return sorted(found, key=lambda memory: memory.order)


def line(id_: str, session: int, speaker: str = "Ann") -> Line:
    return Line(utterance_id=id_, speaker=speaker, text="said", at=START + timedelta(days=session))


def formed(session: int, *texts: str, speaker: str = "Ann", turns: tuple[int, ...] = ()) -> MemoriesFormed:
    drafts = tuple(
        MemoryDraft(speaker=speaker, text=text, evidence=(line(f"u{session}.{n}", session, speaker),))
        for n, text in enumerate(texts)
    )
    at = START + timedelta(days=session)
    return MemoriesFormed(conversation_id="c", session=session, drafts=drafts, known_from=at, turns=turns, made_by=MADE)


def proposed(session: int, turn: int, *insights: Insight) -> InsightsProposed:
    return InsightsProposed(
        conversation_id="c", session=session, turn=turn, insights=insights, known_session=session - 1, made_by=MADE
    )


def insight(kind: InsightKind, text: str, session: int, *replaces: str, speaker: str = "Ann") -> Insight:
    evidence = (line(f"i{session}", session, speaker),)
    return Insight(kind=kind, speaker=speaker, text=text, evidence=evidence, replaces=replaces)


class ScriptedModel:
    """Answers by the texts that it finds in the prompt, and counts."""

    name = "scripted"

    def __init__(self, script: Script) -> None:
        self._script = script
        self.asked: list[Prompt] = []
        self.seen: list[set[tuple[str, str]]] = []

    async def answer(self, prompt: Prompt, form: type, *, urgent: bool = False) -> OperationsForm:
        assert issubclass(form, OperationsForm)
        self.asked.append(prompt)
        pairs = [(int(number), m, s) for number, m, s in _PAIR.findall(prompt.user)]
        self.seen.append({(m, s) for _, m, s in pairs})
        return OperationsForm(pairs=tuple(self._told(*pair) for pair in pairs))

    def _told(self, number: int, old: str, new: str) -> OperationRow:
        operation, _, fused = self._script.get((old, new), "APPEND").partition(": ")
        return OperationRow(n=number, why=f"why {number}", op=Operation(operation).value, merged=fused)


class Updates:
    """The stage on a log; with ``linked`` the stage that links memories goes along."""

    def __init__(
        self,
        operator: Operator | None = None,
        script: Script | None = None,
        settings: UpdateSettings | None = None,
        *,
        linked: bool = False,
    ) -> None:
        self.log, self.stores = MemoryLog(partitions=1), Stores()
        self.model = ScriptedModel(script or {})
        chosen = operator or (OfflineOperator() if script is None else ModelOperator(self.model, OfflineOperator()))
        self.store = self.stores.state
        self.stage = UpdateStage(self.store, self.stores.index, HashEmbedder(), chosen, settings or UpdateSettings())
        self.consumer = MemoryConsumer(self.log)
        self._subscribe(UPDATE, self.stage)
        if linked:
            settings_ = LinkSettings()
            judge = OfflineJudge(settings_)
            self._subscribe(LINK, LinkStage(self.store, self.stores.index, HashEmbedder(), judge, settings_))

    def _subscribe(self, spec: StageSpec, stage: object) -> None:
        sender = Sender(self.store, self.stores.index, self.stores.log_positions, self.log)
        runner = Runner(spec, stage, sender, self.store, LogPlace(0, 1))
        self.consumer.subscribe(spec.name, spec.inputs, runner.handle)

    async def hear(self, *events: Gathered) -> None:
        for event in events:
            await self.log.publish([Message(Topic.MEMORIES, event.key.encode(), encode(event))])
            await self.consumer.run_until_idle()

    def told(self) -> list[MemoriesChanged]:
        return [decode(record.value) for record in self.log.records(Topic.CHANGES)]

    async def memories(self) -> dict[str, Memory]:
        """By text; of memories in the same words the first."""
        return {memory.text: memory for memory in reversed(await all_memories(self.store, KEY))}

    async def current(self) -> list[str]:
        return [memory.text for memory in await current_memories(self.store, KEY)]

    def everything(self) -> tuple[object, ...]:
        points = self.stores.index.all_points()
        tables = {repr(name): dict(rows) for name, rows in self.store._tables.items() if rows}
        return tables, points, [event.to_json() for event in self.told()]


def replayed(feed: Sequence[MemoriesChanged], last_session: int) -> dict[str, Memory]:
    """The memories that a change feed leaves once ``last_session`` is applied."""
    changes = [change for event in feed if event.session <= last_session for change in event.changes]
    return {change.memory.memory_id: change.memory for change in changes}
