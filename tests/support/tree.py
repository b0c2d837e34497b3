"""Trees for tests: memories, sessions of them, and the stage over stores in memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from eunoe.schemas.decisions import Commit, Decision, Scope, Work
from eunoe.schemas.events import Line, Provenance
from eunoe.schemas.memory import Change, ChangeKind, Ending, MemoriesChanged, Memory, MemoryStatus, Reinforcement
from eunoe.schemas.model_ports import LanguageModel, Prompt
from eunoe.workers.models.questions.answer_forms import SummariesForm, SummaryRow
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.vectors.memory_index import MemoryIndex
from eunoe.workers.tree.model import ModelAggregator
from eunoe.workers.tree.nodes import ROOT, TreeNode
from eunoe.workers.tree.offline import OfflineAggregator
from eunoe.workers.tree.settings import TreeSettings
from eunoe.workers.tree.stage import TreeStage
from tests.support.in_memory import START, HashEmbedder

KEY = "default/c"


def memory(session: int, index: int, text: str, speaker: str = "Ann") -> Memory:
    """The memory ``m<session>-<index>``."""
    at = START + timedelta(days=session, minutes=index)
    return Memory(
        memory_id=f"m{session}-{index}",
        session=session,
        index=index,
        speaker=speaker,
        text=text,
        evidence=(Line(utterance_id=f"u{session}-{index}", speaker=speaker, text=text, at=at),),
        at=at,
        known_from=at,
        made_by=Provenance(code="test", model="none"),
    )


def ended(old: Memory, session: int) -> Memory:
    ending = Ending(status=MemoryStatus.SUPERSEDED, by="x", session=session, at=START, because="changed")
    return old.model_copy(update={"ending": ending})


def changed(session: int, added: Sequence[Memory], superseded: Sequence[Memory] = ()) -> MemoriesChanged:
    changes = [Change(kind=ChangeKind.ADDED, memory=one) for one in added]
    changes += [Change(kind=ChangeKind.SUPERSEDED, memory=ended(one, session)) for one in superseded]
    return MemoriesChanged(conversation_id="c", session=session, changes=tuple(changes), known_from=START)


def repeated(session: int, old: Memory, again: Memory) -> MemoriesChanged:
    """A session in which a sentence is passed by a memory: added, superseded by it, and its reinforcement."""
    ending = Ending(status=MemoryStatus.SUPERSEDED, by=old.memory_id, session=session, at=START, because="said already")
    note = Reinforcement(by=again.memory_id, session=session, at=START)
    changes = (
        Change(kind=ChangeKind.ADDED, memory=again),
        Change(kind=ChangeKind.SUPERSEDED, memory=again.model_copy(update={"ending": ending})),
        Change(kind=ChangeKind.REINFORCED, memory=old.model_copy(update={"reinforced": (note,)})),
    )
    return MemoriesChanged(conversation_id="c", session=session, changes=changes, known_from=START)


def replaced(session: int, new: Memory, *olds: Memory) -> MemoriesChanged:
    """A session in which a new memory supersedes others."""
    ending = Ending(status=MemoryStatus.SUPERSEDED, by=new.memory_id, session=session, at=START, because="changed")
    changes = [Change(kind=ChangeKind.ADDED, memory=new)]
    changes += [Change(kind=ChangeKind.SUPERSEDED, memory=old.model_copy(update={"ending": ending})) for old in olds]
    return MemoriesChanged(conversation_id="c", session=session, changes=tuple(changes), known_from=START)


@dataclass
class Grove:
    """A stage with its stores; commits by hand what it decides."""

    settings: TreeSettings = field(default_factory=TreeSettings)
    language: LanguageModel | None = None
    store: MemoryStore = field(default_factory=MemoryStore)
    index: MemoryIndex = field(default_factory=MemoryIndex)

    @property
    def stage(self) -> TreeStage:
        offline = OfflineAggregator(HashEmbedder(), self.settings)
        aggregator = offline if self.language is None else ModelAggregator(self.language, offline, self.settings)
        return TreeStage(self.store, HashEmbedder(), aggregator, self.settings)

    async def apply(self, event: MemoriesChanged) -> Decision:
        work = Work(key=event.key, events=(event,), number=event.session, log_time=START)
        decision = await self.stage.decide(work)
        commit = Commit(expect=event.session - 1, applied=event.session, writes=decision.writes)
        assert await self.store.commit(Scope(stage="tree", key=event.key), commit)
        await self.index.upsert(decision.points)
        return decision


@dataclass
class FakeModel:
    """Answers by ``say``: node number and its row of the question → summary; None leaves the node out."""

    say: Callable[[int, str], str | None] = lambda number, row: f"summary {number}"
    calls: int = 0
    prompts: list[Prompt] = field(default_factory=list)
    name: str = "fake"

    async def answer(self, prompt: Prompt, form: type, *, urgent: bool = False) -> SummariesForm:
        assert form is SummariesForm
        self.calls += 1
        self.prompts.append(prompt)
        rows = [row for row in prompt.user.splitlines() if "] Node with " in row]
        said = {number: self.say(number, row) for number, row in enumerate(rows, start=1)}
        return SummariesForm(
            nodes=tuple(SummaryRow(n=number, text=text) for number, text in said.items() if text is not None)
        )


def check_tree(nodes: Mapping[str, TreeNode], entries: Sequence[str], fan_out: int) -> None:
    """Assert that ``nodes`` is a tree over just these entries."""
    assert nodes[ROOT].parent is None
    assert not nodes[ROOT].text
    seen: list[str] = []
    leaves: list[str] = []

    def visit(id_: str, depth: int) -> tuple[int, int]:
        """Leaves below, and those of them that have not ended."""
        node = nodes[id_]
        seen.append(id_)
        assert node.depth == depth
        assert len(node.children) <= fan_out
        if node.is_leaf:
            assert not node.children
            assert node.descendants == 0
            leaves.append(node.entry or "")
            return 1, int(not node.ended)
        assert id_ == ROOT or len(node.children) >= 2
        assert all(nodes[child].parent == id_ for child in node.children)
        counts = [visit(child, depth + 1) for child in node.children]
        below, current = (sum(each) for each in zip(*counts, strict=True)) if counts else (0, 0)
        assert node.descendants == below
        assert node.current == (None if id_ == ROOT else current)
        return below, current

    visit(ROOT, 0)
    assert sorted(seen) == sorted(nodes)
    assert sorted(leaves) == sorted(entries)
