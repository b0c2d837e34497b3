"""Measures multi-hop retrieval in a tree, on the questions and facts of MultiHop-RAG.

The file is ``{"facts": [[url, fact, title, published_at]], "queries": [{"id", "question", "question_type",
"evidence_list": [{"fact", …}]}]}``. The facts go through the tree's stage one by one in the order of their dates,
each as a session, over the in-memory stores.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eunoe.deploy.evaluate.models import EvalModels
from eunoe.schemas.decisions import Collection, Commit, Decision, Scope, Work
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Line, Provenance
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.memory import Change, ChangeKind, MemoriesChanged, Memory
from eunoe.schemas.model_ports import Embedder
from eunoe.schemas.ports import Hit, Search
from eunoe.workers.registry import StageSettings
from eunoe.workers.respond.recall.ranking import reciprocal_rank_fusion
from eunoe.workers.stage import Dependencies
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.vectors.memory_index import MemoryIndex
from eunoe.workers.text.terms import query_vector, terms
from eunoe.workers.text.tokens import count_tokens
from eunoe.workers.tree.loading import TreeReader
from eunoe.workers.tree.nodes import NAME, TreeNode
from eunoe.workers.tree.reads import TreeRecall, read_leaf_frequencies, read_tree
from eunoe.workers.tree.settings import TreeRecallSettings, TreeSettings
from eunoe.workers.tree.spec import SPEC

K = 10
BUDGET_TOKENS = 400
"""Tokens of about ten facts."""
ALL = "all"
NULL = "null_query"
FLAT, TREE, STANDING = "leaves", "leaves + ancestors", "leaves + aggregates"
RETRIEVERS = ("dense", "bm25", "rrf", "nodes", FLAT, TREE, STANDING)
"""``nodes``: the tree's nodes by cosine; ``leaves``: the tree's ranking of leaves without its ancestor term;
``aggregates``: those that a model wrote stand among the results."""

_TENANT, _CONVERSATION = "evaluate", "multihop"
_SPEAKER = "Newsreader"


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence of an article."""

    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class MultihopQuestion:
    """A question and the facts that it needs, as texts."""

    text: str
    kind: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class MultihopRow:
    """Recall of the evidence facts (percent, mean over questions) of one retriever for one kind of question."""

    retriever: str
    kind: str
    questions: int
    recall_at_10: float
    recall_at_tokens: float
    """Recall within `BUDGET_TOKENS`, whole texts, best first."""


@dataclass(frozen=True, slots=True)
class Found:
    """A retrieved node: its tokens, and the facts in its text."""

    tokens: int
    facts: frozenset[str]


async def evaluate_multihop(path: Path, models: EvalModels) -> list[MultihopRow]:
    """One row per retriever and kind of question, "all" last; questions without evidence are skipped.

    Raises `Refused` for a file in another format.
    """
    facts, questions = read_multihop(path)
    tree = await grow(facts, models)
    found: dict[str, list[list[Found]]] = {name: [] for name in RETRIEVERS}
    for question in questions:
        for name, ranked in (await tree.retrieve(question.text)).items():
            found[name].append(ranked)
    kinds = [*sorted({question.kind for question in questions}), ALL]
    return [_row(name, kind, questions, found[name]) for name in RETRIEVERS for kind in kinds]


def read_multihop(path: Path) -> tuple[list[Fact], list[MultihopQuestion]]:
    """The distinct facts by date, and the questions that have evidence."""
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        facts = sorted((_time(at), text.strip()) for _, text, _, at in document["facts"])
        questions = [_question(query) for query in document["queries"] if query["question_type"] != NULL]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(f"{path}: no multi-hop data with queries and facts ({type(error).__name__}: {error})") from None
    first = {text: at for at, text in reversed(facts)}
    return sorted((Fact(text, at) for text, at in first.items()), key=lambda fact: (fact.at, fact.text)), questions


def _time(text: str) -> datetime:
    """The time of an article; one without an offset is in UTC."""
    at = datetime.fromisoformat(text)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _question(query: Mapping[str, Any]) -> MultihopQuestion:
    evidence = frozenset(part["fact"].strip() for part in query["evidence_list"])
    return MultihopQuestion(query["question"], query["question_type"], evidence)


