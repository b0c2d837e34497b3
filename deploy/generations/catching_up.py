"""Derives a conversation that is still written to: each attempt goes on where the one before ended."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from eunoe.deploy.progress import ReportProgress
from eunoe.schemas.erasure import ErasedPart
from eunoe.streams.record import Record
from eunoe.streams.sealed.log import position_in_log
from eunoe.workers.derive.pipeline import Derivation, Derived, Deriver


@dataclass(slots=True)
class CatchingUp:
    """The derivations of one conversation.

    A long one takes minutes: whoever derived all of it again for each new utterance would never be done while somebody
    talks. ``epoch`` is that of the log; ``report`` is called for each record, and its phase is the key.
    """

    deriver: Deriver
    key: str
    epoch: int
    report: ReportProgress
    _derivation: Derivation | None = None
    _part: ErasedPart | None = None
    _positions: list[int] = field(default_factory=list)
    """Those of the records that are derived."""

    async def derive(self, records: Sequence[Record], part: ErasedPart | None) -> Derived:
        """The memory of these records, all from the beginning and in log order, without what is erased.

        It must not be used any more once this is called again. Raises as `Deriver.derive` does.
        """
        positions = [position_in_log(record, self.epoch) for record in records]
        if self._derivation is None or not self._goes_on(positions, part):
            self._derivation = Derivation(self.deriver, self.key, self.epoch, part)
            self._part, self._positions = part, []
        at = len(self._positions)

        def one_more() -> None:
            nonlocal at
            at += 1
            self.report(self.key, at, len(records))

        derivation, self._derivation = self._derivation, None  # one that is interrupted does not go on
        await derivation.go_on(records[at:], one_more, self._behind)
        self._derivation, self._positions = derivation, positions
        return await derivation.derived()

    @property
    def _behind(self) -> int:
        return self._positions[-1] if self._positions else 0

    def _goes_on(self, positions: Sequence[int], part: ErasedPart | None) -> bool:
        """Whether what is derived stays as it is, and all other records come behind it."""
        if part != self._part or any(place.position > self._behind for place in (part.placeholders if part else ())):
            return False
        return positions[: len(self._positions)] == self._positions
