"""The process of the gateway: its servers, its start and its end."""

import asyncio
import contextlib
import logging
import resource
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TypeVar

import uvicorn

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.connect import wakeups_url
from eunoe.deploy.clients.data_keys import open_data_keys
from eunoe.deploy.clients.erasures import open_erasures
from eunoe.deploy.clients.key_checks import check_key_store_has_destroyed
from eunoe.deploy.clients.shared import open_redis
from eunoe.deploy.event_loop import keep_for_good
from eunoe.deploy.gateway.app import GatewayApp
from eunoe.deploy.gateway.calls import Gateway
from eunoe.deploy.gateway.credentials import Credentials, TokenChecker
from eunoe.deploy.gateway.erasure_wait import ErasureWait
from eunoe.deploy.gateway.health import GatewayHealth
from eunoe.deploy.gateway.http_protocol import bounded_connections
from eunoe.deploy.gateway.kafka import MovingLog
from eunoe.deploy.gateway.keys import KeyFile
from eunoe.deploy.gateway.letters import LetterIndex
from eunoe.deploy.gateway.limits import RedisLimiter
from eunoe.deploy.gateway.open_requests import OpenRequests
from eunoe.deploy.gateway.redis import RedisLiveStates, RedisNotes
from eunoe.deploy.gateway.redis_absence import RedisAbsence
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.local.tansu.identity import refuse_ordinary_broker
from eunoe.deploy.local.wakeups import receive_wakeups
from eunoe.deploy.observability.rounds import Faults, repeat
from eunoe.deploy.observability.server import parse_address
from eunoe.deploy.observability.traces import traced
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Misconfigured, Refused, Unavailable
from eunoe.streams.cancelling import cancelled
from eunoe.workers.runner.backoff import Outages, UnboundedLease
from eunoe.workers.stores.records.processes import RedisProcesses

log = logging.getLogger(__name__)

T = TypeVar("T")

BACKLOG = 2048


class GatewayServer(uvicorn.Server):
    """A server that leaves the signals to its process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


async def run_gateway(settings: Settings, ready: Callable[[str], None] = lambda _: None) -> None:
    """Serve until SIGTERM or SIGINT; ``ready`` is called with the address when requests are taken.

    Waits for servers that are away. Raises `Refused` for unusable settings and an address in use, `Unavailable` where a
    server stays away.
    """
    _allow_many_files()
    health, stop = GatewayHealth(), asyncio.Event()
    with _stopped_by_signals(stop, while_starting=lambda: health.app is None):
        async with (
            traced(settings, "gateway"),
            health.served(settings.health),
            open_gateway(settings, health.outages) as app,
        ):
            health.app = app
            keep_for_good()
            async with serving(app, settings.gateway.address) as url:
                ready(url)
                await stop.wait()
                log.info("stopping with %s", counted(app.gateway.streams.open, "open stream"))


@contextlib.contextmanager
def _stopped_by_signals(stop: asyncio.Event, while_starting: Callable[[], bool]) -> Iterator[None]:
    """Set ``stop`` at SIGTERM and SIGINT; a block that is still starting is cancelled, and ends without an error."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def end() -> None:
        stop.set()
        if task is not None and while_starting():
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    try:
        yield
    except asyncio.CancelledError:
        if task is None or not stop.is_set():
            raise
        task.uncancel()
        log.info("stopped before it had started")


