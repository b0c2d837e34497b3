"""`eunoe up`."""

import asyncio
import logging
import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from eunoe.deploy.cli.forking import forks_of_this
from eunoe.deploy.cli.model_check import keep_model_fault, model_checked
from eunoe.deploy.cli.output import Json, console, errors, print_json
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.clients.connect import DATA, servers_named, unused_operator_key
from eunoe.deploy.exits import Exit
from eunoe.deploy.gateway.keys import GATEWAY_KEY, KeyFile, KeyPlan, KeyScope, kept_key
from eunoe.deploy.local.notice import NOTICE
from eunoe.deploy.local.stack import Ports
from eunoe.deploy.process.forked import ForkServer
from eunoe.deploy.process.standalone import Standalone, StandaloneOptions, open_standalone
from eunoe.deploy.process.stop_signals import StopSignals
from eunoe.deploy.process.supervisor import GatewayProcess
from eunoe.deploy.settings import Settings, read_settings
from eunoe.schemas.events import DEFAULT_TENANT
from eunoe.schemas.redact import without_login
from eunoe.streams.cancelling import first_ended


def up(
    data: Annotated[Path, typer.Option(help="Directory that keeps the memory between starts.")] = DATA,
    throw_away: Annotated[
        bool, typer.Option("--throw-away", help="Keep nothing: use a temporary directory, deleted at the end.")
    ] = False,
    workers: Annotated[bool, typer.Option(help="Run the stages too, not only the servers.")] = True,
    kafka_port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of the broker; 0: any free port.")] = 0,
    redis_port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of Redis; 0: any free port.")] = 0,
    qdrant_port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of Qdrant; 0: any free port.")] = 0,
    http_port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of the HTTP gateway; 0: any free port.")] = 0,
    gateway: Annotated[bool, typer.Option(help="Run the HTTP gateway, too, where the stages run.")] = True,
    as_json: Json = False,
) -> None:
    """Run a broker, Redis, Qdrant, all stages and the HTTP gateway on this machine until Ctrl-C.

    One worker process replies, another builds the memory. The gateway's address is printed with a key for it. Other
    commands started in the same directory find the servers by themselves, as long as the data directory is the default
    one. The memory is kept in the data directory: the next start continues with it.

    Ctrl-C drains the stages first. A second one ends without that: nothing is lost, but the next start derives memory
    again.

    Exit codes:

    - 0: stopped
    - 2: wrong settings, or the directory or a port is in use
    - 69: a part did not come up
    - 130: stopped at once by a second signal
    """
    plan = StandaloneOptions(
        data=None if throw_away else data,
        workers=workers,
        http_port=http_port if gateway else None,
        ports=Ports(kafka_port, redis_port, qdrant_port),
    )
    with forks_of_this() as forks, ProgressBars(quiet=as_json) as bars:
        asyncio.run(_up(plan, bars, forks, as_json))


async def _up(plan: StandaloneOptions, bars: ProgressBars, forks: ForkServer | None, as_json: bool) -> None:
    logging.getLogger("eunoe").setLevel(logging.INFO)
    stops = StopSignals(partial(errors.print, markup=False, highlight=False, soft_wrap=True))
    with stops.listening():
        await _serve(plan, bars, forks, stops, as_json)
    if stops.hurried:
        raise typer.Exit(Exit.INTERRUPTED)


async def _serve(
    plan: StandaloneOptions, bars: ProgressBars, forks: ForkServer | None, stops: StopSignals, as_json: bool
) -> None:
    settings = read_settings()
    for note in (_unused_servers(settings), unused_operator_key(settings)):
        if note is not None:
            errors.print(note, markup=False, highlight=False, soft_wrap=True)
    async with (
        model_checked(settings) as checking,
        open_standalone(settings, plan, bars, forks, stops.kills) as home,
    ):
        keep_model_fault(home.stack.directory, checking)
        stops.is_up = True
        _print_ready(home, plan, as_json)
        await first_ended(home.failed(), stops.asked.wait())
        errors.print("stopping …")


def _unused_servers(settings: Settings) -> str | None:
    """The note that `eunoe up` does not use the servers that these settings name; `None` where they name none."""
    if not (named := ", ".join(servers_named(settings))):
        return None
    others = "use those" if settings.kafka else "refuse to choose between them"
    return f"{named} set: `eunoe up` runs servers of its own; other commands with these settings {others}"


def way_to_find(directory: Path) -> str | None:
    """The line that says how other commands find servers over a data directory; `None` where they do by themselves."""
    if directory.resolve() == DATA.resolve():
        return None
    link = shlex.join(["ln", "-s", str(directory.resolve()), str(DATA)])
    return f"other commands find them in a directory where you make a link, and that has no {DATA} yet: {link}"


def _print_ready(home: Standalone, plan: StandaloneOptions, as_json: bool) -> None:
    urls = home.stack.urls
    notice = home.stack.directory / NOTICE
    redis_url = without_login(urls.redis_url)
    http = None if home.gateway is None else _http_access(home.gateway, home.stack.directory)
    if as_json:
        shown = urls.model_dump(mode="json", exclude={"qdrant_api_key"}) | {"redis_url": redis_url}
        shown |= {} if http is None else {"gateway": http.url, "gateway_key": http.key}
        print_json({**shown, "logins": str(notice), "data": None if plan.data is None else str(plan.data)})
        return
    stages = "all stages run" if plan.workers else "no stage runs: start `eunoe worker all`"
    kept = "nothing is kept" if plan.data is None else f"the memory is kept in {plan.data}"
    console.print(
        f"ready: {stages}; {kept}; Ctrl-C stops\n  EUNOE_KAFKA={urls.kafka}\n"
        f"  EUNOE_REDIS_URL={redis_url}\n  EUNOE_QDRANT_URL={urls.qdrant_url}\n"
        f"  their password and API key are in {notice}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    if hint := way_to_find(home.stack.directory):
        console.print(f"  {hint}", markup=False, highlight=False, soft_wrap=True)
    if http is not None:
        console.print(
            f"  memory over HTTP and as a page, with its key: {http.url}/#key={http.key}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


class _HttpAccess(NamedTuple):
    url: str
    key: str


def _http_access(gateway: GatewayProcess, directory: Path) -> _HttpAccess:
    """The gateway's address, and a key for all of the default tenant, which later starts use again."""
    plan = KeyPlan(DEFAULT_TENANT, frozenset(KeyScope), name="eunoe up")
    return _HttpAccess(gateway.url, kept_key(KeyFile(gateway.keys), directory / GATEWAY_KEY, plan))
