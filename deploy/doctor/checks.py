"""The table of checks."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from eunoe.deploy.clients.models import Environment
from eunoe.deploy.doctor.broker import check_broker
from eunoe.deploy.doctor.cold import check_cold
from eunoe.deploy.doctor.data_keys import check_keys
from eunoe.deploy.doctor.embedder import check_compressor, check_embedder
from eunoe.deploy.doctor.erasures import check_erasures
from eunoe.deploy.doctor.findings import Check, Findings
from eunoe.deploy.doctor.model import check_model
from eunoe.deploy.doctor.redis import check_redis
from eunoe.deploy.settings import Settings, reveal

SERVER_LIMIT_S = 15.0
PARTS = ("broker", "redis", "qdrant", "keys", "erasures", "cold", "model", "embedder", "compressor")


def all_checks(settings: Settings, environment: Environment, *, thorough: bool, model_limit_s: float) -> list[Check]:
    """The checks of all parts; the broker, Redis and Qdrant where they are set."""
    return [
        _server("broker", settings.kafka, partial(check_broker, settings)),
        _server("redis", reveal(settings.redis_url), partial(check_redis, settings)),
        _server("qdrant", settings.qdrant_url, partial(_check_qdrant, settings)),
        Check("keys", partial(check_keys, settings), SERVER_LIMIT_S),
        Check("erasures", partial(check_erasures, settings), SERVER_LIMIT_S),
        Check("cold", partial(check_cold, settings), SERVER_LIMIT_S),
        Check("model", partial(check_model, settings, environment, thorough=thorough), model_limit_s),
        Check("embedder", partial(check_embedder, settings, environment), SERVER_LIMIT_S * 2),
        Check("compressor", partial(check_compressor, settings), SERVER_LIMIT_S),
    ]


def _server(part: str, address: str | None, run: Callable[[Findings], Awaitable[None]]) -> Check:
    return Check(part, run if address else _tell_unset, SERVER_LIMIT_S)


async def _check_qdrant(settings: Settings, findings: Findings) -> None:
    # in a thread: on the loop of a slow machine it would take longer than the others may need to connect
    check = await asyncio.to_thread(_load_qdrant_check)
    await check(settings, findings)


def _load_qdrant_check() -> Callable[[Settings, Findings], Awaitable[None]]:
    # here, because it imports Qdrant's own client: a third of the command's start
    from eunoe.deploy.doctor.qdrant import check_qdrant  # noqa: PLC0415

    return check_qdrant


async def _tell_unset(findings: Findings) -> None:
    findings.note("no server is set, and none of `eunoe up` runs in this directory")
