"""What a finished run left behind, and what is wrong with it."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.data_keys import open_data_keys
from eunoe.deploy.clients.shared import store_keys
from eunoe.schemas.decisions import Scope
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import ReplyContext, ReplyRequested, SessionEvent
from eunoe.schemas.memory import InsightsProposed
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.replies import Reply
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import decode
from eunoe.streams.dead_letters import CONTENT_HEADER, read_dead_letter
from eunoe.streams.lag import lag
from eunoe.streams.reader import read_all
from eunoe.streams.record import Record
from eunoe.streams.sealed.letters import opened_letters
from eunoe.streams.sealed.records import open_record
from eunoe.streams.topics import TOPICS, Topic
from eunoe.workers.registry import STAGES
from eunoe.workers.stage import ApplyOrder
from eunoe.workers.stores.vectors.qdrant import QdrantIndex
from tests.faults.house import House
from tests.faults.load import Letter, Load
from tests.support.whole_state import ConversationState, read_states

_INTERNAL = tuple(topic for topic, spec in TOPICS.items() if spec.derived)


@dataclass
class Findings:
    """Everything that a run is judged by."""

    digests: dict[str, str] = field(default_factory=dict)
    states: dict[str, ConversationState] = field(default_factory=dict)
    redelivered: int = 0
    """Records that stand in a topic more than once, byte for byte: whoever reads them knows them by their ids."""
    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    disorder: list[str] = field(default_factory=list)
    letters: list[str] = field(default_factory=list)
    """Dead letters that nobody injected, or that are missing."""


class Finish:
    """Knows when a house is done with a load."""

    def __init__(self, house: House, load: Load) -> None:
        self._house = house
        self._waiting = [
            (Scope(name, key), load.turns[key] if spec.order is ApplyOrder.TURN else load.sessions[key])
            for key in load.sessions
            for name, spec in STAGES.items()
            if spec.order.is_gapless
        ]

    async def applied(self) -> bool:
        """True: every stage has applied, and sent, all sessions and turns of all conversations."""
        try:
            async with asyncio.timeout(10):
                while self._waiting:
                    scope, number = self._waiting[-1]
                    ledger = await self._house.store.ledger(scope)
                    if ledger.applied < number or ledger.outbox is not None:
                        return False
                    self._waiting.pop()
                return True
        except (Unavailable, TimeoutError):
            return False

    async def drained(self) -> bool:
        """True: every record of every topic is handled and committed too."""
        settings = self._house.settings
        inputs = {name: spec.inputs for name, spec in STAGES.items()}
        try:
            return not any((await lag(settings.kafka_settings, settings.names, inputs)).values())
        except Unavailable:
            return False

    def tell(self) -> str:
        """What is not done yet."""
        left = Counter(scope.stage for scope, _ in self._waiting)
        example = self._waiting[-1] if self._waiting else None
        return f"at most these are not applied: {dict(left)}; for example {example}"


async def examine(house: House, load: Load, *, goes_back: bool = False) -> Findings:
    """Read both stores and all topics, and judge.

    With ``goes_back`` a reply may come again in other words, and a conversation may have been held for a while.
    """
    findings = Findings()
    async with _index(house) as index:
        keys = await house.store.conversations()
        for state in await read_states(house.store, index, keys):
            findings.states[state.digest.key] = state
            findings.digests[state.digest.key] = state.digest.sha256
    judge_states(findings, load)
    judge_erased(findings, house.erased)
    await _judge_replies(house, load, findings, once=not goes_back)
    await _judge_letters(house, load, findings, held=goes_back)
    async with open_data_keys(house.settings) as keys_:
        for topic in _INTERNAL:
            stored = read_all(house.settings.kafka_settings, house.settings.names, topic)
            opened = [await open_record(record, keys_) async for record in stored]
            judge_topic(topic, filter(None, opened), findings)
    return findings


@asynccontextmanager
async def _index(house: House) -> AsyncIterator[QdrantIndex]:
    async with open_qdrant(house.settings) as client:
        yield QdrantIndex(client, store_keys(house.settings))


def judge_states(findings: Findings, load: Load) -> None:
    for key, wanted in load.utterances.items():
        state = findings.states.get(key)
        if state is None:
            findings.lost.append(f"{key}: nothing is known of it")
            continue
        segments = _table(state, "compress", "segments").values()
        found = Counter(line["utterance_id"] for segment in segments for line in segment["lines"])
        findings.lost += [f"{key}: utterance {id_} is in no segment" for id_ in sorted(wanted - set(found))]
        findings.duplicated += [f"{key}: utterance {id_} is in {n} segments" for id_, n in found.items() if n > 1]
        findings.lost += [f"{key}: {found.kind} {found.collection} {found.id}" for found in state.findings]
        findings.lost += [f"{key}: {part.stage}: {part.why}" for part in state.unfinished]


def judge_erased(findings: Findings, erased: Mapping[str, Set[str]]) -> None:
    """Nothing that is remembered rests on what was erased. ``erased``: conversation key → ids."""
    for key, ids in erased.items():
        state = findings.states.get(key)
        named = Counter(_named(None if state is None else state.digest.state))
        findings.lost += [f"{key}: the erased utterance {id_} is named {named[id_]} times" for id_ in ids & set(named)]


def _named(value: object) -> Iterator[str]:
    """The ids of utterances anywhere in a state."""
    if isinstance(value, Mapping):
        ids = (value.get("utterance_id"), *_listed(value.get("utterance_ids")))
        yield from (id_ for id_ in ids if isinstance(id_, str))
        for part in value.values():
            yield from _named(part)
    for part in _listed(value):
        yield from _named(part)


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _table(state: ConversationState, stage: str, table: str) -> Mapping[str, dict[str, list[dict[str, str]]]]:
    found: Mapping[str, dict[str, list[dict[str, str]]]] = (
        state.digest.state.get(stage, {}).get("tables", {}).get(table, {})
    )
    return found


async def _judge_replies(house: House, load: Load, findings: Findings, *, once: bool) -> None:
    found: defaultdict[tuple[str, str], list[bytes]] = defaultdict(list)
    async for record in read_all(house.settings.kafka_settings, house.settings.names, Topic.REPLIES):
        reply = decode(record.value)
        if isinstance(reply, Reply):
            found[reply.key, reply.request_id].append(record.value)
            if reply.error is not None:
                findings.lost.append(f"{reply.key}: request {reply.request_id} was answered by an error: {reply.error}")
    for request in sorted(load.expected - set(found)):
        findings.lost.append(f"{request[0]}: request {request[1]} has no reply")
    for request in sorted(set(found) - load.requests.keys()):
        findings.duplicated.append(f"{request[0]}: request {request[1]} was never made")
    for request, values in found.items():
        if not once:
            findings.redelivered += len(values) - 1
            continue
        _count_copies(findings, f"{request[0]}: the reply to {request[1]}", values)


def _count_copies(findings: Findings, what: str, values: Sequence[bytes]) -> None:
    """The same bytes again are a redelivery; other bytes under the same name are a second truth."""
    findings.redelivered += len(values) - len(set(values))
    if len(set(values)) > 1:
        findings.duplicated.append(f"{what} was published {len(set(values))} times, each otherwise")


async def _judge_letters(house: House, load: Load, findings: Findings, *, held: bool) -> None:
    found: Counter[tuple[Letter, int, int]] = Counter()
    async with open_data_keys(house.settings) as keys:
        stored = read_all(house.settings.kafka_settings, house.settings.names, Topic.DEAD_LETTERS)
        async for record in opened_letters(stored, keys):
            letter, _ = read_dead_letter(record)
            digest = record.headers.get(CONTENT_HEADER, letter.sha256.encode()).decode()
            found[(letter.stage, letter.reason.value, digest), letter.partition, letter.offset] += 1
    findings.redelivered += sum(found.values()) - len(found)
    wanted = {letter for bad in load.bad for letter in bad.letters}
    there = {letter for letter, _, _ in found if not held or letter[1] != DeadLetterReason.HELD}
    findings.letters += [f"missing: {letter[:2]}" for letter in sorted(wanted - there)]
    findings.letters += [f"not injected: {letter[:2]}" for letter in sorted(there - wanted)]


def judge_topic(topic: Topic, records: Iterable[Record], findings: Findings) -> None:
    """Each event once, but for copies; the events of one kind of a conversation in the order of their numbers."""
    found: defaultdict[tuple[str, str, str], list[bytes]] = defaultdict(list)
    last: defaultdict[tuple[str, str], int] = defaultdict(int)
    for record in records:
        try:
            event = decode(record.value)
        except ContractError:
            continue  # an injected one: the dead letters tell of it
        if not isinstance(event, SessionEvent):
            continue
        name, number = _identity(event)
        kind, copies = event.type_tag(), found[event.key, event.type_tag(), name]
        if not copies and number < last[event.key, kind]:
            findings.disorder.append(f"{topic}: {event.key}: {kind} {name} came after {last[event.key, kind]}")
        last[event.key, kind] = max(number, last[event.key, kind])
        copies.append(record.value)
    for (key, kind, name), values in found.items():
        _count_copies(findings, f"{topic}: {key}: {kind} {name}", values)


def _identity(event: SessionEvent) -> tuple[str, int]:
    """The name of an event among those of its kind and conversation, and its place in their order."""
    if isinstance(event, ReplyContext):
        return event.request.request_id, 0  # probes come from intake, the others from blend: no common order
    if isinstance(event, ReplyRequested):
        return event.request.request_id, event.turn or 0
    if isinstance(event, InsightsProposed):
        return str(event.turn), event.turn
    return str(event.session), event.session
