"""Stage blend at its desk: over memories as update keeps them, with a model that is told what to say."""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from eunoe.schemas.base import Value
from eunoe.schemas.decisions import Collection, Commit, Decision, Outbox, Point, Put, Scope, Wait, Work
from eunoe.schemas.errors import AnswerInvalid
from eunoe.schemas.events import Ask, Line, ReplyContext, ReplyRequested
from eunoe.schemas.memory import InsightsProposed, Memory
from eunoe.schemas.model_ports import Prompt
from eunoe.workers.blend.blender import Blender
from eunoe.workers.blend.model import ModelBlender
from eunoe.workers.blend.offline import OfflineBlender
from eunoe.workers.blend.prompt import QUESTION
from eunoe.workers.blend.reads import Recall
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.blend.stage import BlendStage
from eunoe.workers.models.questions.answer_forms import InsightsForm, OperationsForm, QuestionForm, RelationsForm
from eunoe.workers.models.questions.reading import read_answer
from eunoe.workers.text.names import without_names
from eunoe.workers.update.tables import MEMORIES
from tests.support.graphs import KEY, START
from tests.support.in_memory import HashEmbedder, Stores

Answer = Callable[[Prompt], str] | str
UPDATE = Scope("update", KEY)
BLEND = Scope("blend", KEY)


class Scripted:
    """A language model that gives the texts it was told to give; the last one goes on for ever."""

    name = "scripted"

    def __init__(self, *answers: Answer, question: str = "what of it?") -> None:
        self.answers = list(answers)
        self.question = question
        self.prompts: list[Prompt] = []
        self.urgent: list[bool] = []

    async def answer(self, prompt: Prompt, form: type[Value], *, urgent: bool = False) -> Value:
        self.prompts.append(prompt)
        self.urgent.append(urgent)
        if prompt.name.startswith(QUESTION):
            return form.model_validate({"question": self.question})
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return read_answer(answer if isinstance(answer, str) else answer(prompt), form)


class ByPrompt:
    """A language model whose insights, operations and relations tell of every word of their prompt.

    So a wrong read shows. What it asks, and which memory it replaces, hang on the prompt too. All else is left to the
    offline implementations.
    """

    name = "by-prompt"

    async def answer(self, prompt: Prompt, form: type[Value], *, urgent: bool = False) -> Value:
        digest = hashlib.sha256(f"{prompt.system}\n{prompt.user}".encode()).hexdigest()[:12]
        if issubclass(form, QuestionForm):
            topic = ("dog", "Lyon", "knee", "bread")[int(digest, 16) % 4]
            return form.model_validate({"question": f"{topic} {digest}"})
        if issubclass(form, OperationsForm):
            numbers = re.findall(r"^\[(\d+)\] about", prompt.user, re.MULTILINE)
            return form.model_validate({"pairs": [_operation(int(number), digest) for number in numbers]})
        if issubclass(form, RelationsForm):
            numbers = re.findall(r"^\[(\d+)\]$", prompt.user, re.MULTILINE)
            return form.model_validate({"pairs": [_relation(int(number), digest) for number in numbers]})
        if not issubclass(form, InsightsForm):
            raise AnswerInvalid("only blend, update and link are scripted")
        return form.model_validate({"insights": [_by_digest(prompt, digest)]})


def _chosen(number: int, digest: str, among: Sequence[str]) -> str:
    return among[int(hashlib.sha256(f"{number} {digest}".encode()).hexdigest(), 16) % len(among)]


def _operation(number: int, digest: str) -> dict[str, object]:
    operation = _chosen(number, digest, ("PASS", "REPLACE", "APPEND", "APPEND", "DELETE", "FUSE"))
    fused = f"Both at once: {digest}, {number}." if operation == "FUSE" else ""
    return {"n": number, "why": digest, "op": operation, "merged": fused}


def _relation(number: int, digest: str) -> dict[str, object]:
    relation = _chosen(number, digest, ("Changed", "Cause", "SameTopic", "None"))
    return {"n": number, "why": digest, "relation": relation}


def _by_digest(prompt: Prompt, digest: str) -> dict[str, object]:
    """An insight of the last speaker; it replaces the first memory about them, but every third is New."""
    rows = re.findall(r"^\[(m?\d+)\] (\w+) \(", prompt.user, re.MULTILINE)
    last, speaker = rows[-1]
    own = [id_ for id_, about in rows if id_.startswith("m") and about == speaker]
    replaces = own[:1] if int(digest, 16) % 3 else []
    return {
        "kind": "Updated" if replaces else "New",
        "speaker": speaker_number(prompt.user, speaker),
        "text": f"{speaker} noted {digest}.",
        "lines": [int(last)],
        "replaces": replaces,
    }


