"""Items that were found for an ask and are not in the prompt, a few of each reason."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from eunoe.schemas.replies import LeftOut, LeftOutReason, Source

MOST = 4
"""Things of each reason that are named."""


def left_out(reason: LeftOutReason, source: Source, score: float) -> LeftOut:
    """A source that is not shown."""
    return LeftOut(
        reason=reason,
        session=source.session,
        utterance_ids=source.utterance_ids,
        memory_ids=source.memory_ids,
        score=round(score, 6),
    )


class Unnamed(NamedTuple):
    """Something that is not shown, with the little that decides whether it is named: hundreds are found for an ask."""

    reason: LeftOutReason
    score: float
    """Rounded as in `LeftOut`."""
    session: int
    utterance_ids: tuple[str, ...]
    source: Callable[[], Source]

    def named(self) -> LeftOut:
        """It, in the words of a reply."""
        return left_out(self.reason, self.source(), self.score)


def few(found: Iterable[LeftOut | Unnamed], shown: Collection[str]) -> tuple[LeftOut, ...]:
    """The best of each reason, best first; each utterance once, and none of those that are ``shown``."""
    kept: dict[LeftOutReason, list[LeftOut | Unnamed]] = defaultdict(list)
    known = set(shown)
    for one in sorted(found, key=lambda one: (-one.score, one.session, one.utterance_ids)):
        if len(kept[one.reason]) < MOST and not known.issuperset(one.utterance_ids):
            kept[one.reason].append(one)
            known.update(one.utterance_ids)
    best = (one for reason in LeftOutReason for one in kept[reason])
    return tuple(one.named() if isinstance(one, Unnamed) else one for one in best)
