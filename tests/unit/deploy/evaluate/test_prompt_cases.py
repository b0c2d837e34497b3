"""`eunoe eval prompts`: the cases, what passes, what it costs, and what a repeat costs."""

import json
from collections import Counter

import pytest
from typer.testing import CliRunner

from eunoe.deploy.cli.eval import app
from eunoe.deploy.evaluate.prompts import inputs
from eunoe.deploy.evaluate.prompts.cases import chosen, read_cases
from eunoe.deploy.evaluate.prompts.deciding import DECIDERS
from eunoe.deploy.evaluate.prompts.kept import AnswerFile, KeptAnswer
from eunoe.deploy.evaluate.prompts.matching import abstains, has, script_fault
from eunoe.deploy.evaluate.prompts.run import run_cases
from eunoe.deploy.evaluate.prompts.table import ALL, failures, named_rows, stage_rows
from eunoe.deploy.evaluate.report import OFFLINE
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.workers.update.operator import Operation
from tests.support.command import eunoe
from tests.support.gold_answers import GoldAnswers
from tests.support.model_server.server import ModelServer, ServerSettings

SETTINGS = Settings(model_prompt_price=1.0, model_completion_price=2.0)


@pytest.fixture
def at(monkeypatch):
    """Points this process at a model server."""

    def point(server):
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")

    return point


def row(rows, stage=ALL, model="m"):
    return next(one for one in rows if one.stage == stage and one.model.startswith(model))


def test_the_cases_cover_stages_languages_and_kinds():
    cases = read_cases()
    assert len(cases) >= 80
    assert {case.stage for case in cases} == set(DECIDERS)
    counts = Counter(case.language for case in cases)
    assert all(counts[language] >= 10 for language in ("en", "de", "ko", "zh", "code"))
    assert {"es", "ja", "ar"} <= counts.keys()
    operations = {
        one
        for case in cases
        if case.stage == "update"
        for allowed in inputs.OperationsGold.model_validate(case.gold).operations
        for one in allowed[:1]
    }
    assert operations == {operation.value for operation in Operation}
    relations = {
        one
        for case in cases
        if case.stage == "link"
        for allowed in inputs.RelationsGold.model_validate(case.gold).relations
        for one in allowed[:1]
    }
    assert relations == {"Changed", "Cause", "Reason", "HinderedBy", "React", "Want", "SameTopic", "None"}
    assert sum("inject" in case.id for case in cases) >= 6
    assert sum(bool(case.gold.get("abstains")) for case in cases) >= 6


@pytest.mark.slow
async def test_a_model_that_answers_by_gold_passes_all_and_a_repeat_is_free(at, tmp_path):
    cases, path = read_cases(), tmp_path / "answers.jsonl"
    async with ModelServer(ServerSettings(scripts={"*": GoldAnswers()})) as server:
        at(server)
        results = await run_cases(cases, SETTINGS, ["m"], AnswerFile(path), lambda: None)
        assert failures(results) == []
        rows = stage_rows(results, SETTINGS)
        whole = row(rows)
        assert (whole.cases, whole.passed, whole.first, whole.offline) == (len(cases), 100, 100, 0)
        assert whole.dollars == pytest.approx((whole.prompt_tokens + 2 * whole.completion_tokens) / 1e6)
        assert row(rows, model=OFFLINE).passed < 90
        asked = server.stats["chat"]
        assert asked == sum(one.cost.paid for one in results)
        few = chosen(cases, ["link"], [])
        again = await run_cases(few, SETTINGS, ["m"], AnswerFile(path), lambda: None)
        assert server.stats["chat"] == asked
        assert row(stage_rows(again, SETTINGS), "link") == row(rows, "link")
        warmer = SETTINGS.model_copy(update={"model_temperature": 0.7})
        await run_cases(cases[:1], warmer, ["m"], AnswerFile(path), lambda: None)
        assert server.stats["chat"] == asked + 1


async def test_a_model_that_answers_wrongly_fails(at):
    cases = chosen(read_cases(), [], ["de", "zh", "code"])
    async with ModelServer(ServerSettings(scripts={"*": GoldAnswers(worst=True)})) as server:
        at(server)
        rows = stage_rows(await run_cases(cases, SETTINGS, ["m"], AnswerFile(None), lambda: None), SETTINGS)
        assert row(rows).passed < 10
        assert row(rows).offline < 5


