"""`eunoe retention`."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated
from uuid import uuid4

import typer

from eunoe.deploy.cli.erasing import keeping_receipts, opened_eraser, print_outcome, print_plans
from eunoe.deploy.cli.output import Json, console, print_json
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.erasures import open_erasures
from eunoe.deploy.generations.erase.batch import WorkedOff
from eunoe.deploy.generations.erase.retention import outdated, plan_retention, run_retention, trusted_now
from eunoe.deploy.inspect.counted import counted
from eunoe.schemas.erasure import Erasure, RetentionPolicy, current_policies
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import DEFAULT_TENANT

app = typer.Typer(
    no_args_is_help=True, help="Say how long a tenant keeps its sessions, and erase those that are older."
)

Tenant = Annotated[str, typer.Option(help="The tenant.")]
OneTenant = Annotated[str | None, typer.Option(help="Only this tenant.")]
MAX_DAYS = 36_500


@app.command("set")
def set_(
    days: Annotated[int, typer.Argument(min=1, max=MAX_DAYS, help="Days that a session is kept.")],
    tenant: Tenant = DEFAULT_TENANT,
) -> None:
    """Keep a tenant's sessions for so many days: by the time at which the log took the last utterance of each.

    The policy is an entry in the ledger of erasures. `eunoe up` and `eunoe erase serve` keep to it; `eunoe retention
    run --dry-run` shows what will go.
    """
    asyncio.run(_set(tenant, days))


@app.command()
def remove(tenant: Tenant = DEFAULT_TENANT) -> None:
    """Keep a tenant's sessions for ever, from now on; what was erased stays erased.

    Exit codes:

    - 0: removed
    - 2: the tenant has no policy
    """
    asyncio.run(_set(tenant, None))


@app.command()
def show(tenant: OneTenant = None, as_json: Json = False) -> None:
    """Show the policies, and all changes of them."""
    history = asyncio.run(_history(tenant))
    current = current_policies(history)
    if as_json:
        changes = [{"tenant": one.key, "days": one.days, "at": one.at.isoformat()} for one in history]
        print_json({"policies": {name: one.days for name, one in current.items()}, "changes": changes})
        return
    lines = [f"{name}: {_days(one)}" for name, one in sorted(current.items())]
    lines += [f"  {one.at:%Y-%m-%d %H:%M} {one.key}: {_days(one)}" for one in history]
    for line in lines or ["no tenant has a policy: everything is kept"]:
        console.print(line, highlight=False, markup=False)


@app.command()
def run(
    tenant: OneTenant = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go, by place; erase nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Erase now what is older than its tenant keeps, and print the receipts as JSON: one for each conversation.

    Exit codes:

    - 0: done, or shown
    - 2: the tenant has no policy, or a generation is being made
    - 69: a server did not answer, or a conversation was written to all the time; what had begun is finished by
      `eunoe erase replay`
    """
    if dry_run:
        print_plans(asyncio.run(_planned(tenant)), as_json=as_json)
    else:
        print_outcome(asyncio.run(_run(tenant, quiet=as_json)), as_json=as_json)


async def _history(tenant: str | None) -> list[RetentionPolicy]:
    async with open_erasures(connected_settings()) as ledger:
        return await ledger.retentions(tenant)


async def _set(tenant: str, days: int | None) -> None:
    if days is None:
        await _check_policy(tenant)
    policy = RetentionPolicy(request_id=str(uuid4()), key=tenant, at=datetime.now(UTC), days=days)
    async with open_erasures(connected_settings()) as ledger:
        await ledger.set_retention(policy)
    console.print(f"{tenant}: {_days(policy)}", highlight=False, markup=False)


async def _check_policy(tenant: str | None) -> None:
    """Raise `Refused` where a named tenant has no policy."""
    if tenant is not None and not current_policies(await _history(tenant)):
        raise Refused(f"tenant {tenant!r} has no policy of retention: set one with `eunoe retention set DAYS`")


async def _planned(tenant: str | None) -> list[Erasure]:
    await _check_policy(tenant)
    async with opened_eraser(quiet=True) as eraser:
        return await plan_retention(eraser, await outdated(eraser, await trusted_now(eraser.settings), tenant))


async def _run(tenant: str | None, *, quiet: bool) -> WorkedOff:
    await _check_policy(tenant)
    outcome = WorkedOff()
    async with opened_eraser(quiet=quiet, erases=True) as eraser:
        with keeping_receipts(outcome):
            await run_retention(eraser, await trusted_now(eraser.settings), tenant, outcome)
    return outcome


def _days(policy: RetentionPolicy) -> str:
    return "kept for ever" if policy.days is None else f"sessions are kept for {counted(policy.days, 'day')}"
