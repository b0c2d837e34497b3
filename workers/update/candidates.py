"""Which memories a session's sentences are judged against. Pure."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from eunoe.schemas.memory import Memory
from eunoe.workers.text.terms import terms
from eunoe.workers.update.operator import OperationPair
from eunoe.workers.update.prompt import cost_of
from eunoe.workers.update.settings import UpdateSettings


def all_pairs(sentences: Sequence[Memory], holding: Mapping[str, int]) -> int:
    """How many pairs there are in all: each sentence with every memory of its speaker that holds.

    ``holding``: speaker → memories that hold.
    """
    return sum(holding.get(sentence.speaker, 0) for sentence in sentences)


def pair_up(sentences: Sequence[Memory], olds: Sequence[Memory]) -> list[OperationPair]:
    """Every sentence with every one of ``olds`` of its speaker, oldest first."""
    ordered = sorted(olds, key=lambda memory: memory.order)
    return [OperationPair(old, new) for new in sentences for old in ordered if old.speaker == new.speaker]


def fits(pairs: Sequence[OperationPair], settings: UpdateSettings) -> bool:
    """True while one question holds all these pairs."""
    return len(pairs) <= settings.max_pairs and _cost(pairs) <= settings.prompt_budget_tokens


def with_room_for(
    pairs: Sequence[OperationPair], more: Sequence[OperationPair], settings: UpdateSettings
) -> list[OperationPair]:
    """The pairs of ``more`` that one question holds beside ``pairs``, in their order."""
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
    """As many pairs as one question holds: the best memory of every sentence, then the second best of every one …

    ``ranked``: sentence id → the memories that it may be judged against, best first. The pairs come in the order of
    the sentences, the older memory first.
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
    """True where two memories of one speaker say nearly the same words, numbers and all."""
    if one.speaker != other.speaker:
        return False
    words, others = set(terms(one.text)), set(terms(other.text))
    if {word for word in words ^ others if any(char.isdigit() for char in word)}:
        return False
    return bool(words) and len(words & others) >= settings.restating * len(words | others)
