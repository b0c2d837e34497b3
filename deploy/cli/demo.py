"""`eunoe demo`."""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.panel import Panel

from eunoe.deploy.cli.model_check import refuse_wrong_model
from eunoe.deploy.cli.output import Json, console, errors, note, print_json
from eunoe.deploy.cli.page_address import page_opened
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.clients.models import uses_endpoint
from eunoe.deploy.clients.shared import open_publisher, open_store
from eunoe.deploy.datasets.load import load_conversation
from eunoe.deploy.datasets.loaded import LoadedConversation
from eunoe.deploy.demo.bundled import CONVERSATION
from eunoe.deploy.demo.play import (
    AnsweredQuestion,
    PlaySummary,
    ask_all,
    count,
    expected_sessions,
    produce,
    wait_until_remembered,
)
from eunoe.deploy.event_loop import stop_signal
from eunoe.deploy.exits import Exit
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.process.temporary import attached_servers, temporary_servers
from eunoe.deploy.settings import Settings, read_settings
from eunoe.schemas.events import DEFAULT_TENANT, Strategy, Utterance
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.ports import StateStore
from eunoe.schemas.replies import Reply
from eunoe.workers.respond.context import write_day
from eunoe.workers.text.tokens import count_tokens

BUDGET = 300
"""Tokens of memory in a prompt of the demo: less than its conversation, so that memory has to choose."""
PATIENCE_S = 120.0
"""Time without progress after which the demo fails, in seconds."""
DECISIONS = 4
"""Decisions of a model for a session, which are made one after the other: a slow one takes its time for each."""