@asynccontextmanager
async def open_gateway(settings: Settings, outages: Outages | None = None) -> AsyncIterator[GatewayApp]:
    """The application over real servers, closed at the end; ``outages`` has those that it waits for at its start."""
    patiently = partial(_patiently, settings, outages or Outages())
    tokens = TokenChecker.of(settings.gateway)
    if settings.broker.embedded:
        await patiently(lambda: refuse_ordinary_broker(settings.kafka_settings))
    async with AsyncExitStack() as closing:
        await patiently(lambda: check_key_store_has_destroyed(settings))
        data_keys = await closing.enter_async_context(open_data_keys(settings))
        redis = await closing.enter_async_context(open_redis(settings, settings.gateway.redis_seconds))
        qdrant = None if settings.qdrant_url is None else await closing.enter_async_context(open_qdrant(settings))
        erasures = None
        if settings.erasures is not None:
            erasures = await closing.enter_async_context(open_erasures(settings))
        moving = MovingLog(settings)
        closing.push_async_callback(moving.stop)
        if (url := wakeups_url(settings)) is not None:
            receiving = repeat(partial(receive_wakeups, url, moving.notify), 1.0, Faults("the wait for wakeups"))
            closing.push_async_callback(cancelled, asyncio.create_task(receiving))
        absence = RedisAbsence()
        states = RedisLiveStates(settings, redis, moving.move, qdrant, absence, data_keys)
        gateway = Gateway(
            settings=settings.gateway,
            prefix=settings.prefix,
            log=lambda: moving.log,
            states=states,
            notes=RedisNotes(redis, absence),
            limiter=RedisLimiter(redis, settings.prefix, absence),
            credentials=Credentials(KeyFile(settings.gateway.keys), tokens),
            letters=LetterIndex(lambda: moving.log, data_keys),
            streams=OpenRequests(settings.gateway, "open streams"),
            waits=OpenRequests(settings.gateway, "waiting requests"),
            processes=RedisProcesses(redis, settings.prefix),
            epoch=settings.epoch,
            erasures=erasures,
        )
        await patiently(states.live)
        app = GatewayApp.with_mcp(gateway)
        if app.mcp is not None:
            closing.push_async_callback(app.mcp.stop)
        if erasures is not None:
            wait = ErasureWait(erasures)
            app.meter.watch_erasures(wait.seconds)
            closing.push_async_callback(cancelled, asyncio.create_task(wait.watch()))
        closing.push_async_callback(_ended, gateway)
        yield app


async def _ended(gateway: Gateway) -> None:
    """Let the work end that no answer waits for."""
    await asyncio.gather(*gateway.later, return_exceptions=True)


async def _patiently(settings: Settings, outages: Outages, work: Callable[[], Awaitable[T]]) -> T:
    runner = settings.runner

    async def attempt() -> T:
        try:
            return await work()
        except Misconfigured as fault:  # at the start nobody waits for other settings
            raise Refused(str(fault)) from fault

    return await outages.retry(attempt, UnboundedLease(), runner.backoff, runner.retry_limit_s)


@asynccontextmanager
async def serving(app: GatewayApp, address: str) -> AsyncIterator[str]:
    """Serve during the block; gives the URL. At the end streams get a last event, and open requests have some time.

    Raises `Refused` where the address is invalid or in use.
    """
    host, port = parse_address(address, "EUNOE_GATEWAY__ADDRESS")
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=bounded_connections(app.gateway.settings.body_seconds, app.gateway.settings.send_seconds),
        lifespan="off",
        access_log=False,
        log_config=None,
        backlog=BACKLOG,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=round(app.gateway.settings.shutdown_seconds),
    )
    server = GatewayServer(config)
    try:
        sock = config.bind_socket()
    except SystemExit:
        raise Refused(f"EUNOE_GATEWAY__ADDRESS: cannot listen on {host}:{port}: it is in use or not ours") from None
    task = asyncio.ensure_future(server.serve(sockets=[sock]))
    try:
        while not server.started:
            if task.done():
                task.result()
                raise Unavailable("the HTTP server did not start")
            await asyncio.sleep(0.01)
        bound = sock.getsockname()
        yield f"http://{f'[{bound[0]}]' if ':' in bound[0] else bound[0]}:{bound[1]}"
    finally:
        app.gateway.closing.set()
        server.should_exit = True
        await task


def _allow_many_files() -> None:
    """Raise the limit of open files, and so of connections, as far as the system lets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and soft < hard and sys.platform != "darwin":
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
