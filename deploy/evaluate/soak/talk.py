"""Generated conversations: the same seed gives the same words."""

import random
from typing import Final

SPEAKERS: Final = ("Ann", "Ben")
_WHO = ("My sister", "Carla", "Our neighbour", "Omar", "The new doctor", "My uncle", "Yuki", "The landlord", "Nadia")
_DEED = ("moved to", "got lost in", "found a job in", "bought a flat in", "sang in", "dreams of", "wrote about", "left")
_WHERE = ("Lisbon", "Oslo", "the harbour", "Turin", "Ghent", "Leeds", "the library", "Brno", "Cork", "Nantes")
_WITH = (
    "the cello",
    "a grey cat",
    "the old boat",
    "the telescope",
    "a red bicycle",
    "the choir",
    "a kayak",
    "two dogs",
)
_WHEN = ("last Monday", "in March", "two years ago", "this morning", "before the storm", "on Sunday", "at the weekend")
_LONG_SENTENCES: Final = (20, 60)


def utterance(chance: random.Random, *, long: bool) -> str:
    """One sentence, or some dozens."""
    count = chance.randint(*_LONG_SENTENCES) if long else chance.randint(1, 3)
    return " ".join(_sentence(chance) for _ in range(count))


def question(chance: random.Random) -> str:
    """A question about what may have been said."""
    return chance.choice(
        (
            f"Who {chance.choice(_DEED)} {chance.choice(_WHERE)}?",
            f"What did we say about {chance.choice(_WITH)}?",
            f"When was {chance.choice(_WHO)} in {chance.choice(_WHERE)}?",
        )
    )


def _sentence(chance: random.Random) -> str:
    who, deed, where = chance.choice(_WHO), chance.choice(_DEED), chance.choice(_WHERE)
    return (
        f"{who} {deed} {where} with {chance.choice(_WITH)} {chance.choice(_WHEN)}, number {chance.randrange(10_000)}."
    )
