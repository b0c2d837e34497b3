"""`eunoe demo`."""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.panel import Panel

from eunoe.deploy.cli.model_check import refuse_wrong_model
from eunoe.deploy.cli.output import Json, console, note, print_json
from eunoe.deploy.cli.progress import ProgressBars
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
from eunoe.deploy.exits import Exit
from eunoe.deploy.process.temporary import running
from eunoe.deploy.settings import Settings, read_settings
from eunoe.schemas.events import DEFAULT_TENANT, Reply, Strategy
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.ports import StateStore


def demo(
    conversation: Annotated[
        Path, typer.Option(help="File of JSON lines of events, or in LoCoMo's format.", show_default="bundled")
    ] = CONVERSATION,
    sample: Annotated[str | None, typer.Option(help="Conversation to play, of a file that holds several.")] = None,
    questions: Annotated[str, typer.Option(help="Number of questions to ask, or `all`.")] = "all",
    strategy: Annotated[
        Strategy | None, typer.Option(help="Retrieval strategy; default: as stage respond is set.")
    ] = None,
    attach: Annotated[
        bool,
        typer.Option(
            "--attach", help="Use the servers of EUNOE_KAFKA and so on, or of an `eunoe up` here; do not start any."
        ),
    ] = False,
    workers: Annotated[bool, typer.Option(help="Run a worker with all stages during the demo.")] = True,
    timeout: Annotated[
        float, typer.Option(help="Time without progress after which the demo fails, in seconds.")
    ] = 120.0,
    as_json: Json = False,
) -> None:
    """Play a conversation through the whole pipeline, then ask questions about it.

    Starts a temporary broker, Redis, Qdrant and worker on free loopback ports; produces the events; waits until every
    session is remembered; asks each question without recording it, and prints the reply with the segments and
    utterances behind it. Deletes everything at the end. Exit codes: 0 done, 1 an event was dead-lettered.
    """
    loaded = load_conversation(conversation, sample)
    chosen = loaded.questions if questions == "all" else loaded.questions[: _whole_number(questions)]
    loaded = LoadedConversation(loaded.conversation_id, loaded.events, chosen)
    report = asyncio.run(_demo(loaded, strategy, attach, workers, timeout, as_json))
    if as_json:
        print_json(report)
    if report["dead_letters"]:
        raise typer.Exit(Exit.FAILED)


def _whole_number(text: str) -> int:
    if not text.isdecimal():
        raise typer.BadParameter(f"expected a whole number or all, got {text!r}", param_hint="--questions")
    return int(text)


async def _demo(
    loaded: LoadedConversation, strategy: Strategy | None, attach: bool, workers: bool, timeout: float, quiet: bool
) -> dict[str, Any]:
    async with AsyncExitStack() as closing:
        settings = read_settings()
        if workers:
            await refuse_wrong_model(settings)
        note("starting servers and worker …", quiet=quiet)
        settings = await closing.enter_async_context(running(settings, attach=attach, workers=workers))
        started = time.perf_counter()
        store = await closing.enter_async_context(open_store(settings))
        with ProgressBars(quiet=quiet) as bars:
            await _remember(settings, store, loaded, bars, timeout)
        remembered = time.perf_counter() - started
        asked = await ask_all(
            settings,
            loaded,
            loaded.questions,
            tenant=DEFAULT_TENANT,
            strategy=strategy,
            answered=lambda asked, reply: None if quiet else _show(asked, reply),
        )
        counts = await count(settings, store, DEFAULT_TENANT, loaded.conversation_id)
        report = _report(counts, asked, remembered, time.perf_counter() - started)
        if not quiet:
            _summary(report)
        return report


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


def _show(asked: AnsweredQuestion, reply: Reply) -> None:
    behind = "\n".join(
        f"  session {source.session}, segment {source.id[:8]}: {', '.join(source.utterance_ids)}"
        for source in reply.sources
    )
    body = (
        f"{reply.text}\n\n[dim]cites {', '.join(reply.cited) or 'nothing'}; in the prompt "
        f"({reply.context_tokens} tokens):\n{behind}[/dim]"
    )
    console.print(Panel(body, title=f"[bold]{asked.question}[/]", title_align="left"), highlight=False)


def _summary(report: dict[str, Any]) -> None:
    recall = report["evidence_recall"]
    found = "" if recall is None else f", {recall:.0%} of the evidence in the prompts"
    console.print(
        f"{report['sessions']} sessions, {report['utterances']} utterances in {report['segments']} segments, "
        f"{report['memories']} memories with {sum(report['edges'].values())} links, "
        f"{len(report['questions'])} questions answered{found}, {report['dead_letters']} dead letters, "
        f"{report['seconds']:.1f} s",
        highlight=False,
    )
