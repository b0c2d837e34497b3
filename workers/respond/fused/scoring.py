"""Scores passages for a question by a weighted sum of features.

Each feature is a z-score over the candidates or a flag, weighted by `eunoe.workers.respond.fused.weights`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from eunoe.workers.respond.breadth import Breadth
from eunoe.workers.respond.fused.scoring_input import ScoringInput
from eunoe.workers.respond.fused.weights import FeatureWeights
from eunoe.workers.respond.hints import QuestionHints
from eunoe.workers.respond.recall.passages import (
    ASKS,
    CLOSES,
    DAY,
    INSTRUCTS,
    LENGTH,
    LINE_TOKENS,
    NAMES,
    NUMBER,
    OPENS,
    OWN,
    REACTS,
    REPLY,
    SENSE_AROUND,
    STATES,
    TIME,
    TOKENS,
    WISHES,
    Floats,
    add_neighbours,
)
from eunoe.workers.respond.times import time_fit
from eunoe.workers.text.terms import K1, B, idf

WORDS_AROUND = (0.3, 0.6, 1.0, 0.4, 0.2)
"""Weights of the words of the two passages before, the passage itself and the two after."""
MAX_WORDS = 512
"""Different words of a question that are looked for in every passage."""
LONG_TOKENS = 64
"""Tokens above which an utterance is long."""


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


def score_passages(inputs: ScoringInput, query: QuestionFeatures, weights: FeatureWeights) -> Floats:
    """One score per passage, shape (n,)."""
    weights = weights.of(query.hints.breadth)
    if not inputs.segments or not inputs.passages:
        return np.zeros(0)
    return _topic(inputs, query, weights) + _speaker(inputs, query, weights) + _form(inputs, query, weights)


def _topic(inputs: ScoringInput, query: QuestionFeatures, weights: FeatureWeights) -> Floats:
    """The topical similarity of each passage and its session to the question."""
    words = word_scores(inputs, query.words)
    near = inputs.cosines(query.vector)
    around = add_neighbours(near, inputs.apart, SENSE_AROUND) / inputs.lengths_around
    return (
        weights.words * _z(words)
        + weights.around * _z(around)
        + weights.own * _z(near)
        + weights.session_words * _z(_best_of_session(words, inputs.sessions))
        + weights.session_near * _z(_best_of_session(np.maximum(near, around), inputs.sessions))
        + weights.memory * _z(_memory_scores(inputs))
    )


def word_scores(inputs: ScoringInput, words: Mapping[str, float]) -> Floats:
    """BM25 of each passage, neighbours' words included, shape (n,); the first `MAX_WORDS` different words count."""
    wanted = dict(islice(words.items(), MAX_WORDS))
    if not wanted:
        return np.zeros(len(inputs.passages))
    counts = inputs.counts(list(wanted))
    rarity = _rarity(counts) * np.asarray(list(wanted.values()))
    near = add_neighbours(counts, inputs.where, WORDS_AROUND)
    long = add_neighbours(inputs.features[:, LENGTH], inputs.where, WORDS_AROUND)
    norm = K1 * (1 - B + B * long / max(float(long.mean()), 1.0))
    scores: Floats = (near * (K1 + 1) / (near + norm[:, None])) @ rarity
    return scores


def _rarity(counts: Floats) -> Floats:
    """Inverse document frequencies among the candidates."""
    return np.asarray([idf(int(n), len(counts)) for n in (counts > 0).sum(axis=0)])


def _memory_scores(inputs: ScoringInput) -> Floats:
    """For each passage the best cosine of the found memories that rest on its utterance; the least if none does."""
    if not inputs.memory:
        return np.zeros(len(inputs.passages))
    least = min(inputs.memory.values())
    return np.repeat([inputs.memory.get(id_, least) for id_ in inputs.utterance_ids], inputs.pieces)


def _speaker(inputs: ScoringInput, query: QuestionFeatures, weights: FeatureWeights) -> Floats:
    """The features of speaker and person, and of the length of the utterance."""
    hints, features = query.hints, inputs.features
    named = _is_of(inputs.speakers, hints.named)
    asker = _is_of(inputs.speakers, {hints.asker} if hints.asker else ())
    if hints.replies:
        # what the other one said is long, and states nothing of the asker
        return weights.named * (named if hints.named else asker_others(asker, hints)) + _ends(inputs, hints, weights)
    flags = -weights.reply * features[:, REPLY]
    flags -= weights.long * _longer(features, hints)
    flags += weights.states * features[:, STATES]
    wishes = weights.wish * features[:, WISHES] + weights.instruction * features[:, INSTRUCTS]
    flags += wishes * (asker if hints.asker else 1.0) + _ends(inputs, hints, weights)
    if 0 < len(hints.named) < query.speakers:
        flags += weights.named * named
    elif hints.is_own:
        flags += weights.asker * asker
    return flags


def _longer(features: Floats, hints: QuestionHints) -> Floats:
    """The e-folds of the utterances' tokens above `LONG_TOKENS`; none for openings of what is asked for broadly."""
    longer: Floats = np.log(np.maximum(features[:, LINE_TOKENS] / LONG_TOKENS, 1.0))
    return longer if hints.breadth is Breadth.ONE else longer * (1.0 - features[:, OPENS])


def _ends(inputs: ScoringInput, hints: QuestionHints, weights: FeatureWeights) -> Floats:
    """The features of where in its utterance a passage stands."""
    about = _is_of(inputs.speakers, hints.speakers) if hints.speakers else np.ones(len(inputs.speakers))
    opened = np.ones(len(about)) if hints.breadth is Breadth.SUMMARY else about
    scores: Floats = weights.opening * inputs.features[:, OPENS] * opened
    return scores + weights.ending * inputs.features[:, CLOSES] * (1.0 - about)


def _is_of(speakers: NDArray[np.str_], names: object) -> Floats:
    return np.isin(speakers, list(names)).astype(np.float64)  # type: ignore[call-overload]


def asker_others(asker: Floats, hints: QuestionHints) -> Floats:
    """1 for what others than the asker said; zeros where no asker is known."""
    return 1.0 - asker if hints.asker else np.zeros(len(asker))


def _form(inputs: ScoringInput, query: QuestionFeatures, weights: FeatureWeights) -> Floats:
    """The features of time and form."""
    hints, features = query.hints, inputs.features
    asks = features[:, ASKS]
    flags = weights.answer * _answers(asks, inputs.sessions, inputs.speakers) - weights.question * asks
    flags += weights.particulars * features[:, [NAMES, TIME, OWN]].sum(axis=1)
    flags -= weights.reaction * features[:, REACTS]
    if hints.times or hints.said:
        days, inverse = np.unique(features[:, DAY], return_inverse=True)
        fits = [time_fit(hints.times, date.fromordinal(int(day)), hints.said) for day in days]
        flags += weights.date * np.asarray(fits)[inverse]
    for is_asked, weight, column in (
        (hints.when, weights.time_words, TIME),
        (hints.count, weights.numbers, NUMBER),
    ):
        if is_asked:
            flags += weight * features[:, column]
    return flags - weights.length * np.log(features[:, TOKENS])


def _answers(asks: Floats, sessions: NDArray[np.int64], speakers: NDArray[np.str_]) -> Floats:
    """1 for each passage that follows another speaker's question, else 0."""
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
