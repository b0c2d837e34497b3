"""`eunoe rebuild`."""

import asyncio
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from eunoe.deploy.cli.output import Json, console, errors, note, print_json
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.live_settings import live_settings, parse_changes
from eunoe.deploy.generations.rebuild import run
from eunoe.deploy.generations.rebuild.counting import GUESSED_TOKENS
from eunoe.deploy.generations.rebuild.estimate import Estimate, estimate
from eunoe.deploy.generations.rebuild.follow import follow
from eunoe.deploy.generations.rebuild.plan import RebuildPlan, check_from_stage, stages_named
from eunoe.deploy.generations.rebuild.processes import forks_for_shares
from eunoe.deploy.generations.rebuild.progress import RebuildProgress, ReportRebuild
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.process.forked import ForkServer
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import DEFAULT_TENANT
from eunoe.schemas.identity import conversation_key


def rebuild(
    into: Annotated[str, typer.Option(help="Name of the generation to build, for instance v2.")],
    stages: Annotated[
        str | None, typer.Option(help="Only these stages, separated by commas; intake is always included.")
    ] = None,
    conversation: Annotated[
        list[str] | None, typer.Option(help="Only this conversation id; repeatable. Default: all.")
    ] = None,
    tenant: Annotated[str, typer.Option(help="Tenant of these conversations.")] = DEFAULT_TENANT,
    until: Annotated[datetime | None, typer.Option(help="Only records logged up to this time (UTC).")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="STAGE.SETTING=VALUE", help="Override a setting: STAGE.SETTING=VALUE; repeatable."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Number of processes.")] = 2,
    from_stage: Annotated[
        str | None,
        typer.Option(help="Derive this stage and its dependents again; copy the rest from the live generation."),
    ] = None,
    ask_again: Annotated[
        bool, typer.Option("--ask-again", help="Ignore recorded model answers and ask the models again.")
    ] = False,
    ask_refused: Annotated[
        bool,
        typer.Option("--ask-refused", help="Ask the models again only what they gave no valid answer to."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the model calls and their estimated cost, and do nothing.")
    ] = False,
    follow_: Annotated[
        bool,
        typer.Option("--follow", help="Then run the generation's workers here until Ctrl-C, to keep it up to date."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Build a new generation of the memory from the log, while the live one keeps answering.

    Recorded model answers are used again at no cost: with the same prompts, models and settings the result is the
    same memory, without a model call. After an interruption, run the same command again to continue. Then compare the
    generations (`eunoe diff`) and make the new one live (`eunoe promote`).
    """
    plan = RebuildPlan(
        into=into,
        stages=stages_named(stages),
        conversations=frozenset(conversation_key(tenant, one) for one in conversation or ()),
        until=None if until is None else until.replace(tzinfo=until.tzinfo or UTC),
        changes=parse_changes(set_ or ()),
        workers=workers,
        from_stage=from_stage,
        ask_again=ask_again,
        ask_refused=ask_refused,
    )
    check_from_stage(plan)
    if follow_ and plan.is_partial:
        raise Refused("--follow needs a complete rebuild: leave out --stages, --conversation and --until")
    if dry_run:
        asyncio.run(_estimate(plan, as_json=as_json))
        return
    with forks_for_shares() as forks:
        asyncio.run(_run(plan, forks, as_json=as_json))
    if follow_:
        asyncio.run(_follow(plan))


async def _estimate(plan: RebuildPlan, *, as_json: bool) -> None:
    settings = await live_settings(connected_settings())
    with ProgressBars(quiet=as_json) as bars:
        found = await estimate(settings, plan, bars)
    if as_json:
        print_json({**asdict(found), "exact": found.is_exact})
    else:
        for line in estimate_lines(found):
            console.print(line, markup=False, highlight=False)


async def _run(plan: RebuildPlan, forks: ForkServer | None, *, as_json: bool) -> None:
    settings = await live_settings(connected_settings())
    with ProgressBars(quiet=as_json) as bars:
        done = await run.rebuild(settings, plan, shown_on(bars), forks)
    _print(done, as_json=as_json)


async def _follow(plan: RebuildPlan) -> None:
    settings = await live_settings(connected_settings())
    await follow(settings, plan, lambda left: errors.print(f"{plan.into}: {counted(left, 'record')} behind"))


def shown_on(bars: ProgressBars) -> ReportRebuild:
    """A callback that shows the progress of a rebuild as bars."""

    def report(progress: RebuildProgress) -> None:
        detail = _detail(progress) if progress.phase == "memory" else ""
        bars(progress.phase, progress.done, progress.total, detail)

    return report


def _detail(progress: RebuildProgress) -> str:
    made = progress.made
    rate = (made.events - made.kept_events) / progress.seconds if progress.seconds else 0.0
    asked = (
        f", {counted(made.calls, 'model call')}, {counted(made.tokens, 'token')}{_dollars(made.cost)}"
        if made.calls
        else ", no model calls"
    )
    return f"{counted(made.sessions, 'session')}, {rate:.0f} events/s{asked}"


def _dollars(cost: float | None) -> str:
    return f", ${cost:.2f}" if cost else ""


def estimate_lines(found: Estimate) -> list[str]:
    """An estimate as lines of text."""
    how = (
        "all of them derived"
        if found.is_exact
        else f"scaled from {found.sampled} of them ({counted(found.sampled_events, 'event')})"
    )
    lines = [
        f"{counted(found.conversations, 'conversation')}, {counted(found.events, 'event')},"
        f" about {counted(found.sessions, 'session')} ({how})",
        f"{counted(found.calls, 'model call')}: {found.prompt_tokens} prompt tokens,"
        f" {found.completion_tokens} completion tokens{_dollars(found.cost)};"
        f" recorded answers serve {found.recorded} more at no cost",
    ]
    if found.guessed:
        lines.append(f"no recorded answers to {', '.join(found.guessed)}: assumed {GUESSED_TOKENS} tokens each")
    if found.embedded is not None:
        lines.append(f"{counted(found.embedded, 'text')} sent to the embedding endpoint")
    if found.calls and found.cost is None:
        lines.append(
            "cost unknown: set EUNOE_MODEL_PROMPT_PRICE and EUNOE_MODEL_COMPLETION_PRICE (dollars per million tokens)"
        )
    return [
        *lines,
        "dry run: no model was called, nothing was written; token counts are of words and punctuation marks",
    ]


def _print(done: run.Rebuilt, *, as_json: bool) -> None:
    made = done.made
    note(done.note, quiet=as_json or not done.note)
    if as_json:
        print_json(
            {
                "generation": done.generation,
                "state": done.state.value,
                **made.model_dump(mode="json"),
                "answers": done.answers,
                "note": done.note,
                "seconds": round(done.seconds, 3),
                "events_per_s": round(done.events_per_s, 1),
                "phases": done.phases,
                "read_before": done.read_before,
            }
        )
        return
    console.print(
        f"{done.generation} is {done.state}: {counted(made.conversations, 'conversation')},"
        f" {counted(made.events, 'event')}, {counted(made.sessions, 'session')},"
        f" {counted(made.memories, 'memory')} in {done.seconds:.1f} s ({done.events_per_s:.0f} events/s);"
        f" {counted(made.calls, 'model call')}, {counted(made.tokens, 'token')}{_dollars(made.cost)}"
        + (f"; {counted(made.failed, 'decision')} failed: sessions were skipped" if made.failed else ""),
        highlight=False,
    )
