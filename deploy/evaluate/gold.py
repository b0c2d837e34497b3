"""The gold of a question: the passages of its evidence that hold the answer, and the share of them that is shown.

A line of hundreds of tokens cannot be shown whole inside a small budget. What counts of a long utterance are therefore
the one to three sentences, list items or pieces of code that share most with answer and question. That does not depend
on the way in which a retriever cuts.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from eunoe.deploy.datasets.loaded import EvalQuestion, LoadedConversation
from eunoe.deploy.evaluate.baselines import PackedMemory
from eunoe.workers.respond.context import fold
from eunoe.workers.text.passages import cut_passages, cut_pieces
from eunoe.workers.text.terms import terms

PIECE_TOKENS = 60
"""Tokens of a gold passage, at most."""
MAX_PIECES = 3
"""Gold passages of one utterance, at most."""
NEARLY = 0.6
"""The share of the best piece's score from which another piece of the utterance is gold, too."""
QUESTION_WEIGHT = 0.5
"""Weight of the question's words beside the answer's."""


@dataclass(frozen=True)
class GoldPassages:
    """The gold passages of a conversation's questions: those of the data, or else chosen by shared words."""

    loaded: LoadedConversation

    def of(self, question: EvalQuestion) -> dict[str, tuple[str, ...]]:
        """Utterance id → its gold passages, white space folded; for evidence as cited and as corrected."""
        ids = dict.fromkeys((*question.evidence, *(question.corrected or ())))
        given = {id_: tuple(map(fold, pieces)) for id_, pieces in question.gold_text.items() if pieces}
        return {id_: given.get(id_) or self._chosen(question, id_) for id_ in ids}

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """Utterance id → its text, white space folded."""
        return {one.utterance_id: fold(one.text) for one in self.loaded.utterances}

    @cached_property
    def speakers(self) -> Mapping[str, str]:
        """Utterance id → its speaker."""
        return {one.utterance_id: one.speaker for one in self.loaded.utterances}

    @cached_property
    def _pieces(self) -> Mapping[str, tuple[str, ...]]:
        return {one.utterance_id: _pieces_of(one.text) for one in self.loaded.utterances}

    @cached_property
    def _rarity(self) -> Mapping[str, float]:
        found = Counter(term for pieces in self._pieces.values() for piece in pieces for term in set(terms(piece)))
        total = sum(map(len, self._pieces.values()))
        return {term: math.log(1 + total / count) for term, count in found.items()}

    def _chosen(self, question: EvalQuestion, id_: str) -> tuple[str, ...]:
        pieces = self._pieces[id_]
        weights = dict.fromkeys(terms(question.question), QUESTION_WEIGHT)
        weights |= dict.fromkeys(terms(question.answer or ""), 1.0)
        scores = [self._score(piece, weights) for piece in pieces]
        ranked = sorted(range(len(pieces)), key=lambda place: (-scores[place], place))[:MAX_PIECES]
        return tuple(pieces[place] for place in sorted(ranked) if scores[place] >= NEARLY * scores[ranked[0]])

    def _score(self, piece: str, weights: Mapping[str, float]) -> float:
        return sum(weights[term] * self._rarity[term] for term in set(terms(piece)) & weights.keys())


def _pieces_of(text: str) -> tuple[str, ...]:
    """The sentences of a long utterance; the whole of one of ordinary length."""
    if len(cut_passages(text)) == 1:
        return (fold(text),)
    return tuple(fold(text[span.start : span.end]) for span in cut_pieces(text, PIECE_TOKENS))


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of a question's evidence that a context shows, each from 0 to 1."""

    passages: float
    """Gold passages, the mean over the evidence."""
    whole: float
    """Utterances shown with all of their text."""
    cited: float
    """Utterances that a row of the context cites."""
    corrected: float | None
    """Gold passages of the corrected evidence; `None` where the data has no corrections."""
    roles: float | None
    """Whether each role of the evidence is shown, 0 or 1; `None` for a question without two roles."""
    others: float | None
    """Gold passages of utterances of others than the asker; `None` where there are none, or no asker is known."""


def shares_of(question: EvalQuestion, gold: GoldPassages, recalled: PackedMemory) -> Shares:
    """The shares of a question's evidence inside ``recalled``."""
    of_id = {
        id_: _mean([float(id_ in recalled.utterance_ids and piece in recalled.text) for piece in pieces])
        for id_, pieces in gold.of(question).items()
    }
    evidence = list(dict.fromkeys(question.evidence))
    others = [id_ for id_ in evidence if question.speaker and gold.speakers[id_] != question.speaker]
    return Shares(
        passages=_mean([of_id[id_] for id_ in evidence]),
        whole=_mean([float(id_ in recalled.utterance_ids and gold.texts[id_] in recalled.text) for id_ in evidence]),
        cited=_mean([float(id_ in recalled.utterance_ids) for id_ in evidence]),
        corrected=_mean([of_id[id_] for id_ in question.corrected]) if question.corrected else None,
        roles=_roles(question, of_id),
        others=_mean([of_id[id_] for id_ in others]) if others else None,
    )


def _roles(question: EvalQuestion, of_id: Mapping[str, float]) -> float | None:
    roles = [ids for ids in question.roles.values() if ids]
    if len(roles) < 2:
        return None
    return float(all(any(of_id.get(id_, 0.0) > 0 for id_ in ids) for ids in roles))


def _mean(shares: Sequence[float]) -> float:
    return sum(shares) / len(shares) if shares else 0.0
