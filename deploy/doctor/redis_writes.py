"""Whether Redis takes writes: a key that is written and deleted on each master, its memory, its role, its files."""

from collections.abc import Iterator, Mapping
from secrets import token_hex
from typing import Any, Final

from redis.asyncio import RedisCluster
from redis.exceptions import MovedError, ResponseError

from eunoe.deploy.doctor.findings import Findings
from eunoe.deploy.process.durability import evicted
from eunoe.workers.stores.redis.connection import RedisClient, as_text, of_primaries

NEARLY_FULL: Final = 0.85
"""The share of the memory limit from which it is nearly used up."""
_KEPT_MS: Final = 10_000
"""The time after which a key that could not be deleted is gone."""
_TRIES: Final = 4096
"""Names that are tried until each master of a cluster has one."""
_MIB: Final = 2**20


async def info_by_server(client: RedisClient, host: str) -> dict[str, dict[str, object]]:
    """Facts of each master (INFO), by its address. Raises ``RedisError``."""
    if isinstance(client, RedisCluster):
        return {node: _named(about) for node, about in (await of_primaries(client, client.info)).items()}
    return {host: _named(await client.info())}


def _named(about: Mapping[Any, object]) -> dict[str, object]:
    return {as_text(name): value for name, value in about.items()}


async def check_writes(client: RedisClient, host: str, prefix: str, findings: Findings) -> None:
    """Write and delete a key of ``prefix`` on each master, by a script, too; a refusal is a fault.

    Raises other ``RedisError``.
    """
    refused = 0
    for server, name in _probes(client, host, prefix).items():
        try:
            await client.set(name, b"1", px=_KEPT_MS)
            await client.eval("return redis.call('DEL', KEYS[1])", 1, name)
        except MovedError:  # a node of a cluster, which is asked as one server
            raise
        except ResponseError as fault:
            refused += 1
            findings.fault(f"{server} refuses writes, and stages wait: {fault}")
    if not refused:
        findings.ok("every master takes writes")


def _probes(client: RedisClient, host: str, prefix: str) -> dict[str, str]:
    """Master → the name of a key that lies on it; no generation's name begins with ``_``."""
    begin = f"{prefix}:_doctor/{token_hex(8)}"
    if not isinstance(client, RedisCluster):
        return {host: begin}
    masters = len(client.get_primaries())
    found: dict[str, str] = {}
    for name in (f"{begin}/{number}" for number in range(_TRIES)):
        node = client.get_node_from_key(name)
        if node is not None:
            found.setdefault(node.name, name)
        if len(found) == masters:
            break
    return found


def check_server(host: str, about: Mapping[str, object], findings: Findings) -> None:
    """Add what a master tells of its memory, its role and its files; ``about``: its INFO."""
    _memory(host, about, findings)
    for fault in _faults(about):
        findings.fault(f"{host}: {fault}")
    if about.get("rdb_last_bgsave_status") == "err":
        findings.warn(f"{host}: its last snapshot (BGSAVE) failed: look at its log and its disk")


def _faults(about: Mapping[str, object]) -> Iterator[str]:
    if about.get("role") == "slave":
        yield "it is a replica, which takes no writes: EUNOE_REDIS_URL must lead to the master"
    if about.get("aof_last_write_status") == "err":
        yield "its last write to the append-only file failed: look at its log and its disk"
    if count := _number(about, "evicted_keys"):
        yield evicted(count)


def _memory(host: str, about: Mapping[str, object], findings: Findings) -> None:
    limit = _number(about, "maxmemory")
    if not limit:
        return
    used = _number(about, "used_memory") - _number(about, "mem_not_counted_for_evict")
    told = f"{host} uses {used // _MIB} of {limit // _MIB} MiB (maxmemory)"
    policy = about.get("maxmemory_policy", "noeviction")
    if used < NEARLY_FULL * limit:
        findings.ok(told)
    elif policy != "noeviction":
        findings.warn(f"{told}: a full Redis throws state away ({policy}); set noeviction, and give it more memory")
    elif used >= limit:
        findings.fault(f"{told}: it is full and refuses writes; give it more memory, or set EUNOE_COLD__STORE")
    else:
        findings.warn(f"{told}: a full Redis refuses writes and stages wait; give it more memory")


def _number(about: Mapping[str, object], name: str) -> int:
    value = about.get(name)
    return value if isinstance(value, int) else 0
