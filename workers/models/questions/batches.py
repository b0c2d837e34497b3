"""Batches of numbered items, one for each question."""

from collections.abc import Callable, Sequence
from typing import TypeVar

MAX_PAIRS = 40
"""Maximum of pairs in one question."""
MAX_NODES = 12
"""Maximum of nodes of a tree in one question."""

ItemT = TypeVar("ItemT")


def split_batches(
    groups: Sequence[Sequence[ItemT]], cost: Callable[[Sequence[ItemT]], int], budget_tokens: int, most: int
) -> list[list[ItemT]]:
    """Batches of at most ``most`` items and ``budget_tokens``, in order; a group stays together where it fits alone.

    ``cost``: the tokens of items in a prompt. The batches depend on nothing that was learned of an endpoint: a replay
    finds the same ones.
    """
    batches: list[list[ItemT]] = []
    spent = 0
    for part, tokens in (piece for group in groups for piece in _pieces(group, cost, budget_tokens, most)):
        if not batches or spent + tokens > budget_tokens or len(batches[-1]) + len(part) > most:
            batches.append([])
            spent = 0
        batches[-1].extend(part)
        spent += tokens
    return batches


def _pieces(
    group: Sequence[ItemT], cost: Callable[[Sequence[ItemT]], int], budget_tokens: int, most: int
) -> list[tuple[Sequence[ItemT], int]]:
    """The group in as few pieces as fit, each with its tokens."""
    tokens = cost(group) if group else 0
    if len(group) > 1 and (len(group) > most or tokens > budget_tokens):
        middle = (len(group) + 1) // 2
        return [
            *_pieces(group[:middle], cost, budget_tokens, most),
            *_pieces(group[middle:], cost, budget_tokens, most),
        ]
    return [(group, tokens)] if group else []
