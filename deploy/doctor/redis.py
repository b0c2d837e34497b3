"""The check of Redis: version, writes, memory, durability."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from eunoe.deploy.clients.shared import open_redis
from eunoe.deploy.doctor.findings import Findings
from eunoe.deploy.doctor.redis_writes import check_server, check_writes, info_by_server
from eunoe.deploy.process.durability import durability_faults, settings_by_server
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection


async def check_redis(settings: Settings, findings: Findings) -> None:
    """Add version and address, whether each master takes writes, its memory, and each weak setting of durability.

    What a user may not ask is noted. Raises `Refused`, `Unavailable`.
    """
    async with open_redis(settings) as client:
        redis = RedisConnection(client)
        with _naming_refusals(redis), redis.translating_faults():
            await _check_servers(client, redis.host, findings)
            findings.step("writes")
            await redis.check_undivided(settings.prefix)
            await check_writes(client, redis.host, settings.prefix, findings)
            findings.step("durability")
            try:
                configs = await settings_by_server(client, redis.host)
            except RedisError:  # managed Redis often forbids CONFIG
                findings.note("CONFIG is forbidden: whether acknowledged writes survive a restart cannot be seen")
                return
    for host, config in sorted(configs.items()):
        check_durability(host, config, findings, embedded=settings.broker.embedded)


async def _check_servers(client: RedisClient, host: str, findings: Findings) -> None:
    try:
        servers = await info_by_server(client, host)
    except NoPermissionError:  # workers do without it
        findings.note(f"Redis at {host}: INFO is forbidden: its memory, role and files cannot be seen (grant +info)")
        return
    findings.ok(f"{_server(next(iter(servers.values()), {}))} at {host}")
    for server, about in sorted(servers.items()):
        check_server(server, about, findings)


@contextmanager
def _naming_refusals(redis: RedisConnection) -> Iterator[None]:
    """Raise `Refused` for a wrong user or password."""
    try:
        yield
    except Unavailable as fault:
        if isinstance(fault.__cause__, AuthenticationError):
            raise Refused(f"Redis at {redis.host} refuses user or password: check EUNOE_REDIS_URL") from None
        raise
    except RedisError as fault:
        raise Refused(f"Redis at {redis.host} refuses INFO: {type(fault).__name__}") from None


def _server(about: Mapping[str, object]) -> str:
    kind = "Valkey" if "valkey_version" in about else "Redis"
    return f"{kind} {about.get('valkey_version') or about.get('redis_version', 'of unknown version')}"


def check_durability(host: str, config: Mapping[str, str], findings: Findings, *, embedded: bool) -> None:
    """Add the settings with which a server may lose what it acknowledged; ``embedded``: it is that of `eunoe up`."""
    faults = durability_faults(config)
    by_second = config.get("appendonly") == "yes" and config.get("appendfsync") == "everysec"
    if by_second and not embedded:
        faults.append("appendfsync is everysec: a power failure loses up to about a second; set always")
    for fault in faults:
        findings.warn(f"{host}: {fault}")
    if not faults:
        limit = ", but for the last second before a power failure" if by_second else ""
        findings.ok(
            f"{host} keeps what it acknowledges{limit}: appendonly {config.get('appendonly')}, appendfsync"
            f" {config.get('appendfsync')}, maxmemory-policy {config.get('maxmemory-policy')}"
        )
