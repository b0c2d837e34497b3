"""How well utterances answer a question: a sum of clues, each a z-score over the candidates or a mark. Pure.

The weights are round: each clue means something by itself, and none is fitted to a collection.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eunoe.workers.respond.asked import QuestionHints, nearness
from eunoe.workers.respond.turns import (
    ASKS,
    LENGTH,
    NAMES,
    NUMBER,
    OWN,
    REACTS,
    TIME,
    TOKENS,
    WORTH,
    AnyFloats,
    CandidateTurn,
    Floats,
    blend_neighbours,
)
from eunoe.workers.text.terms import K1, B, idf

WORDS_AROUND = (0.3, 0.6, 1.0, 0.4, 0.2)
"""How much the words of the two utterances before, of itself and of the two after count."""
SENSE_AROUND = (0.25, 0.5, 1.0, 0.5, 0.25)
"""The same for vectors."""
FEEDBACK = 5
"""How many of the best utterances the feedback looks at."""


@dataclass(frozen=True, slots=True)
class FeatureWeights:
    """What each clue counts when candidates of all sources are scored together.

    Clues that differ from candidate to candidate are z-scores, the others marks of 0 or 1.
    """

    words: float = 0.6
    """BM25 with the neighbours' words counted in."""
    around: float = 0.5
    """Cosine of the utterance with its neighbours."""
    session_words: float = 0.2
    """The best BM25 of the session."""
    session_near: float = 0.2
    """The best cosine of the session."""
    memory: float = 0.2
    """The best cosine of a memory that rests on the utterance."""
    feedback: float = 0.3
    """Likeness to the best utterances."""
    speaker: float = 3.0
    """The question names who says it."""
    date: float = 3.0
    """The question names the time."""
    time_words: float = 0.6
    """It tells a time, and the question asks for one."""
    numbers: float = 0.3
    """It tells a number, and the question asks for one."""
    answer: float = 0.2
    """It comes upon another's question."""
    question: float = 0.3
    """Taken off where it is a question itself."""
    worth: float = 0.15
    """How much it tells, whatever is asked: for each point that a summary would give it."""
    particulars: float = 0.2
    """The same: for each name that it tells, for a time, and for telling of who says it."""
    reaction: float = 0.3
    """Taken off where it begins with a reaction."""
    length: float = 0.5
    """Taken off for each e-fold of tokens."""


@dataclass(frozen=True, slots=True)
class Material:
    """Candidate utterances in log order."""

    turns: Sequence[CandidateTurn]
    where: NDArray[np.int64]
    """See `eunoe.workers.respond.turns.places`."""
    vectors: NDArray[np.float32]
    """Shape (n, dimensions), unit rows."""
    facts: Floats
    """Shape (n, 9): see `eunoe.workers.respond.turns.facts_of`."""
    memory: Floats
    """Shape (n,): the best cosine to the question of the memories that rest on an utterance."""


@dataclass(frozen=True, slots=True)
class QuestionFeatures:
    """The question as scoring sees it."""

    asked: QuestionHints
    words: Sequence[str]
    """Its terms."""
    vector: NDArray[np.float32]
    """Shape (dimensions,), a unit row."""
    speakers: int
    """How many take part in the conversation."""


def score_turns(material: Material, sought: QuestionFeatures, weights: FeatureWeights) -> Floats:
    """One score per utterance, shape (n,): what it says, less what it costs.

    Raises ``ValueError`` where the parts of ``material`` are not of one length.
    """
    if (
        not len(material.turns)
        == len(material.where)
        == len(material.vectors)
        == len(material.facts)
        == len(material.memory)
    ):
        raise ValueError("turns, places, vectors, facts and memory scores must have one length")
    if not material.turns:
        return np.zeros(0)
    sessions = np.asarray([turn.order[0] for turn in material.turns])
    fit = _topic(material, sought, sessions, weights) + _marks(material, sought, sessions, weights)
    best = np.argsort(-fit, kind="stable")[:FEEDBACK]
    fit = fit + weights.feedback * _z(material.vectors @ _unit(material.vectors[best].mean(axis=0)))
    return fit - weights.length * np.log(material.facts[:, TOKENS])


