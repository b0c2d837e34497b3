"""`eunoe eval prompts`."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from eunoe.deploy.cli.evalmodels import NO_MODEL
from eunoe.deploy.cli.evalreport import Embedding, ReportFolder, fields, settings_with, stage_settings, table
from eunoe.deploy.cli.output import Json, console, note, print_json
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.clients.models import uses_endpoint
from eunoe.deploy.evaluate.prompts.cases import PromptCase, chosen, read_cases
from eunoe.deploy.evaluate.prompts.deciding import DECIDERS
from eunoe.deploy.evaluate.prompts.kept import AnswerFile
from eunoe.deploy.evaluate.prompts.run import CaseResult, priced, run_cases
from eunoe.deploy.evaluate.prompts.table import (
    failure_lines,
    failures,
    language_rows,
    named_rows,
    prompt_bars,
    share,
    stage_rows,
)
from eunoe.deploy.evaluate.report import OFFLINE, EvalReport, check_folder, hashes, write_report
from eunoe.deploy.exits import Exit
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused

ANSWERS = Path(".eunoe/eval-prompts-answers.jsonl")


def prompts(
    model: Annotated[
        list[str] | None,
        typer.Option(help="Model at OPENAI_BASE_URL; repeatable, to compare. Default: EUNOE_MODEL, if one is asked."),
    ] = None,
    stage: Annotated[
        list[str] | None, typer.Option(help=f"Only this stage; repeatable: {', '.join(DECIDERS)}. Default: all.")
    ] = None,
    language: Annotated[
        list[str] | None,
        typer.Option(help="Only cases of this language (en, de, ko, zh, es, ja, ar, code); repeatable."),
    ] = None,
    minimum: Annotated[
        float | None,
        typer.Option("--min", min=0, max=1, help="Exit with code 1 where a model passes a smaller share of the cases."),
    ] = None,
    cases: Annotated[
        Path | None, typer.Option(help="Cases of your own, as JSON lines; default: the package's.")
    ] = None,
    answers: Annotated[Path, typer.Option(help="File that keeps the answers, so that a repeat is free.")] = ANSWERS,
    dollars_in: Annotated[float, typer.Option(min=0, help="Price in dollars per million prompt tokens.")] = 0.0,
    dollars_out: Annotated[float, typer.Option(min=0, help="Price in dollars per million completion tokens.")] = 0.0,
    embedder: Embedding = None,
    report: ReportFolder = None,
    as_json: Json = False,
) -> None:
    """Measure how well prompts and model fit: cases with a gold answer for each stage, in several languages.

    No judge: operations, relations, boundaries, cited lines, words that must and must not stand there, the script.
    The stages' own prompts and checks are used. The offline rules decide the same cases beside the model.

    Exit codes:

    - 0: done
    - 1: a model passes a smaller share than --min
    - 2: wrong arguments, or the endpoint refuses key or model
    - 69: the endpoint did not answer

    Example: `eunoe eval prompts --model my-model --min 0.8 --report reports`
    """
    check_folder(report)
    settings = priced(settings_with(embedder), dollars_in, dollars_out)
    models = _models(settings, model or ())
    picked = chosen(read_cases(cases), stage or (), language or ())
    if not models:
        note(f"only the offline rules are measured; for a model {NO_MODEL}")
    with ProgressBars(quiet=as_json) as bars:
        advance = bars.counter("cases", len(picked) * (len(models) + 1))
        results = asyncio.run(run_cases(picked, settings, models, AnswerFile(answers), advance))
    _show(results, settings, as_json)
    if report is not None:
        paths = write_report(report, _report(results, settings, picked, cases))
        note(f"report: {', '.join(map(str, paths))}", quiet=as_json)
    _judge(results, models, minimum)


def _models(settings: Settings, named: Sequence[str]) -> tuple[str, ...]:
    """The models to ask; none without an endpoint. Raises `Refused` where models are named without one."""
    if uses_endpoint(settings, os.environ):
        return tuple(dict.fromkeys(named or [settings.model]))
    if named:
        raise Refused(f"--model needs an endpoint: {NO_MODEL}")
    return ()


def _show(results: Sequence[CaseResult], settings: Settings, as_json: bool) -> None:
    stages, languages = fields(named_rows(stage_rows(results, settings))), fields(language_rows(results))
    if as_json:
        print_json({"stages": stages, "languages": languages, "failures": failures(results)})
        return
    console.print(table(stages))
    console.print(table(languages))
    for one in failures(results):
        console.print(f"{one['case']}: {one['faults']}", style="dim", markup=False, highlight=False, soft_wrap=True)
    asked = sum(one.cost.asked for one in results)
    if asked:
        paid = sum(one.cost.paid for one in results)
        console.print(f"{asked} questions, {asked - paid} of them from the file of kept answers", style="dim")


def _report(
    results: Sequence[CaseResult], settings: Settings, cases: Sequence[PromptCase], path: Path | None
) -> EvalReport:
    rows = stage_rows(results, settings)
    models = [model for model in dict.fromkeys(one.model for one in results) if model != OFFLINE]
    return EvalReport(
        name="prompts",
        rows=fields(named_rows(rows)),
        settings={"cases": len(cases), **stage_settings(settings)},
        models={"language": ", ".join(models) or OFFLINE, "embedder": settings.embedding},
        data=hashes(path) if path is not None else {"cases": f"{len(cases)} of the package"},
        bars=prompt_bars(rows),
        about={"languages": fields(language_rows(results)), "failures": failures(results)},
        details=tuple(failure_lines(results)),
    )


def _judge(results: Sequence[CaseResult], models: Sequence[str], minimum: float | None) -> None:
    """Raise ``typer.Exit`` where a model passes too few cases."""
    for model in models:
        passed = share([one for one in results if one.model == model])
        if minimum is not None and passed < 100 * minimum:
            note(f"{model} passes {passed:g} % of the cases, less than {100 * minimum:g} %")
            raise typer.Exit(Exit.FAILED)
