"""Scores utterances for a question by a weighted sum of features.

Each feature is a z-score over the candidates or a flag. The weights are round numbers, not fitted to a data set.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from eunoe.workers.respond.hints import QuestionHints, time_fit
from eunoe.workers.respond.turns import (
    ASKS,
    LENGTH,
    NAMES,
    NUMBER,
    OWN,
    REACTS,
    SALIENCE,
    TIME,
    TOKENS,
    AnyFloats,
    CandidateTurn,
    Floats,
    add_neighbours,
)
from eunoe.workers.text.terms import K1, B, idf

WORDS_AROUND = (0.3, 0.6, 1.0, 0.4, 0.2)
"""Weights of the words of the two utterances before, the utterance itself and the two after."""
SENSE_AROUND = (0.25, 0.5, 1.0, 0.5, 0.25)
"""The same weights for vectors."""
MAX_WORDS = 512
"""Different words of a question that are looked for in every utterance."""
FEEDBACK = 5
"""Number of best utterances used as feedback."""


@dataclass(frozen=True, slots=True)
class FeatureWeights:
    """The weight of each feature.

    Features that vary among candidates are z-scores, the others flags of 0 or 1.
    """

    words: float = 0.6
    """BM25, neighbours' words included."""
    around: float = 0.5
    """Cosine, neighbours' vectors included."""
    session_words: float = 0.2
    """Best BM25 in the session."""
    session_near: float = 0.2
    """Best cosine in the session."""
    memory: float = 0.2
    """Best cosine of a memory that rests on the utterance."""
    feedback: float = 0.3
    """Cosine to the mean of the best utterances."""
    speaker: float = 3.0
    """The question names its speaker."""
    date: float = 3.0
    """The question names its time."""
    time_words: float = 0.6
    """It has a time, and the question asks for one."""
    numbers: float = 0.3
    """It has a number, and the question asks for one."""
    answer: float = 0.2
    """It follows another speaker's question."""
    question: float = 0.3
    """Subtracted if it is a question."""
    salience: float = 0.15
    """Per point of salience, independent of the question."""
    particulars: float = 0.2
    """For each name, for a time, and for the first person."""
    reaction: float = 0.3
    """Subtracted if it begins with a reaction."""
    reply: float = 2.0
    """Subtracted if it is an earlier reply of the responder, which repeats others, unless replies are asked for."""
    length: float = 0.5
    """Subtracted for each e-fold of tokens."""


@dataclass(frozen=True, slots=True)
class ScoringInput:
    """The candidate utterances in log order, with their vectors and features."""

    turns: Sequence[CandidateTurn]
    where: NDArray[np.int64]
    """See `eunoe.workers.respond.turns.positions`."""
    vectors: NDArray[np.float32]
    """Shape (n, dimensions), unit rows."""
    features: Floats
    """Shape (n, 9): see `eunoe.workers.respond.turns.feature_matrix`."""
    memory: Floats
    """Shape (n,): best cosine to the question of the memories that rest on each utterance."""


@dataclass(frozen=True, slots=True)
class QuestionFeatures:
    """The features of a question."""

    hints: QuestionHints
    words: Mapping[str, float]
    """Term → weight, for its own terms the number of times they occur."""
    vector: NDArray[np.float32]
    """Shape (dimensions,), a unit row."""
    speakers: int
    """Number of participants of the conversation."""


def score_turns(inputs: ScoringInput, query: QuestionFeatures, weights: FeatureWeights) -> Floats:
    """One score per utterance, shape (n,).

    Raises ``ValueError`` if the parts of ``inputs`` have different lengths.
    """
    if not len(inputs.turns) == len(inputs.where) == len(inputs.vectors) == len(inputs.features) == len(inputs.memory):
        raise ValueError("turns, places, vectors, features and memory scores must have one length")
    if not inputs.turns:
        return np.zeros(0)
    sessions = np.asarray([turn.order[0] for turn in inputs.turns])
    fit = _topic(inputs, query, sessions, weights) + _flags(inputs, query, sessions, weights)
    best = np.argsort(-fit, kind="stable")[:FEEDBACK]
    fit = fit + weights.feedback * _z(inputs.vectors @ _unit(inputs.vectors[best].mean(axis=0)))
    return fit - weights.length * np.log(inputs.features[:, TOKENS])