@dataclass(frozen=True, slots=True)
class FactTree:
    """The facts in a tree."""

    store: MemoryStore
    index: MemoryIndex
    embedder: Embedder
    key: str
    nodes: Mapping[str, TreeNode]
    texts: frozenset[str]

    async def retrieve(self, question: str) -> dict[str, list[Found]]:
        """Retriever → the retrieved nodes, best first."""
        hits = await self._hits(question)
        standing = TreeRecallSettings(limit=2 * K)
        leaves = standing.model_copy(update={"aggregates_stand": False})
        flat = leaves.model_copy(update={"ancestor_weight": 0.0})
        for name, settings in ((FLAT, flat), (TREE, leaves), (STANDING, standing)):
            ranked = await TreeRecall(self.store, self.index, self.embedder, settings).recall(self.key, question)
            hits[name] = [Hit(hit.node_id, hit.score) for hit in ranked]
        return {name: [self._found(hit.id) for hit in found] for name, found in hits.items()}

    async def _hits(self, question: str) -> dict[str, list[Hit]]:
        (vector,) = await self.embedder.embed([question])
        words, stats = terms(question), await TreeReader(self.store, self.key).stats()
        frequencies = await read_leaf_frequencies(self.store, self.key, set(words))
        sparse = query_vector(words, frequencies, stats.leaves)
        dense_search = Search(Collection.TREE, self.key, len(self.nodes), dense=vector.astype("<f4").tobytes())
        nodes, bm25 = await self.index.search(
            [dense_search, Search(Collection.TREE, self.key, len(self.nodes), sparse=sparse)]
        )
        dense = [hit for hit in nodes if self.nodes[hit.id].is_leaf]
        candidates = TreeRecallSettings().candidates
        rrf = reciprocal_rank_fusion([dense[:candidates], bm25[:candidates]])
        found = {"dense": dense, "bm25": bm25, "rrf": rrf, "nodes": nodes}
        return {name: hits[: 2 * K] for name, hits in found.items()}

    def _found(self, node_id: str) -> Found:
        """A node as `Found`: a leaf contains its fact, an aggregate those that it repeats word for word."""
        node = self.nodes[node_id]
        facts = [node.text] if node.is_leaf else [text for text in self.texts if text in node.text]
        return Found(count_tokens(node.text), frozenset(facts) & self.texts)


async def grow(facts: Sequence[Fact], models: EvalModels) -> FactTree:
    """Insert and aggregate the facts one by one, by the language model where there is one."""
    store, index, embedder = MemoryStore(), MemoryIndex(), models.embedder
    await index.prepare(embedder.name, embedder.dimensions)
    settings = StageSettings().with_changes(TreeSettings, ask_model=True)
    dependencies = Dependencies(store, index, embedder, models.compressor, models.language, settings)
    stage = SPEC.build(dependencies)
    key = conversation_key(_TENANT, _CONVERSATION)
    for session, fact in enumerate(facts, start=1):
        work = Work(key=key, events=(_event(fact, session),), number=session, log_time=fact.at)
        decision = await stage.decide(work)
        if not isinstance(decision, Decision):
            raise TypeError(f"stage tree did not decide on session {session}: {decision}")
        commit = Commit(expect=session - 1, applied=session, writes=decision.writes)
        await store.commit(Scope(stage=NAME, key=key), commit)
        await index.upsert(decision.points)
    return FactTree(store, index, embedder, key, await read_tree(store, key), frozenset(fact.text for fact in facts))


def _event(fact: Fact, session: int) -> MemoriesChanged:
    memory = Memory(
        memory_id=f"fact-{session}",
        session=session,
        index=0,
        speaker=_SPEAKER,
        text=fact.text,
        evidence=(Line(utterance_id=f"u{session}", speaker=_SPEAKER, text=fact.text, at=fact.at),),
        at=fact.at,
        known_from=fact.at,
        made_by=Provenance(code="multihop", model="none"),
    )
    return MemoriesChanged(
        tenant=_TENANT,
        conversation_id=_CONVERSATION,
        session=session,
        changes=(Change(kind=ChangeKind.ADDED, memory=memory),),
        known_from=fact.at,
    )


def _row(name: str, kind: str, questions: Sequence[MultihopQuestion], found: Sequence[list[Found]]) -> MultihopRow:
    chosen = [place for place, question in enumerate(questions) if kind in (ALL, question.kind)]
    at_k = [_recall(questions[place], found[place][:K]) for place in chosen]
    at_tokens = [_recall(questions[place], within(found[place], BUDGET_TOKENS)) for place in chosen]
    n = max(len(chosen), 1)
    return MultihopRow(name, kind, len(chosen), round(100 * sum(at_k) / n, 1), round(100 * sum(at_tokens) / n, 1))


def _recall(question: MultihopQuestion, found: Sequence[Found]) -> float:
    seen = frozenset[str]().union(*(one.facts for one in found))
    return len(seen & question.evidence) / len(question.evidence)


def within(found: Sequence[Found], budget_tokens: int) -> list[Found]:
    """The best nodes that fit the budget together, up to the first that does not."""
    kept: list[Found] = []
    left = budget_tokens
    for one in found:
        left -= one.tokens
        if left < 0:
            break
        kept.append(one)
    return kept
