"""Records of the stages' topics that an operator passes over: see `eunoe skip`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from eunoe.schemas.errors import EunoeError
from eunoe.streams.record import Lease, Record, RecordPlace


def skip_name(place: RecordPlace, epoch: int) -> str:
    """The name under which a skip is stored; offsets begin again in each epoch of the broker."""
    return f"{epoch}/{place}"


class SkipList(Protocol):
    """The stored skips of a generation."""

    async def read(self) -> Mapping[str, str]:
        """Name → reason; raises `Unavailable`."""
        ...


@dataclass(slots=True)
class Skips:
    """The records to pass over, as a process knows them; read again every few seconds."""

    epoch: int = 0
    _reasons: Mapping[str, str] = field(default_factory=dict)

    async def refresh(self, stored: SkipList) -> None:
        """Read the stored skips; raises `Unavailable`."""
        self._reasons = await stored.read()

    def reason(self, record: Record) -> str | None:
        """The reason to pass over a record; `None` for all others."""
        if not self._reasons:
            return None
        return self._reasons.get(skip_name(record.place, self.epoch))


class PassedOver(EunoeError):
    """An operator passed over the record while its stage waited."""


class WatchfulLease:
    """A record's lease; a pause ends with `PassedOver` where the record is to be passed over since."""

    def __init__(self, lease: Lease, skips: Skips, record: Record) -> None:
        self._lease = lease
        self._skips = skips
        self._record = record
        self._known = skips.reason(record)

    @property
    def revoked(self) -> bool:
        """Whether a rebalance or a shutdown has begun."""
        return self._lease.revoked

    async def pause(self, seconds: float) -> None:
        """Sleep; raises `Revoked` as soon as the lease is revoked, then `PassedOver`."""
        await self._lease.pause(seconds)
        if self._known is None and self._skips.reason(self._record) is not None:
            raise PassedOver("the record is passed over")