def _topic(
    inputs: ScoringInput, query: QuestionFeatures, sessions: NDArray[np.int64], weights: FeatureWeights
) -> Floats:
    """The topical similarity of each utterance and its session to the question."""
    words = word_scores(inputs, query.words)
    near = inputs.vectors @ query.vector
    around = _unit(add_neighbours(inputs.vectors, inputs.where, SENSE_AROUND)) @ query.vector
    return (
        weights.words * _z(words)
        + weights.around * _z(around)
        + weights.session_words * _z(_best_of_session(words, sessions))
        + weights.session_near * _z(_best_of_session(np.maximum(near, around), sessions))
        + weights.memory * _z(inputs.memory)
    )


def word_scores(inputs: ScoringInput, words: Mapping[str, float]) -> Floats:
    """BM25 of each utterance, neighbours' words included, shape (n,); the first `MAX_WORDS` different words count."""
    wanted = dict(islice(words.items(), MAX_WORDS))
    if not wanted:
        return np.zeros(len(inputs.turns))
    counts = np.zeros((len(inputs.turns), len(wanted)))
    for place, turn in enumerate(inputs.turns):
        if not wanted.keys().isdisjoint(turn.features.counts):
            counts[place] = [turn.features.counts.get(word, 0) for word in wanted]
    rarity = _rarity(counts) * np.asarray(list(wanted.values()))
    lengths = inputs.features[:, LENGTH]
    near = add_neighbours(counts, inputs.where, WORDS_AROUND)
    long = add_neighbours(lengths, inputs.where, WORDS_AROUND)
    norm = K1 * (1 - B + B * long / max(float(long.mean()), 1.0))
    scores: Floats = (near * (K1 + 1) / (near + norm[:, None])) @ rarity
    return scores


def _rarity(counts: Floats) -> Floats:
    """Inverse document frequencies among the candidates."""
    return np.asarray([idf(int(n), len(counts)) for n in (counts > 0).sum(axis=0)])


def _flags(
    inputs: ScoringInput, query: QuestionFeatures, sessions: NDArray[np.int64], weights: FeatureWeights
) -> Floats:
    """The features of speaker, time and form."""
    hints, features = query.hints, inputs.features
    lines = [turn.line for turn in inputs.turns]
    speakers = np.asarray([line.speaker for line in lines])
    flags = weights.answer * _answers(features[:, ASKS], sessions, speakers) - weights.question * features[:, ASKS]
    flags += weights.particulars * features[:, [NAMES, TIME, OWN]].sum(axis=1)
    flags += weights.salience * features[:, SALIENCE] - weights.reaction * features[:, REACTS]
    if not hints.replies:
        flags -= weights.reply * np.asarray([not line.is_evidence for line in lines])
    if 0 < len(hints.speakers) < query.speakers:
        flags += weights.speaker * np.isin(speakers, list(hints.speakers))
    if hints.times:
        days = {day: time_fit(hints.times, day) for day in {line.at.date() for line in lines}}
        flags += weights.date * np.asarray([days[line.at.date()] for line in lines])
    for is_asked, weight, column in (
        (hints.when, weights.time_words, TIME),
        (hints.count, weights.numbers, NUMBER),
    ):
        if is_asked:
            flags += weight * features[:, column]
    return flags


def _answers(asks: Floats, sessions: NDArray[np.int64], speakers: NDArray[np.str_]) -> Floats:
    """1 for each utterance that follows another speaker's question, else 0."""
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
    """Distances from the mean in standard deviations; zeros if all are equal."""
    wide = values.astype(np.float64)
    spread = float(wide.std())
    scaled: Floats = (wide - wide.mean()) / spread if spread > 1e-9 else np.zeros(len(wide))
    return scaled


def _unit(rows: AnyFloats) -> AnyFloats:
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit: AnyFloats = rows / np.maximum(norms, 1e-9)
    return unit
