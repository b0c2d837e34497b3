"""`eunoe doctor`."""

import asyncio
import logging
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from eunoe.deploy.cli.findings import print_findings, to_set
from eunoe.deploy.cli.output import Json, print_json
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.doctor.checks import PARTS, all_checks
from eunoe.deploy.doctor.findings import CheckResult, exit_of, run_checks
from eunoe.deploy.exits import Exit
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Unavailable

_LIVE_LIMIT_S = 5.0


def doctor(
    only: Annotated[
        list[str] | None, typer.Option("--only", help=f"Only this part; repeatable: {', '.join(PARTS)}. Default: all.")
    ] = None,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Ask the model a prompt of 34,000 tokens in place of 9,000.")
    ] = False,
    limit: Annotated[float, typer.Option(min=1, help="Seconds that the check of the model may take.")] = 180.0,
    as_json: Json = False,
) -> None:
    """Check the servers and the model's endpoint: what each can do, what is wrong, what to set.

    Asks the model about twenty small questions and one of 9,000 tokens. A model is asked where OPENAI_BASE_URL is set.
    The check of a server ends after fifteen seconds.

    Exit codes:

    - 0: nothing is wrong
    - 1: something is; the lines marked fault say what
    - 2: wrong arguments or settings
    - 69: a server or the endpoint did not answer
    """
    unknown = [part for part in only or () if part not in PARTS]
    if unknown:
        raise typer.BadParameter(f"no such part: {', '.join(unknown)}; use {', '.join(PARTS)}", param_hint="--only")
    settings = connected_settings()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # the findings say it
    with ProgressBars(quiet=as_json, transient=True) as bars:
        found = asyncio.run(_check(settings, only or PARTS, thorough, limit, bars))
    if as_json:
        print_json({"ok": exit_of(found) is Exit.OK, "findings": [asdict(one) for one in found], "set": to_set(found)})
    else:
        print_findings(found)
    if (code := exit_of(found)) is not Exit.OK:
        raise typer.Exit(code)


async def _check(
    settings: Settings, only: Sequence[str], thorough: bool, limit_s: float, bars: ProgressBars
) -> list[CheckResult]:
    settings = await _live(settings)
    checks = all_checks(settings, os.environ, thorough=thorough, model_limit_s=limit_s)
    return await run_checks([check for check in checks if check.part in only], bars)


async def _live(settings: Settings) -> Settings:
    """The settings of the live generation; those of the environment where Redis does not answer."""
    if settings.redis_url is None:
        return settings
    try:
        async with asyncio.timeout(_LIVE_LIMIT_S):
            return await live_settings(settings)
    except (Unavailable, TimeoutError):
        return settings