async def test_a_model_that_babbles_is_decided_offline_and_the_row_says_so(at):
    cases = chosen(read_cases(), ["link", "update"], ["en"])
    async with ModelServer(ServerSettings(scripts={"*": lambda question: "What a nice question!"})) as server:
        at(server)
        rows = stage_rows(await run_cases(cases, SETTINGS, ["m"], AnswerFile(None), lambda: None), SETTINGS)
        whole, offline = row(rows), row(rows, model=OFFLINE)
        assert (whole.offline, whole.first) == (100, 0)
        assert whole.passed == offline.passed
        assert row(named_rows(rows)).model == "m, 100% decided offline"


@pytest.mark.slow
async def test_the_command_prints_reports_and_judges(tmp_path):
    async with ModelServer(ServerSettings(scripts={"*": GoldAnswers()})) as server:
        words = ("eval", "prompts", "--model", "m", "--stage", "link", "--language", "de")
        found = await eunoe(
            *words, "--json", "--report", "reports", "--min", "0.9", cwd=tmp_path, OPENAI_BASE_URL=server.base_url
        )
        assert found.code == 0, found.err
        assert {(one["model"], one["passed"]) for one in found.json["stages"] if one["stage"] == ALL} >= {("m", 100.0)}
        report = (tmp_path / "reports" / "prompts.md").read_text()
        assert "| m | link | 2 | 100 |" in report
    async with ModelServer(ServerSettings(scripts={"*": GoldAnswers(worst=True)})) as server:
        found = await eunoe(*words, "--min", "0.9", "--answers", "other", cwd=tmp_path, OPENAI_BASE_URL=server.base_url)
        assert found.code == 1
        assert "m passes 0 % of the cases, less than 90 %" in found.err
        assert "link-de-cause" in found.out


def test_faults_of_the_user_are_named(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    run = CliRunner().invoke
    needs = run(app, ["prompts", "--model", "m"])
    assert isinstance(needs.exception, Refused)
    assert "--model needs an endpoint" in str(needs.exception)
    assert "no case of stage 'linking'" in str(run(app, ["prompts", "--stage", "linking"]).exception)
    path = tmp_path / "cases.jsonl"
    path.write_text('{"id": "a", "stage": "link", "language": "en", "input": {}, "gold": {}}\n')
    with pytest.raises(Refused, match="line 1: gold"):
        read_cases(path)
    good = {
        "id": "a",
        "stage": "link",
        "language": "en",
        "input": {"pairs": [["Ann x", "b"]]},
        "gold": {"relations": []},
    }
    path.write_text(f"{json.dumps(good)}\n{json.dumps(good)}\n")
    with pytest.raises(Refused, match="several cases are called a"):
        read_cases(path)


async def test_a_malformed_case_is_named():
    good = read_cases()[0]
    wrong = good.model_copy(update={"input": {"pairs": 3}})
    with pytest.raises(Refused, match=f"case {good.id}: pairs"):
        await run_cases([wrong], Settings(), [], AnswerFile(None), lambda: None)


def test_a_half_written_answer_is_asked_again_and_kept(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text(
        '{"key": "a", "answer": "{}", "seconds": 1, "prompt_tokens": 2, "completion_tokens": 3}\n{"key": "b"'
    )
    kept = AnswerFile(path)
    assert kept.get("a") is not None
    assert kept.get("b") is None
    asked = KeptAnswer(key="b", answer="{}", seconds=1, prompt_tokens=2, completion_tokens=3)
    kept.put(asked)
    assert AnswerFile(path).get("b") == asked


@pytest.mark.parametrize(
    ("text", "is_said"),
    [
        ("I don\u2019t remember that.", True),
        ("Daran erinnere ich mich nicht.", True),
        ("기억이 나지 않아요.", True),
        ("我不记得了。", True),
        ("It is Dr. Miller.", False),
    ],
)
def test_abstention_is_recognised(text, is_said):
    assert abstains(text) is is_said


def test_words_have_alternatives_and_scripts_a_share():
    assert has("On 13 March  she passed", "march 13|13 march")
    assert not has("On 14 March", "march 13|13 march")
    assert script_fault(["민아는 부산으로 이사했다."], "hangul") == []
    assert script_fault(["Mina moved to Busan."], "hangul") == ["is not in the script hangul"]
    assert script_fault([], "hangul") == []
