"""Starts the processes of `eunoe up`."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, nullcontext

from eunoe.deploy.clients.connect import environment
from eunoe.deploy.local.ports import HOST, free_port
from eunoe.deploy.local.stack import LocalStack
from eunoe.deploy.process.forked import ForkServer
from eunoe.deploy.process.supervisor import GatewayProcess, WorkerProcess
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.sections import KEYS_FILE


async def start_workers(
    settings: Settings,
    stack: LocalStack,
    closing: AsyncExitStack,
    forks: ForkServer | None,
    kills: list[Callable[[], None]],
) -> tuple[WorkerProcess, ...]:
    """One worker for replies and one for memory, which consume; ``kills`` gets what kills them.

    Raises `Refused` where one refuses its settings, else `Unavailable`. Where all refuse them, nothing was derived.
    """
    logs = stack.directory / "logs"
    workers = tuple(
        WorkerProcess([group], environment(settings), logs / f"worker-{group}.log", forks)
        for group in ("replies", "memory")
    )
    for worker in workers:
        closing.push_async_callback(worker.stop)
        kills.append(worker.kill)
    ends = await asyncio.gather(*(worker.start() for worker in workers), return_exceptions=True)
    with stack.unchanged() if all(worker.was_refused for worker in workers) else nullcontext():
        for fault in filter(None, ends):
            raise fault
    return workers


async def start_gateway(
    settings: Settings, stack: LocalStack, port: int, closing: AsyncExitStack, forks: ForkServer | None
) -> GatewayProcess:
    """The gateway, which follows the live generation; its keys are in the data directory unless set.

    Raises `Refused` where it refuses its settings, else `Unavailable`.
    """
    keys = settings.gateway.keys if settings.gateway.keys != KEYS_FILE else stack.directory / KEYS_FILE.name
    own = {**environment(settings), "EUNOE_GATEWAY__KEYS": str(keys)}
    gateway = GatewayProcess(f"{HOST}:{port or free_port()}", own, stack.directory / "logs" / "gateway.log", forks)
    closing.push_async_callback(gateway.stop)
    await gateway.start()
    return gateway
