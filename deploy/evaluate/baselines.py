"""Simple retrievers to compare with: turns, four turns or sessions, ranked by BM25, by cosine, or by both."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.events import Utterance
from eunoe.schemas.ports import Embedder
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
class Recalled:
    """A context as evaluations see it."""

    text: str
    tokens: int
    utterance_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Passage:
    """What is found and shown as a whole: some utterances of a session that follow each other."""

    utterances: tuple[Utterance, ...]
    tokens: int
    """What its rows cost, the day's heading not counted."""

    @classmethod
    def of(cls, utterances: Sequence[Utterance]) -> "Passage":
        """A piece with its rows counted."""
        return cls(tuple(utterances), sum(count_tokens(_written(one)) for one in utterances))

    @property
    def day(self) -> str:
        """Its day as the context writes it."""
        return write_day(self.utterances[0].at)


@dataclass(frozen=True, slots=True)
class PassageIndex:
    """The pieces of one size, ready to be ranked."""

    pieces: tuple[Passage, ...]
    vectors: Floats
    """Shape (pieces, dimensions)."""
    weights: Mapping[int, tuple[NDArray[np.int64], Floats]]
    """Term → the pieces that it stands in, with its BM25 weights."""
    frequencies: Mapping[str, int]

    @classmethod
    async def of(cls, pieces: Sequence[Passage], speakers: Sequence[str], embedder: Embedder) -> "PassageIndex":
        """An index of its own over the pieces, names left out."""
        texts = [" ".join(one.text for one in piece.utterances) for piece in pieces]
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
        return cls(tuple(pieces), np.asarray(vectors, dtype=np.float64), weights, frequencies)

    def bm25(self, words: Sequence[str]) -> Floats:
        """Shape (pieces,)."""
        scores = np.zeros(len(self.pieces))
        query = query_vector(words, {word: self.frequencies.get(word, 0) for word in words}, len(self.pieces))
        for index, value in zip(query.indices, query.values, strict=True):
            if index in self.weights:
                places, weights = self.weights[index]
                scores[places] += value * weights
        return scores

    def ranked(self, ranking: str, words: Sequence[str], vector: Floats) -> list[Passage]:
        """Pieces best first; BM25 alone leaves out those that share no word."""
        by_words, by_sense = self.bm25(words), self.vectors @ vector
        if ranking == "bm25":
            return [self.pieces[place] for place in _order(by_words) if by_words[place] > 0]
        if ranking == "dense":
            return [self.pieces[place] for place in _order(by_sense)]
        fused = 1 / (RRF_K + 1 + _ranks(by_sense)) + np.where(by_words > 0, 1 / (RRF_K + 1 + _ranks(by_words)), 0.0)
        return [self.pieces[place] for place in _order(fused)]


def _order(scores: Floats) -> list[int]:
    order: list[int] = np.argsort(-np.round(scores, 6), kind="stable").tolist()
    return order


def _ranks(scores: Floats) -> NDArray[np.int64]:
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[_order(scores)] = np.arange(len(scores))
    return ranks


@dataclass(frozen=True, slots=True)
class Baselines:
    """One conversation's utterances, cut in three sizes."""

    shelves: Mapping[str, PassageIndex]
    speakers: tuple[str, ...]
    embedder: Embedder

    @classmethod
    async def of(cls, utterances: Sequence[Utterance], speakers: tuple[str, ...], embedder: Embedder) -> "Baselines":
        """The three shelves of a conversation."""
        sessions = [list(group) for _, group in groupby(utterances, lambda one: one.session_id)]
        cut = {
            "turns": [Passage.of([one]) for one in utterances],
            "4-turns": [Passage.of(part) for session in sessions for part in _fours(session)],
            "sessions": [Passage.of(session) for session in sessions],
        }
        shelves = {unit: await PassageIndex.of(pieces, speakers, embedder) for unit, pieces in cut.items()}
        return cls(shelves, speakers, embedder)

    async def rank(self, name: str, question: str) -> list[Passage]:
        """Pieces by the baseline ``name``, best first."""
        unit, _, ranking = name.rpartition("-")
        (vector,) = await self.embedder.embed([without_names(question, self.speakers)])
        return self.shelves[unit].ranked(ranking, terms(question, drop=self.speakers), np.asarray(vector, np.float64))


def _fours(session: Sequence[Utterance]) -> Iterator[Sequence[Utterance]]:
    for start in range(0, len(session), FOUR):
        yield session[start : start + FOUR]


def pack_pieces(ranked: Sequence[Passage], budget_tokens: int) -> Recalled:
    """The best pieces that fit, whole, in the order of the log, the day once while it stays the same."""
    chosen: list[Passage] = []
    left = budget_tokens
    days: set[str] = set()
    for piece in ranked:
        cost = piece.tokens + (0 if piece.day in days else count_tokens(piece.day))
        if cost <= left:
            chosen.append(piece)
            days.add(piece.day)
            left -= cost
    return _laid_out(sorted(chosen, key=lambda piece: piece.utterances[0].at))


def _laid_out(chosen: Sequence[Passage]) -> Recalled:
    printed: list[str] = []
    today = ""
    for piece in chosen:
        if piece.day != today:
            printed.append(piece.day)
            today = piece.day
        printed += map(_written, piece.utterances)
    text = "\n".join(printed)
    return Recalled(
        text, count_tokens(text), frozenset(one.utterance_id for piece in chosen for one in piece.utterances)
    )


def _written(utterance: Utterance) -> str:
    return f"{utterance.speaker}: {fold(utterance.text)}"
