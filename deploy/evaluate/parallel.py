"""Measures conversations in parallel, in several processes."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from eunoe.deploy.datasets.loaded import LoadedConversation
from eunoe.deploy.evaluate.corpus import answerable, with_questions
from eunoe.deploy.evaluate.gold import Shares
from eunoe.deploy.evaluate.models import open_eval_models
from eunoe.deploy.evaluate.retrieval import RetrievalPlan, Shown, measure
from eunoe.deploy.progress import Advance
from eunoe.deploy.settings import Settings, read_settings
from eunoe.schemas.base import Value
from eunoe.schemas.errors import EunoeError, Refused
from eunoe.schemas.events import Strategy

LIMIT_BYTES = 2**24
"""Maximum length of a line that a process writes."""


class EvalJob(Value):
    """The work of one process: a conversation and the plan of its questions; it reads other settings itself."""

    data: str
    sample: str
    embedding: str
    budgets: tuple[int, ...]
    strategies: tuple[Strategy, ...]
    baselines: tuple[str, ...]
    errata: str | None = None
    """The file of corrected evidence."""


async def measure_all(
    data: Path,
    conversations: Sequence[LoadedConversation],
    settings: Settings,
    plan: RetrievalPlan,
    jobs: int,
    advance: Advance,
) -> list[Shown]:
    """The results of `measure` for all conversations, in order, by ``jobs`` processes.

    Raises as `measure` does; `Refused` or `EunoeError` with the message of a process that failed.
    """
    if min(jobs, len(conversations)) <= 1:
        async with AsyncExitStack() as closing:
            models = await open_eval_models(settings, closing, with_language=False)
            return [shown for one in conversations for shown in await measure(one, models, plan, advance)]
    slots = asyncio.Semaphore(jobs)
    longest = sorted(conversations, key=lambda one: -len(one.utterances) * len(answerable(one)))
    tasks = {
        one.conversation_id: asyncio.create_task(_run(_job(data, one, settings, plan), slots, advance))
        for one in longest
    }
    try:
        await asyncio.gather(*tasks.values())
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
    return [shown for one in conversations for shown in tasks[one.conversation_id].result()]


def _job(data: Path, one: LoadedConversation, settings: Settings, plan: RetrievalPlan) -> EvalJob:
    return EvalJob(
        data=str(data),
        sample=one.conversation_id,
        embedding=settings.embedding,
        budgets=plan.budgets,
        strategies=plan.strategies,
        baselines=plan.baselines,
        errata=None if plan.errata is None else str(plan.errata),
    )


async def _run(job: EvalJob, slots: asyncio.Semaphore, advance: Advance) -> list[Shown]:
    async with slots:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "eunoe.deploy.evaluate.parallel",
            job.model_dump_json(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LIMIT_BYTES,
        )
        try:
            found = [shown async for shown in _rows(process, advance)]
            if await process.wait():
                raise await _fault(process)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    return found


async def _rows(process: asyncio.subprocess.Process, advance: Advance) -> AsyncIterator[Shown]:
    assert process.stdout is not None
    while line := await process.stdout.readline():
        if line.isspace():
            advance()
        else:
            yield _shown(orjson.loads(line))


def _shown(row: dict[str, Any]) -> Shown:
    return Shown(**{**row, "shares": Shares(**row["shares"])})


async def _fault(process: asyncio.subprocess.Process) -> EunoeError:
    message = (await process.stderr.read()).decode(errors="replace").strip() if process.stderr else ""
    kind = Refused if process.returncode == 2 else EunoeError
    return kind(message.removeprefix("eunoe: ") or f"a process of the evaluation ended with {process.returncode}")


async def work(job: EvalJob, write: Callable[[bytes], None]) -> None:
    """Do the work of one process: write an empty line for each question and retriever, then each `Shown` as JSON."""
    settings = read_settings().model_copy(update={"embedding": job.embedding})
    plan = RetrievalPlan(job.budgets, job.strategies, job.baselines, settings.stages)
    (loaded,) = with_questions(Path(job.data), [job.sample], Path(job.errata) if job.errata else None)
    async with AsyncExitStack() as closing:
        models = await open_eval_models(settings, closing, with_language=False)
        for shown in await measure(loaded, models, plan, lambda: write(b"\n")):
            write(orjson.dumps(asdict(shown), option=orjson.OPT_APPEND_NEWLINE))


def _main() -> int:
    def write(line: bytes) -> None:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()

    try:
        asyncio.run(work(EvalJob.from_json(sys.argv[1]), write))
    except EunoeError as fault:
        sys.stderr.write(f"eunoe: {fault}\n")
        return 2 if isinstance(fault, Refused) else 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