def said(
    text: str, *, kind: str = "New", speaker: str = "Ann", cites: str = "", replaces: Sequence[str] = ()
) -> Answer:
    """One insight: it cites the line that holds ``cites`` and replaces the memories whose rows hold ``replaces``."""

    def answer(prompt: Prompt) -> str:
        insight = {
            "kind": kind,
            "speaker": speaker_number(prompt.user, speaker),
            "text": text,
            "lines": [int(row_of(prompt, cites))] if cites else [last_row(prompt)],
            "replaces": [row_of(prompt, words) for words in replaces],
        }
        return InsightsForm.model_validate({"insights": [insight]}).model_dump_json()

    return answer


def speaker_number(user: str, speaker: str) -> int:
    """The number of a speaker in the list of a prompt; 0 if it is not there."""
    found = re.search(rf"^(\d+) = {re.escape(speaker)}$", user, re.MULTILINE)
    return int(found[1]) if found else 0


def row_of(prompt: Prompt, words: str) -> str:
    """The number or id of the only row of the prompt that holds ``words``."""
    (found,) = re.findall(rf"^\[(m?\d+)\].*{re.escape(words)}", prompt.user, re.MULTILINE)
    return str(found)


def last_row(prompt: Prompt) -> int:
    return int(re.findall(r"^\[(\d+)\]", prompt.user, re.MULTILINE)[-1])


@dataclass
class Seconds:
    """A clock that stands still."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Desk:
    """The stage, and the stores it reads."""

    model: Scripted | None = None
    settings: BlendSettings = field(default_factory=BlendSettings)
    clock: Seconds = field(default_factory=Seconds)

    def __post_init__(self) -> None:
        self.stores, self.embedder = Stores(), HashEmbedder()
        self.stage = self.build()
        self.turn = 0

    def build(self) -> BlendStage:
        """The stage as a new process builds it."""
        offline = OfflineBlender(self.settings)
        blender: Blender = offline if self.model is None else ModelBlender(self.model, offline, self.settings)
        recall = Recall(self.stores.state, self.stores.index, self.embedder, self.settings)
        return BlendStage(self.stores.state, recall, blender, self.settings, self.clock)

    async def keep(self, session: int, *memories: Memory, sent: bool = True) -> None:
        """What update does with a session."""
        points = [await self._point(memory) for memory in memories]
        if sent:
            await self.stores.index.upsert(points)
        writes = tuple(Put.of(MEMORIES, memory.memory_id, memory) for memory in memories)
        outbox = None if sent else Outbox(number=session, points=tuple(points))
        assert await self.stores.state.commit(UPDATE, Commit(session - 1, session, writes, outbox))

    async def _point(self, memory: Memory) -> Point:
        (vector,) = await self.embedder.embed([without_names(memory.text, [memory.speaker])])
        return Point(
            collection=Collection.MEMORIES,
            id=memory.memory_id,
            key=KEY,
            born=memory.session,
            seq=memory.session,
            text=memory.text,
            dense=vector.astype("<f4").tobytes(),
        )

    def request(self, session: int, *dialogue: str, wanted: bool = True) -> ReplyRequested:
        """The next turn: ``"Ann: text"`` each, the question last; a ``*`` before it marks a reply from memory."""
        self.turn += 1
        lines = lines_of(session, *dialogue)
        return ReplyRequested(
            conversation_id="c",
            session=session,
            turn=self.turn,
            request=Ask(request_id=f"r{self.turn}"),
            question=lines[-1],
            dialogue=tuple(lines[:-1]),
            reply_wanted=wanted,
        )

    async def decide(self, event: ReplyRequested) -> Decision | Wait:
        assert event.turn is not None
        return await self.stage.decide(Work(KEY, (event,), event.turn, START))

    async def ask(self, session: int, *dialogue: str, wanted: bool = True) -> tuple[InsightsProposed, ReplyContext]:
        """A turn that is decided and committed: its proposal and the context of its reply."""
        event = self.request(session, *dialogue, wanted=wanted)
        decision = await self.decide(event)
        assert isinstance(decision, Decision)
        assert await self.stores.state.commit(BLEND, Commit(self.turn - 1, self.turn, decision.writes))
        proposal, context = decision.events
        assert isinstance(proposal, InsightsProposed)
        assert isinstance(context, ReplyContext)
        return proposal, context


def lines_of(session: int, *dialogue: str) -> list[Line]:
    lines = []
    for number, row in enumerate(dialogue, 1):
        speaker, _, text = row.lstrip("*").partition(": ")
        at = START + timedelta(days=session, minutes=number)
        reply = "reply" if row.startswith("*") else None
        lines.append(Line(utterance_id=f"{session}-{number}", speaker=speaker, text=text, at=at, reply_id=reply))
    return lines
