"""The question to the model at the start of commands: a wrong key, model or address is named within seconds."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from eunoe.deploy.cli.findings import print_findings
from eunoe.deploy.cli.output import errors
from eunoe.deploy.clients.connect import DATA
from eunoe.deploy.clients.models import uses_endpoint
from eunoe.deploy.doctor.brief import brief_checks
from eunoe.deploy.doctor.findings import CheckResult, Findings, Level, run_checks
from eunoe.deploy.doctor.model import check_model_briefly
from eunoe.deploy.local.notice import read_model_fault, write_model_fault
from eunoe.deploy.settings import Settings
from eunoe.streams.cancelling import cancelled

Checking = asyncio.Task[list[CheckResult]]
"""A check of the model that runs; its result is what was found."""


@asynccontextmanager
async def model_checked(settings: Settings) -> AsyncIterator[Checking]:
    """Ask the model one question meanwhile, and print on standard error what is wrong with it or that it answers."""
    async with _meanwhile(settings, frozenset(Level)) as checking:
        yield checking


@asynccontextmanager
async def model_fault_named(settings: Settings, data: Path = DATA) -> AsyncIterator[None]:
    """Meanwhile print what is wrong with the model, for a command that waits for it; nothing where it answers.

    It is asked where this environment names one. What an `eunoe up` over ``data`` found at its start is told too.
    """
    if fault := read_model_fault(data):
        errors.print(f"the model of `eunoe up`: {fault}", style="red", markup=False, highlight=False, soft_wrap=True)
    async with _meanwhile(settings, _BAD):
        yield


_BAD = frozenset({Level.FAULT, Level.AWAY})


@asynccontextmanager
async def _meanwhile(settings: Settings, levels: frozenset[Level]) -> AsyncIterator[Checking]:
    checking = asyncio.create_task(_check_model(settings, levels))
    try:
        yield checking
    finally:
        await cancelled(checking)


async def _check_model(settings: Settings, levels: frozenset[Level]) -> list[CheckResult]:
    found = await run_checks(brief_checks(settings, os.environ), lambda *_: None)
    print_findings([one for one in found if one.level in levels], errors)
    return found


def keep_model_fault(directory: Path, checking: Checking) -> None:
    """When the check is done, leave its faults in the data directory, where `eunoe ask` finds them."""
    write_model_fault(directory, "")

    def keep(done: Checking) -> None:
        if not done.cancelled() and done.exception() is None:
            write_model_fault(directory, "; ".join(one.text for one in done.result() if one.level is Level.FAULT))

    checking.add_done_callback(keep)


async def refuse_wrong_model(settings: Settings) -> None:
    """Raise `Refused` where the model's key, name or address is wrong, `Unavailable` where it does not answer."""
    if uses_endpoint(settings, os.environ):
        await check_model_briefly(settings, os.environ, Findings("model"))