def _topic(
    material: Material, sought: QuestionFeatures, sessions: NDArray[np.int64], weights: FeatureWeights
) -> Floats:
    """What an utterance and its session have to do with the question's topic."""
    words = word_scores(material, sought.words)
    near = material.vectors @ sought.vector
    around = _unit(blend_neighbours(material.vectors, material.where, SENSE_AROUND)) @ sought.vector
    return (
        weights.words * _z(words)
        + weights.around * _z(around)
        + weights.session_words * _z(_best_of_session(words, sessions))
        + weights.session_near * _z(_best_of_session(np.maximum(near, around), sessions))
        + weights.memory * _z(material.memory)
    )


def word_scores(material: Material, words: Sequence[str]) -> Floats:
    """BM25 of each utterance with its neighbours' words counted in, shape (n,)."""
    wanted = Counter(words)
    if not wanted:
        return np.zeros(len(material.turns))
    counts = np.zeros((len(material.turns), len(wanted)))
    for place, turn in enumerate(material.turns):
        if not wanted.keys().isdisjoint(turn.wording.counts):
            counts[place] = [turn.wording.counts.get(word, 0) for word in wanted]
    rarity = _rarity(counts) * np.asarray(list(wanted.values()))
    lengths = material.facts[:, LENGTH]
    near = blend_neighbours(counts, material.where, WORDS_AROUND)
    long = blend_neighbours(lengths, material.where, WORDS_AROUND)
    norm = K1 * (1 - B + B * long / max(float(long.mean()), 1.0))
    scores: Floats = (near * (K1 + 1) / (near + norm[:, None])) @ rarity
    return scores


def _rarity(counts: Floats) -> Floats:
    """Inverse frequencies among the candidates."""
    return np.asarray([idf(int(n), len(counts)) for n in (counts > 0).sum(axis=0)])


def _marks(
    material: Material, sought: QuestionFeatures, sessions: NDArray[np.int64], weights: FeatureWeights
) -> Floats:
    """Who says it, when, and in what form."""
    asked, facts = sought.asked, material.facts
    lines = [turn.line for turn in material.turns]
    speakers = np.asarray([line.speaker for line in lines])
    marks = weights.answer * _answers(facts[:, ASKS], sessions, speakers) - weights.question * facts[:, ASKS]
    marks += weights.particulars * facts[:, [NAMES, TIME, OWN]].sum(axis=1)
    marks += weights.worth * facts[:, WORTH] - weights.reaction * facts[:, REACTS]
    if 0 < len(asked.speakers) < sought.speakers:
        marks += weights.speaker * np.isin(speakers, list(asked.speakers))
    if asked.times:
        days = {day: nearness(asked.times, day) for day in {line.at.date() for line in lines}}
        marks += weights.date * np.asarray([days[line.at.date()] for line in lines])
    for is_asked, weight, column in (
        (asked.when, weights.time_words, TIME),
        (asked.count, weights.numbers, NUMBER),
    ):
        if is_asked:
            marks += weight * facts[:, column]
    return marks


def _answers(asks: Floats, sessions: NDArray[np.int64], speakers: NDArray[np.str_]) -> Floats:
    """1 for an utterance that comes upon another's question."""
    found = np.zeros(len(asks))
    found[1:] = asks[:-1] * (sessions[1:] == sessions[:-1]) * (speakers[1:] != speakers[:-1])
    return found


def _best_of_session(values: NDArray[np.floating], sessions: NDArray[np.int64]) -> Floats:
    _, inverse = np.unique(sessions, return_inverse=True)
    best = np.full(int(inverse.max()) + 1, -math.inf)
    np.maximum.at(best, inverse, values)
    spread: Floats = best[inverse]
    return spread


def _z(values: NDArray[np.floating]) -> Floats:
    """Distances from the mean in standard deviations; zeros where all are alike."""
    wide = values.astype(np.float64)
    spread = float(wide.std())
    scaled: Floats = (wide - wide.mean()) / spread if spread > 1e-9 else np.zeros(len(wide))
    return scaled


def _unit(rows: AnyFloats) -> AnyFloats:
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit: AnyFloats = rows / np.maximum(norms, 1e-9)
    return unit
