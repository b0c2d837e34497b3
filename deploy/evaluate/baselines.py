"""Simple retrievers as baselines: turns, groups of four turns or sessions, ranked by BM25, by cosine or by both."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.events import Utterance
from eunoe.schemas.model_ports import Embedder
from eunoe.workers.respond.context import fold, write_day
from eunoe.workers.text.names import without_names
from eunoe.workers.text.terms import document_vector, query_vector, terms
from eunoe.workers.text.tokens import count_tokens

FOUR = 4
UNITS = ("turns", "4-turns", "sessions")
RANKINGS = ("dense", "bm25", "rrf")
BASELINES = tuple(f"{unit}-{ranking}" for unit in UNITS for ranking in RANKINGS)
RRF_K = 60

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PackedMemory:
    """A retrieved context: its text, its tokens, and the utterances that it cites."""

    text: str
    tokens: int
    utterance_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Passage:
    """Consecutive utterances of a session, retrieved and shown as a whole."""

    utterances: tuple[Utterance, ...]
    tokens: int
    """Tokens of its rows, without the day's heading."""

    @classmethod
    def of(cls, utterances: Sequence[Utterance]) -> "Passage":
        """A passage of these utterances, its tokens counted."""
        return cls(tuple(utterances), sum(count_tokens(_written(one)) for one in utterances))

    @property
    def day(self) -> str:
        """The day of its first utterance, as written in a context."""
        return write_day(self.utterances[0].at)


@dataclass(frozen=True, slots=True)
class PassageIndex:
    """The indexed passages of one size."""

    passages: tuple[Passage, ...]
    vectors: Floats
    """Embeddings, shape (passages, dimensions)."""
    weights: Mapping[int, tuple[NDArray[np.int64], Floats]]
    """Term → the passages that contain it, and its BM25 weights there."""
    frequencies: Mapping[str, int]
    """Word → number of passages that contain it."""

    @classmethod
    async def of(cls, passages: Sequence[Passage], speakers: Sequence[str], embedder: Embedder) -> "PassageIndex":
        """Index passages, leaving out the names of speakers."""
        texts = [" ".join(one.text for one in passage.utterances) for passage in passages]
        listed = [terms(text, drop=speakers) for text in texts]
        average = max(1.0, sum(map(len, listed)) / max(len(listed), 1))
        vectors = await embedder.embed([without_names(text, speakers) for text in texts])
        postings: dict[int, list[tuple[int, float]]] = {}
        frequencies: dict[str, int] = {}
        for place, words in enumerate(listed):
            row = document_vector(words, average)
            for index, weight in zip(row.indices, row.values, strict=True):
                postings.setdefault(index, []).append((place, weight))
            for word in set(words):
                frequencies[word] = frequencies.get(word, 0) + 1
        weights = {
            index: (np.asarray([place for place, _ in rows]), np.asarray([weight for _, weight in rows]))
            for index, rows in postings.items()
        }
        return cls(tuple(passages), np.asarray(vectors, dtype=np.float64), weights, frequencies)

    def bm25(self, words: Sequence[str]) -> Floats:
        """BM25 scores of the passages, shape (passages,)."""
        scores = np.zeros(len(self.passages))
        query = query_vector(words, {word: self.frequencies.get(word, 0) for word in words}, len(self.passages))
        for index, value in zip(query.indices, query.values, strict=True):
            if index in self.weights:
                places, weights = self.weights[index]
                scores[places] += value * weights
        return scores

    def ranked(self, ranking: str, words: Sequence[str], vector: Floats) -> list[Passage]:
        """The passages, best first; BM25 leaves out those that share no word with the question."""
        by_words, by_cosine = self.bm25(words), self.vectors @ vector
        if ranking == "bm25":
            return [self.passages[place] for place in _order(by_words) if by_words[place] > 0]
        if ranking == "dense":
            return [self.passages[place] for place in _order(by_cosine)]
        fused = 1 / (RRF_K + 1 + _ranks(by_cosine)) + np.where(by_words > 0, 1 / (RRF_K + 1 + _ranks(by_words)), 0.0)
        return [self.passages[place] for place in _order(fused)]


def _order(scores: Floats) -> list[int]:
    order: list[int] = np.argsort(-np.round(scores, 6), kind="stable").tolist()
    return order


def _ranks(scores: Floats) -> NDArray[np.int64]:
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[_order(scores)] = np.arange(len(scores))
    return ranks


@dataclass(frozen=True, slots=True)
class Baselines:
    """The utterances of a conversation, indexed in the three sizes of `UNITS`."""

    indexes: Mapping[str, PassageIndex]
    speakers: tuple[str, ...]
    embedder: Embedder

    @classmethod
    async def of(cls, utterances: Sequence[Utterance], speakers: tuple[str, ...], embedder: Embedder) -> "Baselines":
        """Index the utterances of a conversation."""
        sessions = [list(group) for _, group in groupby(utterances, lambda one: one.session_id)]
        cut = {
            "turns": [Passage.of([one]) for one in utterances],
            "4-turns": [Passage.of(part) for session in sessions for part in _fours(session)],
            "sessions": [Passage.of(session) for session in sessions],
        }
        indexes = {unit: await PassageIndex.of(passages, speakers, embedder) for unit, passages in cut.items()}
        return cls(indexes, speakers, embedder)

    async def rank(self, name: str, question: str) -> list[Passage]:
        """Passages ranked by the baseline ``name``, best first."""
        unit, _, ranking = name.rpartition("-")
        (vector,) = await self.embedder.embed([without_names(question, self.speakers)])
        return self.indexes[unit].ranked(ranking, terms(question, drop=self.speakers), np.asarray(vector, np.float64))


def _fours(session: Sequence[Utterance]) -> Iterator[Sequence[Utterance]]:
    for start in range(0, len(session), FOUR):
        yield session[start : start + FOUR]


def pack_passages(ranked: Sequence[Passage], budget_tokens: int) -> PackedMemory:
    """The best passages that fit the budget as a whole, in log order, under one heading for each day."""
    chosen: list[Passage] = []
    left = budget_tokens
    days: set[str] = set()
    for passage in ranked:
        cost = passage.tokens + (0 if passage.day in days else count_tokens(passage.day))
        if cost <= left:
            chosen.append(passage)
            days.add(passage.day)
            left -= cost
    return _laid_out(sorted(chosen, key=lambda passage: passage.utterances[0].at))


def _laid_out(chosen: Sequence[Passage]) -> PackedMemory:
    printed: list[str] = []
    today = ""
    for passage in chosen:
        if passage.day != today:
            printed.append(passage.day)
            today = passage.day
        printed += map(_written, passage.utterances)
    text = "\n".join(printed)
    return PackedMemory(
        text, count_tokens(text), frozenset(one.utterance_id for passage in chosen for one in passage.utterances)
    )


def _written(utterance: Utterance) -> str:
    return f"{utterance.speaker}: {fold(utterance.text)}"
