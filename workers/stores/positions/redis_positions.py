"""Handled positions on Redis or Valkey: on each server that holds state, so that one that went back is noticed."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import PipelineCommand
from redis.crc import key_slot

from eunoe.schemas.errors import Unavailable
from eunoe.schemas.position_ports import Handled, Positions, ReadPartition, Stored, Witness
from eunoe.workers.stores.positions.position_script import PositionScript, PositionWrite
from eunoe.workers.stores.redis.command_pipeline import CommandArgs
from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, Script
from eunoe.workers.stores.redis.keys import Keys

_TAKE = Script.load("take")

_PLACES = 256
"""Keys that positions may be stored under. Enough that each server of a cluster holds the slot of one."""


@dataclass(frozen=True, slots=True)
class ReplicaWait:
    """Replicas that must have all writes before a record is acknowledged, by the command WAIT."""

    replicas: int = 0
    """0: none is waited for."""
    timeout_ms: int = 1000
    """After this time the replicas count as absent."""


class RedisHandledPositions:
    """`HandledPositions`. A server is named by the number of the key under which it holds positions.

    In a cluster the names follow the slots: a server that got other slots may have another name, which shows no
    position yet. The stage then reads more than it must.
    """

    def __init__(self, client: RedisClient, keys: Keys, wait: ReplicaWait | None = None) -> None:
        self._client = client
        self.verifies_separately = isinstance(client, RedisCluster)
        self._redis = RedisConnection(client)
        self._keys = keys
        self._script = PositionScript(self._redis, keys)
        self._wait = wait or ReplicaWait()
        # the slot depends on the tag alone, not on the stage
        self._slots = [key_slot(keys.positions("intake", number).encode()) for number in range(_PLACES)]

    async def stored(self, reader: ReadPartition) -> Positions:
        """The position handled last, by server."""
        numbers = await self._servers()
        found = await asyncio.gather(*(self._position(reader, number) for number in numbers))
        return dict(zip(map(str, numbers), found, strict=True))

    async def stored_for(self, reader: ReadPartition, key: str) -> tuple[str, Handled]:
        """The server that holds the state of a conversation, and what it shows."""
        number = await self._server_of(key)
        return str(number), await self._position(reader, number)

    async def take(self, reader: ReadPartition, owner: str, position: int) -> Positions:
        """Let only ``owner`` record positions from now on; a stored one above ``position`` is lowered to it."""
        words = (_field(reader), owner, position)
        numbers = await self._servers()
        keys = [self._keys.positions(reader.stage, number) for number in numbers]
        shown = await asyncio.gather(*(self._redis.run(_TAKE, [key], words) for key in keys))
        return {str(number): Handled(int(at), int(writes)) for number, (at, writes) in zip(numbers, shown, strict=True)}

    async def store(
        self, reader: ReadPartition, owner: str, position: int, expected: Positions, witnesses: Sequence[Witness] = ()
    ) -> Stored:
        """Record a handled position on each server, and wait for its replicas; see `HandledPositions.store`.

        One server compares and writes at once. In a cluster the witnesses come after the writes: what is lost after
        both is lost together with the writes.
        """
        numbers = await self._servers()
        at_once = () if self.verifies_separately else witnesses
        field = _field(reader)
        found = await asyncio.gather(
            *(
                self._store(
                    self._keys.positions(reader.stage, number),
                    str(number),
                    PositionWrite(field, owner, position, expected.get(str(number), Handled()), at_once),
                )
                for number in numbers
            )
        )
        missing = [witness for one in found for witness in one.missing]
        if self.verifies_separately:
            missing = await self._missing(witnesses)
        before = {server: at for one in found for server, at in one.before.items()}
        return Stored(before, all(one.owned for one in found), tuple(missing))

    async def _store(self, key: str, server: str, write: PositionWrite) -> Stored:
        found = await self._script.run(key, write)
        before, least = found.before, write.expected
        is_written = before.position >= least.position and before.writes >= least.writes
        if self._wait.replicas and found.owned and not found.missing and is_written:
            await self._wait_for_replicas(key, write)
        return Stored({server: before}, found.owned, found.missing)

    async def _missing(self, witnesses: Sequence[Witness]) -> list[Witness]:
        """The witnesses of which the store shows less; one request per conversation."""
        groups: defaultdict[str, list[Witness]] = defaultdict(list)
        for witness in witnesses:
            groups[witness.scope.key].append(witness)
        found = await asyncio.gather(
            *(
                self._script.run(self._keys.ledger(group[0].scope), PositionWrite(witnesses=group))
                for group in groups.values()
            )
        )
        return [witness for one in found for witness in one.missing]

    async def _position(self, reader: ReadPartition, number: int) -> Handled:
        key, field = self._keys.positions(reader.stage, number), _field(reader)
        at, writes = await self._redis.command("HMGET", key, field, f"{field}#")
        return Handled(int(at or 0), int(writes or 0))

    async def _wait_for_replicas(self, key: str, write: PositionWrite) -> None:
        """Wait until enough replicas have all writes so far; raises `Unavailable` after the timeout.

        WAIT concerns the writes of its own connection, so the position is written once more there.
        """
        again = self._script.command(key, replace(write, witnesses=()))
        with self._redis.translating_faults():
            found = await self._on_one_connection(key, again, ("WAIT", self._wait.replicas, self._wait.timeout_ms))
        if int(found) < self._wait.replicas:
            server = f"replicas of Redis at {self._redis.host}"
            raise Unavailable(
                f"{found} of {self._wait.replicas} replicas have the writes after {self._wait.timeout_ms} ms"
                f" (EUNOE_REDIS_WAIT_REPLICAS): {server}",
                server,
            )

    async def _on_one_connection(self, key: str, *commands: CommandArgs) -> Any:  # noqa: ANN401 - any reply
        """The reply to the last command."""
        if isinstance(self._client, Redis):
            async with self._client.pipeline(transaction=False) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                return (await pipeline.execute())[-1]
        node = self._client.get_node_from_key(key)
        if node is None:
            raise Unavailable(f"no server of the cluster holds {key}", f"Redis at {self._redis.host}")
        sent = [PipelineCommand(place, *command) for place, command in enumerate(commands)]
        await node.execute_pipeline(sent)
        for each in sent:
            if isinstance(each.result, Exception):
                raise each.result
        return sent[-1].result

    async def _servers(self) -> list[int]:
        """The first number of each server, ascending."""
        if not isinstance(self._client, RedisCluster):
            return [0]
        with self._redis.translating_faults():
            await self._client.initialize()
        found: dict[str, int] = {}
        count = len(self._client.get_primaries())
        for number, slot in enumerate(self._slots):
            name = self._node_of(slot)
            if name is not None:
                found.setdefault(name, number)
            if len(found) == count:
                break
        return sorted(found.values())

    async def _server_of(self, key: str) -> int:
        numbers = await self._servers()
        if not isinstance(self._client, RedisCluster):
            return numbers[0]
        name = self._node_of(key_slot(f"{{{key}}}".encode()))
        held = (number for number in numbers if self._node_of(self._slots[number]) == name)
        found = next(held, None)
        if found is None:
            raise Unavailable(f"no server of the cluster holds {key}", f"Redis at {self._redis.host}")
        return found

    def _node_of(self, slot: int) -> str | None:
        assert isinstance(self._client, RedisCluster)
        nodes = self._client.nodes_manager.slots_cache.get(slot)
        return None if not nodes else str(nodes[0].name)


def _field(reader: ReadPartition) -> str:
    """Intake reads one topic only, and its positions were the only ones at first."""
    return str(reader.partition) if reader.stage == "intake" else f"{reader.topic}/{reader.partition}"
