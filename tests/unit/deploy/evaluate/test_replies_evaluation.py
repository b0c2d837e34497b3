"""`eunoe eval replies`, `teafarm`, `memory` and `ablation`, offline and against a model server on loopback."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from eunoe.deploy.cli.eval import app
from eunoe.deploy.cli.evalreport import table
from eunoe.deploy.evaluate.answering import EVERYTHING, NOTHING, PLAIN, WAYS, usage_of
from eunoe.deploy.evaluate.corpus import with_questions
from eunoe.deploy.evaluate.extras import extra
from eunoe.deploy.evaluate.indexed import IndexedConversation
from eunoe.deploy.evaluate.judges import prefer
from eunoe.deploy.evaluate.models import EvalModels
from eunoe.deploy.evaluate.replies import ReplyEvalOptions, evaluate_replies
from eunoe.deploy.evaluate.report import BarChart, EvalReport, write_report
from eunoe.deploy.evaluate.textscores import bleu, rouge_l, token_f1
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Insight, InsightKind, Line
from eunoe.workers.blend.turn import Blend, BlendInput
from eunoe.workers.compress.reads import read_stats
from eunoe.workers.models.endpoint.client import Endpoint
from eunoe.workers.models.endpoint.language_model import OpenAIModel, OpenAISettings
from eunoe.workers.models.questions.metering import Prices
from eunoe.workers.registry import StageSettings
from tests.papers.__main__ import app as papers
from tests.papers.ablation import AblationPlan, ablate, dcg
from tests.papers.teafarm import (
    DATASET,
    REPLIES,
    Farm,
    Outcome,
    Spoken,
    Tricky,
    chosen,
    read_lines,
    session_fault,
    teafarm_rows,
)
from tests.papers.teafarm_command import unmade
from tests.papers.upkeep import evaluate_upkeep
from tests.papers.variants import variants
from tests.papers.without import NOBODY, Unquestioning, Unrefining
from tests.support.in_memory import HashEmbedder
from tests.support.model_server.server import PLAUSIBLE, ModelServer, ServerSettings
from tests.unit.deploy.evaluate.test_retrieval_evaluation import sample

QUESTION = "So Biscuit is your cat?"


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.json"
    path.write_text(json.dumps([sample("one")]))
    return path


def made_session(question):
    told = [{"speaker": ("Ann", "Bob")[place % 2], "text": f"small talk {place}"} for place in range(10)]
    return {"utterances": [*told, {"speaker": "Ann", "text": QUESTION if "Biscuit" in question.user else "And you?"}]}


def scripts(first_is_better="first"):
    return {
        "Reply": lambda question: {"notes": [], "cited": [], "text": "Biscuit"},
        "Correct": lambda question: {"why": "", "correct": "Biscuit" in question.user},
        "Graded": lambda question: {"why": "", "score": 80},
        "Preferred": lambda question: {"why": "", "better": first_is_better},
        "Remembering": lambda question: {"why": "", "consistency": 5, "memorability": 4},
        "Entailed": lambda question: {"why": "", "verdict": "neutral"},
        "TrickyPair": lambda question: {
            "questions": [
                {"speaker": "Ann", "question": QUESTION, "answer": "No, Biscuit is a dog."},
                {"speaker": "Bob", "question": "And you?", "answer": "No."},
            ]
        },
        "MadeSession": made_session,
    }


def model_at(server, name="m"):
    return OpenAIModel(
        OpenAISettings(Endpoint(model=name, base_url=server.base_url, key="k", timeout_s=60, in_flight=8))
    )


async def indexed_from(data, language=None):
    (loaded,) = with_questions(data)
    indexed = await IndexedConversation.build(loaded, EvalModels(HashEmbedder()), StageSettings())
    return replace(indexed, dependencies=replace(indexed.dependencies, language=language))  # the stages decided offline


def test_words_are_compared_as_others_do():
    assert token_f1("The dog, Biscuit!", "a dog biscuit") == 1
    assert token_f1("a cat", "dog") == 0
    assert token_f1("", "") == 1
    assert token_f1("dog and cat", "dog") == pytest.approx(0.5)
    assert rouge_l(["the dog ran"], ["the dog ran"]) == pytest.approx(1)
    assert bleu(["the dog ran over the hill"], ["the dog ran over the hill"]) == pytest.approx(100)


def test_a_missing_library_is_named_with_what_to_install():
    with pytest.raises(Refused, match=r"pip install 'eunoe\[eval\]'"):
        extra("no_such_library_here")


async def test_a_model_replies_and_judges_and_is_paid_for(data):
    async with ModelServer(ServerSettings(scripts=scripts())) as server:
        model, judge = model_at(server), model_at(server)
        indexed = await indexed_from(data, model)
        plan = ReplyEvalOptions(("fused", EVERYTHING, PLAIN, NOTHING), judge=judge, prices=Prices(1.0, 2.0))
        rows = {row.memory: row for row in await evaluate_replies([indexed], plan)}
        assert set(rows) == set(plan.ways)
        for row in rows.values():
            assert row.questions == 2
            assert row.token_f1 == 0.5  # one of the two answers is Biscuit
            assert (row.correct, row.grade, row.consistency, row.memorability) == (1, 80, 5, 4)
            assert (row.entailed, row.contradicted) == (0, 0)
            assert row.calls == 1
            assert row.dollars == pytest.approx((row.prompt_tokens + 2 * row.completion_tokens) / 1e6, rel=0.05)
        assert rows["fused"].preferred == 0.5  # the judge names the first one in both orders
        assert rows[PLAIN].preferred is None
        assert rows[NOTHING].context_tokens == 0 < rows["fused"].context_tokens <= plan.budget
        assert usage_of(model).calls == 8
        await model.aclose()
        await judge.aclose()


@pytest.mark.parametrize(("winner", "share"), [("good", 1.0), ("bad", 0.0)])
async def test_a_preference_holds_only_in_both_orders(winner, share):
    def better(question):
        first = question.user.split("First reply:")[1].split("Second reply:")[0]
        return {"why": "", "better": "first" if winner in first else "second"}

    async with ModelServer(ServerSettings(scripts={"Preferred": better})) as server:
        model = model_at(server)
        assert await prefer(model, {"question": "q", "right_answer": "a"}, "a good reply", "a bad reply") == share
        await model.aclose()


async def test_the_farm_makes_asks_judges_and_goes_on_where_it_stopped(data, tmp_path):
    async with ModelServer(ServerSettings(scripts=scripts())) as server:
        model = model_at(server)
        indexed = await indexed_from(data, model)
        farm = Farm(tmp_path, model, model, 7, 500, ("fused", NOTHING))
        items = await farm.items(indexed)
        assert [(item.speaker, item.other, item.session[-1].text) for item in items] == [
            ("Ann", "Bob", QUESTION),
        ]  # Bob's session ended with Ann's words twice: it is left out
        await farm.ask(indexed, items)
        outcomes = read_lines(tmp_path / REPLIES, Outcome)
        assert [(one.strategy, one.correct) for one in outcomes] == [("fused", True), (NOTHING, True)]
        assert [row.success_rate for row in teafarm_rows(outcomes, farm.strategies)] == [1, 1]
        asked = model.usage.calls
        await farm.ask(indexed, items)
        assert model.usage.calls == asked
        await replace(farm, budget=100, strategies=("fused",)).ask(indexed, items)
        assert model.usage.calls == asked + 2  # another budget is another reply, and another judgement
        assert len(farm.outcomes()) == 2
        with pytest.raises(Refused, match="with seed 7, not with seed 8"):
            await replace(farm, seed=8).items(indexed)
        assert len((tmp_path / DATASET).read_text().splitlines()) == 1
        await model.aclose()


async def test_questions_are_shared_between_models_and_replies_are_not(data, tmp_path):
    async with ModelServer(ServerSettings(scripts=scripts())) as server:
        model, other = model_at(server), model_at(server, "other")
        indexed = await indexed_from(data, model)
        shared = tmp_path / "questions.jsonl"
        farm = Farm(tmp_path, model, model, 7, 500, (NOTHING,), maker=other, dataset=shared)
        items = await farm.items(indexed)
        assert {item.model for item in items} == {"other"}
        await farm.ask(indexed, items)
        second = replace(farm, model=other, maker=model)
        assert second.kept(indexed.loaded.conversation_id) == items  # made by another model, and taken as they are
        assert second.outcomes() == []
        third = replace(farm, settings="other")
        assert third.outcomes() == []
        await third.ask(indexed, items)
        assert [len(one.outcomes()) for one in (farm, second, third)] == [1, 0, 1]
        await model.aclose()
        await other.aclose()


async def test_a_judge_reads_what_was_said_around_the_evidence_and_explains(data):
    async with ModelServer(ServerSettings(scripts=scripts())) as server:
        model = model_at(server)
        indexed = await indexed_from(data)
        await evaluate_replies([indexed], ReplyEvalOptions((NOTHING,), judge=model))
        asked = [one for one in server.questions if one.form == "Correct"]
        assert asked[0].user.index("What was said") < asked[0].user.index("Right answer")
        assert "How lovely, what breed?" in asked[0].user  # the line after the evidence
        assert all(next(iter(one.schema["properties"])) == "why" for one in server.questions)
        await model.aclose()


def test_a_strategy_that_was_asked_nothing_has_no_rate():
    (row,) = teafarm_rows([], ("fused",))
    assert row.success_rate is None
    assert "0 of 4" in unmade([row], 4)[0]
    assert unmade([replace(row, questions=4)], 4) == ()


async def test_the_model_server_has_answers_for_the_farm(data, tmp_path):
    async with ModelServer(ServerSettings(scripts=PLAUSIBLE)) as server:
        model = model_at(server)
        indexed = await indexed_from(data, model)
        items = await Farm(tmp_path, model, model, 7, 500, ("fused",)).items(indexed)
        assert sorted(item.speaker for item in items) == ["Ann", "Bob"]
        await model.aclose()


async def test_insights_of_the_open_session_reach_a_reply_only_where_it_is_infused(tmp_path):
    told = sample("one")
    told["conversation"]["session_3"].append({"speaker": "Bob", "dia_id": "D3:9", "text": "I moved to Turin in March."})
    (tmp_path / "data.json").write_text(json.dumps([told]))
    (loaded,) = with_questions(tmp_path / "data.json")
    rows = [one for one in variants(1) if one.paper == "CREEM"]
    indexed = await IndexedConversation.build(loaded, EvalModels(HashEmbedder()), StageSettings(), rows[0].how)
    last = loaded.utterances[-1].session_id
    said = {one.utterance_id for one in loaded.utterances if one.session_id == last}
    question = loaded.questions[1]
    whole, without = [await row.find(indexed, question, 400) for row in (rows[0], rows[3])]
    assert said & {id_ for row in whole.rows for id_ in row.cites}
    assert not said & {id_ for row in without.rows for id_ in row.cites}


async def test_only_the_row_without_question_asks_none(data):
    asked = []

    def noted(question: str) -> dict[str, str]:
        asked.append(question)
        return {"question": "Which dog?"}

    scripts = {"Question": noted}
    (loaded,) = with_questions(data)
    async with ModelServer(ServerSettings(scripts={**PLAUSIBLE, **scripts})) as server:
        model = model_at(server)
        counts = {}
        for row in [one for one in variants(1) if one.paper == "CREEM"]:
            asked.clear()
            indexed = await IndexedConversation.build(
                loaded, EvalModels(HashEmbedder(), model), StageSettings(), row.how
            )
            await row.find(indexed, loaded.questions[0], 400)
            counts[row.name] = len(asked)
        await model.aclose()
    assert counts.pop("without question") == 0
    assert all(counts.values())


async def test_stages_without_an_idea_decide_without_it(data):
    (loaded,) = with_questions(data)
    found = {one.name: one for one in variants()}
    for name, segments in (("turns, dense", len(loaded.utterances)), ("sessions, dense", 3)):
        indexed = await IndexedConversation.build(loaded, EvalModels(HashEmbedder()), StageSettings(), found[name].how)
        assert (await read_stats(indexed.dependencies.store, indexed.key)).segments == segments
    scene = BlendInput((Line(utterance_id="a", speaker="Ann", text="I moved to Turin.", at=loaded.utterances[0].at),))
    updated = Insight(kind=InsightKind.UPDATED, speaker="Ann", text="x", evidence=scene.lines, replaces=("m",))

    class Updating:
        async def question(self, lines, *, urgent):
            return "where?"

        async def blend(self, scene, *, urgent):
            return Blend((updated,), NOBODY)

    assert await Unquestioning(Updating()).question(scene.lines, urgent=True) == "I moved to Turin."
    (insight,) = (await Unrefining(Updating()).blend(scene, urgent=True)).insights
    assert (insight.kind, insight.replaces) == (InsightKind.NEW, ())


def test_a_made_session_ends_with_the_question():
    tricky = Tricky(speaker="Ann", question="Is it so?", answer="No.")
    end = Spoken(speaker="Ann", text="Is it  so?")
    assert session_fault([end], tricky, ("Ann", "Bob")) is None
    assert "word for word" in session_fault([Spoken(speaker="Bob", text="Is it so?")], tricky, ("Ann", "Bob"))
    assert "take part" in session_fault([Spoken(speaker="Eve", text="x"), end], tricky, ("Ann", "Bob"))


def test_conversations_are_drawn_by_the_seed_in_their_order():
    names = list("abcdefgh")
    assert chosen(names, 3, 1) == chosen(names, 3, 1) == sorted(chosen(names, 3, 1))
    assert chosen(names, None, 1) == names


def test_lines_of_another_form_are_refused(tmp_path):
    (tmp_path / REPLIES).write_text("{}\n")
    with pytest.raises(Refused, match=r"replies\.jsonl, line 1"):
        read_lines(tmp_path / REPLIES, Outcome)


async def test_upkeep_counts_operations_and_insights(data):
    (loaded,) = with_questions(data)
    (row,) = await evaluate_upkeep([loaded], EvalModels(HashEmbedder()), StageSettings(), 4)
    assert row.turns == 2
    assert row.memories >= row.current > 0
    assert row.added + row.reinforced + row.superseded + row.retired + row.suspected == pytest.approx(1, abs=0.01)


async def test_every_variant_has_a_row(data):
    (loaded,) = with_questions(data)
    rows = await ablate([loaded], EvalModels(HashEmbedder()), AblationPlan(400, None, True, StageSettings()))
    found = {(row.paper, row.variant): row for row in rows}
    assert list(found) == [(one.paper, one.name) for one in variants()]
    assert found["Keep Me Updated", "full history"].recall == 100
    assert found["Keep Me Updated", "no memory"].recall == 0
    assert found["all", "fused"].recall == 100
    assert found["THEANINE", "no refinement"].token_f1 is None  # offline nothing is refined
    thirds = [found["MemTree", f"tree, {name} third"].questions for name in ("oldest", "middle", "latest")]
    assert thirds == [1, 1, 0]


def test_gain_falls_with_the_rank():
    assert dcg(["a", "b"], {"a"}) == 1
    assert 0 < dcg(["b", "a"], {"a"}) < 1
    assert dcg(["b"], {"a"}) == 0


def test_tables_say_little_numbers_and_leave_out_what_is_empty(tmp_path):
    rows = [{"memory": "fused", "dollars": 0.000276, "share": 0.5, "grade": None}]
    write_report(
        tmp_path, EvalReport("replies", rows, {}, {}, {}, BarChart("t", "share", ("fused",), {"share": [0.5]}))
    )
    told = (tmp_path / "replies.md").read_text()
    assert "| fused | 0.00028 | 0.5 |" in told
    assert "grade" not in told
    assert len(table(rows).columns) == 3


def test_a_table_too_wide_stands_on_end():
    rows = [{f"a long name of column {place}": place for place in range(20)}]
    assert len(table(rows).columns) == 2


def test_tables_too_wide_both_ways_stand_one_below_the_other():
    rows = [{f"column {place}": ("62.8 / 70.9 / 78.8",) for place in range(20)} for _ in range(9)]
    shown = table(rows)
    assert (len(shown.columns), shown.row_count) == (2, 9 * 20)


def run(command, *arguments, **environment):
    group = app if command == "replies" else papers
    return CliRunner(env={"OPENAI_BASE_URL": "", **environment}).invoke(group, [command, *map(str, arguments)])


def test_the_commands_print_and_report_offline(data, tmp_path):
    folder = tmp_path / "reports"
    result = run("replies", "--data", data, "--memory", "fused", "--memory", PLAIN, "--json", "--report", folder)
    assert result.exit_code == 0, result.output
    assert [row["memory"] for row in json.loads(result.stdout)] == ["fused", PLAIN]
    assert all(row["dollars"] is None for row in json.loads(result.stdout))
    written = json.loads((folder / "replies.json").read_bytes())
    assert written["models"]["language"] == "offline"
    assert "quotations" in (folder / "replies.md").read_text()
    result = run("memory", "--data", data, "--json", "--report", folder)
    assert result.exit_code == 0, result.output
    assert (folder / "memory.png").exists()


def test_what_needs_a_model_says_so(data, tmp_path):
    result = run("teafarm", "--data", data, "--out", tmp_path / "farm")
    assert isinstance(result.exception, Refused)
    assert "OPENAI_BASE_URL" in str(result.exception)
    result = run("replies", "--data", data, "--judge", "m")
    assert "needs a language model" in str(result.exception)
    result = run("replies", "--data", data, "--memory", "nothing")
    assert result.exit_code == 2
    assert all(way in result.output for way in WAYS[:2])
