"""Ports of the gateway: the log, the live state, and notes about requests."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from eunoe.deploy.gateway.erasures import ErasurePlan
from eunoe.schemas.erasure import ErasureRequest
from eunoe.schemas.events import ConversationEvent
from eunoe.schemas.keys import KeyStore
from eunoe.schemas.ports import ActivityList, StateStore, VectorIndex
from eunoe.schemas.position_ports import HandledPositions
from eunoe.streams.feed import Subscription, Takes
from eunoe.streams.record import Publisher, Record, RecordPlace
from eunoe.streams.topics import Topic
from eunoe.workers.stores.records.generations import Listed


@dataclass(frozen=True, slots=True)
class LiveState:
    """The state of the generation that answers now."""

    generation: str
    epoch: int
    """The epoch of the log's positions."""
    store: StateStore
    activity: ActivityList
    index: VectorIndex | None = None
    """`None` where no Qdrant is set."""
    data_keys: KeyStore | None = None
    """The keys that records of derived topics are sealed with; `None`: they are plain."""
    handled: HandledPositions | None = None
    """Positions up to which the stages have handled the log; `None` where they are not known."""


class GatewayLog(Protocol):
    """The topics. Every method raises `Unavailable` when the broker does not answer."""

    @property
    def publisher(self) -> Publisher:
        """For the records of retried dead letters."""
        ...

    @property
    def healthy(self) -> bool:
        """Whether the broker answered the last request, or another one may find out whether it does."""
        ...

    async def append(self, events: Sequence[ConversationEvent]) -> list[RecordPlace]:
        """Append events to ``conversations``; returns their places when all in-sync replicas have them."""
        ...

    async def partitions(self, topic: Topic) -> int:
        """The number of partitions of a topic."""
        ...

    def subscribe(
        self, topic: Topic, begin: Mapping[int, int | None], takes: Takes
    ) -> AbstractAsyncContextManager[Subscription]:
        """The records of partitions of a topic from an offset on; `None` means from now on."""
        ...

    async def offset_at(self, topic: Topic, partition: int, time: datetime) -> int:
        """The first offset at or after a time; the end where nothing is later."""
        ...

    async def read_one(self, topic: str, partition: int, offset: int) -> Record | None:
        """The record at a place; `None` where the topic does not hold it."""
        ...

    def read_range(self, topic: Topic, partition: int, begin: int) -> AsyncGenerator[Record]:
        """The records that a partition holds now, from an offset on. Close it: it holds a consumer."""
        ...

    def read_all(self, topic: Topic, begin: Mapping[int, int]) -> AsyncGenerator[Record]:
        """All records that a topic holds now, from these offsets on. Close it: it holds a consumer."""
        ...


class LiveStates(Protocol):
    """Finds the live generation."""

    async def live(self) -> LiveState:
        """The state of the generation that answers now. Raises `Unavailable`."""
        ...

    async def generations(self) -> list[Listed]:
        """All generations, by name. Raises `Unavailable`."""
        ...

    async def store_of(self, generation: str) -> StateStore:
        """The state of a generation, to be read. Raises `Unavailable`."""
        ...


class ErasurePlans(Protocol):
    """Plans erasures."""

    async def plan(self, tenant: str, conversation_id: str, request: ErasureRequest) -> ErasurePlan:
        """The extent of a request. Raises `Problem` (409) where it cannot be carried out, `Refused`, `Unavailable`."""
        ...


class Notes(Protocol):
    """Notes about requests, kept for a while. Every method raises `Unavailable` when the store does not answer."""

    async def claim(self, name: str, text: str, seconds: int) -> str | None:
        """Note a text unless there is a note; returns the one that was there."""
        ...

    async def write(self, name: str, text: str, seconds: int) -> None:
        """Note a text in place of any other."""
        ...

    async def read(self, name: str) -> str | None:
        """The note; `None` where there is none."""
        ...