def demo(
    conversation: Annotated[
        Path, typer.Option(help="File of JSON lines of events, or in LoCoMo's format.", show_default="bundled")
    ] = CONVERSATION,
    sample: Annotated[str | None, typer.Option(help="Conversation to play, of a file that holds several.")] = None,
    questions: Annotated[str, typer.Option(help="Number of questions to ask, or `all`.")] = "all",
    strategy: Annotated[
        Strategy | None, typer.Option(help="Retrieval strategy; default: as stage respond is set.")
    ] = None,
    budget: Annotated[
        int, typer.Option(min=1, help="Tokens of memory in a prompt; few, so that memory has to choose.")
    ] = BUDGET,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print the segments and utterances in each prompt, and the counts.")
    ] = False,
    attach: Annotated[
        bool,
        typer.Option(
            "--attach", help="Use the servers of EUNOE_KAFKA and so on, or of an `eunoe up` here; do not start any."
        ),
    ] = False,
    workers: Annotated[bool, typer.Option(help="Run a worker with all stages during the demo.")] = True,
    timeout: Annotated[
        float | None,
        typer.Option(
            help="Time without progress after which the demo fails, in seconds; with a model the time of four"
            " decisions more (EUNOE_MODEL_DECISION_SECONDS).",
            show_default=f"{PATIENCE_S:g}",
        ),
    ] = None,
    page: Annotated[
        bool,
        typer.Option("--page", help="Serve the page on what is remembered then, and print its address, until Ctrl-C."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Play a conversation through the whole pipeline, then ask questions about it.

    Starts a temporary broker, Redis, Qdrant and worker on free loopback ports; produces the events; waits until every
    session is remembered; asks each question without recording it, and prints the reply, the lines it quotes and the
    share of the conversation shown. Deletes everything at the end. Exit codes: 0 done, 1 an event was dead-lettered.
    """
    loaded = load_conversation(conversation, sample)
    chosen = loaded.questions if questions == "all" else loaded.questions[: _whole_number(questions)]
    loaded = LoadedConversation(loaded.conversation_id, loaded.events, chosen)
    options = DemoOptions(strategy, budget, attach, workers, timeout, quiet=as_json, verbose=verbose, page=page)
    report = asyncio.run(_demo(loaded, options))
    if as_json:
        print_json(report)
    if report["dead_letters"]:
        raise typer.Exit(Exit.FAILED)


def _whole_number(text: str) -> int:
    if not text.isdecimal():
        raise typer.BadParameter(f"expected a whole number or all, got {text!r}", param_hint="--questions")
    return int(text)


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of a demo, as on the command line."""

    strategy: Strategy | None
    budget: int
    """Tokens."""
    attach: bool
    workers: bool
    timeout: float | None
    """Seconds; `None`: by the model."""
    quiet: bool
    verbose: bool
    page: bool
    """Whether the page is served when all is remembered, until Ctrl-C."""

    @property
    def starts(self) -> list[str]:
        """The parts that the demo starts, in words; none where it uses all that runs."""
        return [word for word, wanted in (("servers", not self.attach), ("worker", self.workers)) if wanted]


async def _demo(loaded: LoadedConversation, options: DemoOptions) -> dict[str, Any]:
    async with AsyncExitStack() as closing:
        settings = read_settings()
        patience_s = patience_to_wait_s(settings) if options.timeout is None else options.timeout
        if options.workers:
            await refuse_wrong_model(settings)
        if starts := options.starts:
            note(f"starting {' and '.join(starts)} …", quiet=options.quiet)
        workers = options.workers
        system = attached_servers(workers=workers) if options.attach else temporary_servers(settings, workers=workers)
        settings = await closing.enter_async_context(system)
        started = time.perf_counter()
        store = await closing.enter_async_context(open_store(settings))
        with ProgressBars(quiet=options.quiet) as bars:
            await _remember(settings, store, loaded, bars, patience_s)
        remembered = time.perf_counter() - started
        asked = await ask_all(
            settings,
            loaded,
            loaded.questions,
            tenant=DEFAULT_TENANT,
            options={"strategy": options.strategy, "budget_tokens": options.budget, "timeout": patience_s},
            answered=lambda asked, reply: _show(loaded, asked, reply, options),
        )
        counts = await count(settings, store, DEFAULT_TENANT, loaded.conversation_id)
        report = _report(counts, asked, remembered, time.perf_counter() - started)
        if not options.quiet:
            _summary(report, options)
        if options.page:
            await _serve_page(settings, loaded.conversation_id)
        return report


def patience_to_wait_s(settings: Settings) -> float:
    """Seconds to wait for progress: with a model those of its decisions for a session more."""
    uses_model = uses_endpoint(settings, os.environ)
    return PATIENCE_S + (DECISIONS * settings.model_decision_seconds if uses_model else 0.0)


async def _serve_page(settings: Settings, conversation_id: str) -> None:
    """Print the page's address, and serve it until Ctrl-C."""
    stop = stop_signal()
    async with page_opened(settings, DEFAULT_TENANT, conversation_id) as address:
        errors.print(f"the page, until Ctrl-C: {address}", highlight=False, soft_wrap=True)
        await stop.wait()


async def _remember(
    settings: Settings, store: StateStore, loaded: LoadedConversation, bars: ProgressBars, timeout: float
) -> None:
    key = conversation_key(DEFAULT_TENANT, loaded.conversation_id)
    sessions = expected_sessions(loaded.events)
    events = len(loaded.events)
    async with open_publisher(settings) as publisher:
        await produce(publisher, loaded.events, lambda done: bars("produced", done, events))
    await wait_until_remembered(store, key, sessions, lambda done: bars("remembered", done, sessions), timeout)


def _report(counts: PlaySummary, asked: list[AnsweredQuestion], remembered: float, seconds: float) -> dict[str, Any]:
    recalls = [item.recall for item in asked if item.recall is not None]
    return {
        "sessions": counts.sessions,
        "utterances": counts.utterances,
        "utterances_in_segments": counts.utterances_in_segments,
        "segments": counts.segments,
        "memories": counts.memories,
        "edges": counts.edges,
        "dead_letters": counts.dead_letters,
        "seconds": round(seconds, 3),
        "seconds_to_remember": round(remembered, 3),
        "evidence_recall": round(sum(recalls) / len(recalls), 4) if recalls else None,
        "questions": [item.model_dump(mode="json") for item in asked],
    }


def _show(loaded: LoadedConversation, asked: AnsweredQuestion, reply: Reply, options: DemoOptions) -> None:
    if options.quiet:
        return
    whole = sum(count_tokens(f"{one.speaker}: {one.text}") for one in loaded.utterances)
    lines = [
        escape(reply.text),
        "",
        f"[dim]{escape(citation(loaded, asked))}; {asked.tokens} of {whole} tokens shown[/dim]",
    ]
    if options.verbose:
        lines += [f"[dim]cites {', '.join(reply.cited) or 'nothing'}; in the prompt:", *_sources(reply), "[/dim]"]
    console.print(
        Panel("\n".join(lines), title=f"[bold]{escape(asked.question)}[/]", title_align="left"), highlight=False
    )


def citation(loaded: LoadedConversation, asked: AnsweredQuestion) -> str:
    """The cited utterances that a reply quotes, each with its day; where it quotes none the first, with its text."""
    cited = [one for id_ in asked.cited for one in loaded.utterances if one.utterance_id == id_]
    if not cited:
        return "cites nothing"
    if quoted := [one for one in cited if one.text in asked.reply]:
        return f"cites {' and '.join(map(_place, quoted))}"
    return f"cites {_place(cited[0])}, {cited[0].speaker}: {cited[0].text}"


def _place(said: Utterance) -> str:
    return f"{said.utterance_id} of {write_day(said.at)}"


def _sources(reply: Reply) -> list[str]:
    return [
        f"  session {source.session}, segment {source.id[:8]}: {', '.join(source.utterance_ids)}"
        for source in reply.sources
    ]


def _summary(report: dict[str, Any], options: DemoOptions) -> None:
    recall = report["evidence_recall"]
    found = "" if recall is None else f", {recall:.0%} of the evidence within {options.budget} tokens"
    console.print(
        f"{counted(report['sessions'], 'session')}, {counted(report['utterances'], 'utterance')}, "
        f"{counted(report['memories'], 'memory')}, {counted(len(report['questions']), 'question')} answered{found}, "
        f"{report['seconds']:.1f} s",
        highlight=False,
    )
    if offline := made_offline(report["questions"]):
        console.print(offline, highlight=False)
    if options.verbose or report["dead_letters"]:
        console.print(
            f"{counted(report['segments'], 'segment')}, {counted(sum(report['edges'].values()), 'link')}, "
            f"{counted(report['dead_letters'], 'dead letter')}",
            highlight=False,
        )


def made_offline(questions: Sequence[Mapping[str, Any]]) -> str:
    """Tell of replies that the offline rules made in place of a model; empty where there are none."""
    count = sum(question["fallback"] for question in questions)
    if not count:
        return ""
    return (
        f"{count} of {counted(len(questions), 'reply')} made by the offline rules: the model gave no valid answer in"
        " time. `eunoe doctor --only model` names what to set"
    )
