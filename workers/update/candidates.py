"""Selects the memories that a session's sentences are judged against."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from eunoe.schemas.memory import Memory
from eunoe.workers.text.terms import terms
from eunoe.workers.update.operator import OperationPair
from eunoe.workers.update.prompt import cost_of
from eunoe.workers.update.settings import UpdateSettings


def all_pairs(sentences: Sequence[Memory], holding: Mapping[str, int]) -> int:
    """The number of all pairs of a sentence with a current memory of its speaker.

    ``holding``: speaker → number of current memories.
    """
    return sum(holding.get(sentence.speaker, 0) for sentence in sentences)


def pair_up(sentences: Sequence[Memory], olds: Sequence[Memory]) -> list[OperationPair]:
    """Pair each sentence with each of ``olds`` by its speaker, oldest first."""
    ordered = sorted(olds, key=lambda memory: memory.order)
    return [OperationPair(old, new) for new in sentences for old in ordered if old.speaker == new.speaker]


def fits(pairs: Sequence[OperationPair], settings: UpdateSettings) -> bool:
    """Whether one prompt can hold all these pairs."""
    return len(pairs) <= settings.max_pairs and _cost(pairs) <= settings.prompt_budget_tokens


def take_fitting(
    pairs: Sequence[OperationPair], more: Sequence[OperationPair], settings: UpdateSettings
) -> list[OperationPair]:
    """The pairs of ``more`` that fit into one prompt beside ``pairs``, in their order."""
    added: list[OperationPair] = []
    for pair in more:
        if fits([*pairs, *added, pair], settings):
            added.append(pair)
    return added


def _cost(pairs: Sequence[OperationPair]) -> int:
    shown = {memory.memory_id: memory for pair in pairs for memory in (pair.old, pair.new)}
    return sum(map(cost_of, shown.values()))


def choose_pairs(
    sentences: Sequence[Memory], ranked: Mapping[str, Sequence[Memory]], settings: UpdateSettings
) -> list[OperationPair]:
    """As many pairs as fit into one prompt: the best memory of every sentence, then every second best, and so on.

    ``ranked``: sentence id → memories it may be judged against, best first. Pairs come in the order of the sentences,
    the older memory first.
    """
    columns = [[OperationPair(old, sentence) for old in ranked.get(sentence.memory_id, ())] for sentence in sentences]
    chosen: list[OperationPair] = []
    spent, shown = 0, set[str]()
    for pair in (pair for rank in zip_longest(*columns) for pair in rank if pair is not None):
        fresh = {memory.memory_id: cost_of(memory) for memory in (pair.old, pair.new) if memory.memory_id not in shown}
        if len(chosen) >= settings.max_pairs:
            break
        if spent + sum(fresh.values()) > settings.prompt_budget_tokens:
            continue
        chosen.append(pair)
        shown |= set(fresh)
        spent += sum(fresh.values())
    places = {sentence.memory_id: place for place, sentence in enumerate(sentences)}
    return sorted(chosen, key=lambda pair: (places[pair.new.memory_id], pair.old.order))


def restates(one: Memory, other: Memory, settings: UpdateSettings) -> bool:
    """Whether two memories of one speaker have nearly the same words and the same numbers."""
    if one.speaker != other.speaker:
        return False
    words, others = set(terms(one.text)), set(terms(other.text))
    if {word for word in words ^ others if any(char.isdigit() for char in word)}:
        return False
    return bool(words) and len(words & others) >= settings.restating * len(words | others)
