"""`eunoe eval retrieval`: what it measures, on a small conversation of ours."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from eunoe.deploy.cli.eval import app
from eunoe.deploy.evaluate.baselines import BASELINES, Baselines, PackedMemory, pack_passages
from eunoe.deploy.evaluate.corpus import read_corpus, with_questions
from eunoe.deploy.evaluate.gold import GoldPassages, Shares, shares_of
from eunoe.deploy.evaluate.indexed import IndexedConversation
from eunoe.deploy.evaluate.models import EvalModels
from eunoe.deploy.evaluate.retrieval import ALL, RetrievalPlan, Shown, measure, recalls, retrieval_rows
from eunoe.deploy.evaluate.stats import interval, percent
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Strategy
from eunoe.workers.registry import StageSettings
from eunoe.workers.respond.context import Context
from eunoe.workers.respond.recall.sources import Query
from eunoe.workers.text.tokens import count_tokens
from tests.support.in_memory import HashEmbedder

SESSIONS = [
    [("Ann", "I adopted a dog called Biscuit."), ("Bob", "How lovely, what breed?"), ("Ann", "A small terrier.")],
    [("Bob", "I started a new job at the harbour."), ("Ann", "Congratulations! Do you like it?")],
    [("Ann", "We went hiking in the mountains."), ("Bob", "The view must have been great."), ("Ann", "It was.")],
]


def sample(name="one", qa=None):
    conversation = {"speaker_a": "Ann", "speaker_b": "Bob"}
    for number, session in enumerate(SESSIONS, 1):
        conversation[f"session_{number}_date_time"] = f"1:56 pm on {number} May, 2023"
        conversation[f"session_{number}"] = [
            {"speaker": speaker, "dia_id": f"D{number}:{turn}", "text": text}
            for turn, (speaker, text) in enumerate(session, 1)
        ]
    asked = [
        {"question": "What is the name of Ann's dog?", "evidence": ["D1:1"], "answer": "Biscuit", "category": 4},
        {"question": "Where does Bob work?", "evidence": ["D2:1"], "answer": "the harbour", "category": 1},
        {"question": "What car does Bob drive?", "evidence": ["D2:1"], "answer": "", "category": 5},
    ]
    return {"sample_id": name, "conversation": conversation, "qa": asked if qa is None else qa}


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.json"
    path.write_text(json.dumps([sample("one"), sample("two", qa=[])]))
    return path


async def test_everything_is_found_where_all_fits(data):
    (loaded,) = with_questions(data)
    plan = RetrievalPlan(budgets=(15, 400), strategies=(Strategy.SEGMENT, Strategy.FUSED))
    rows = retrieval_rows(await measure(loaded, EvalModels(HashEmbedder()), plan), plan)
    overall = {row.retriever: row for row in rows if row.kind == ALL}
    assert set(overall) == {"segment", "fused", *BASELINES}
    assert {row.kind for row in rows} == {"multi-hop", "single-hop", ALL}
    for row in overall.values():
        assert row.questions == 2  # the one that has no answer is left out
        assert all(most <= budget for most, budget in zip(row.most_tokens, row.budgets, strict=True))
        assert all(low <= mean <= high for mean, (low, high) in zip(row.recall, row.interval, strict=True))
    for name in ("fused", "turns-dense", "4-turns-rrf", "sessions-dense"):
        assert overall[name].recall[1] == 100


async def test_who_asks_is_passed_on_where_the_data_says_it(data):
    (loaded,) = with_questions(data)
    asked: list[str] = []

    class Asked:
        async def recall(self, query: Query) -> Context:
            asked.append(query.asker)
            return Context()

    question, other = loaded.questions[0].model_copy(update={"speaker": "Ann"}), loaded.questions[1]
    indexed = replace(
        await IndexedConversation.build(loaded, EvalModels(HashEmbedder()), StageSettings()),
        sources={Strategy.FUSED: Asked()},
    )
    for one in (question, other):
        await recalls(indexed, "fused", one, (100,))
    assert asked == ["Ann", ""]


async def test_a_piece_counts_only_whole(data):
    (loaded,) = with_questions(data)
    base = await Baselines.of(loaded.utterances, ("Ann", "Bob"), HashEmbedder())
    ranked = await base.rank("sessions-bm25", "a dog called Biscuit")
    assert [one.utterance_id for one in ranked[0].utterances] == ["D1:1", "D1:2", "D1:3"]
    whole = pack_passages(ranked, 100)
    assert whole.text.startswith("1 May 2023\nAnn: I adopted a dog")
    assert whole.tokens == count_tokens(whole.text)
    assert pack_passages(ranked, whole.tokens - 1).utterance_ids == frozenset()


def chat(folder, gold=()):
    """A question about a long answer, and one with two roles."""
    told = [
        ("User", "I keep bees. My hives stand in Graz."),
        (
            "Agent",
            " ".join(f"Remark {n} on feeders and frames." for n in range(30)) + " Order the veil from Imker Ost.",
        ),
        ("User", "I moved the hives to Linz."),
    ]
    rows = [
        {"type": "utterance", "conversation_id": "c", "utterance_id": f"u{n}", "speaker": speaker, "text": text}
        | {"session_id": "s", "at": f"2026-01-01T10:0{n}:00Z"}
        for n, (speaker, text) in enumerate(told)
    ]
    asked = [
        {"question": "Where did you tell me to order the veil?", "speaker": "User", "evidence": ["u1"]}
        | {"answer": "Imker Ost", "conversation_id": "c"},
        {"question": "Where do my hives stand?", "speaker": "User", "evidence": ["u0", "u2"], "answer": "Linz"},
    ]
    for name, lines in (("conversation", rows), ("questions", asked), ("gold", gold)):
        if lines:
            (folder / f"chat-{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder / "chat-conversation.jsonl"


def test_of_a_long_utterance_its_gold_passages_count(tmp_path):
    (loaded,) = with_questions(chat(tmp_path))
    gold = GoldPassages(loaded)
    assert gold.of(loaded.questions[0]) == {"u1": ("Order the veil from Imker Ost.",)}
    shown = PackedMemory("2 Agent: … Order the veil from Imker Ost.", 12, frozenset({"u1"}))
    assert shares_of(loaded.questions[0], gold, shown) == Shares(1.0, 0.0, 1.0, None, None, 1.0)
    other = PackedMemory("2 Agent: Remark 1 on feeders and frames. …", 12, frozenset({"u1"}))
    assert shares_of(loaded.questions[0], gold, other) == Shares(0.0, 0.0, 1.0, None, None, 0.0)


def test_gold_passages_and_roles_are_read_beside_the_questions(tmp_path):
    first = {"question": "Where did you tell me to order the veil?"}
    second = {"question": "Where do my hives stand?", "gold_text": {"u0": ["My hives stand in Graz."]}}
    roles = {"original": ["u0"], "updated": ["u2"]}
    (loaded,) = with_questions(chat(tmp_path, [first, second | {"roles": roles}]))
    gold, asked = GoldPassages(loaded), loaded.questions[1]
    assert gold.of(asked)["u0"] == ("My hives stand in Graz.",)
    old = PackedMemory("1 User: … My hives stand in Graz.", 10, frozenset({"u0"}))
    assert shares_of(asked, gold, old) == Shares(0.5, 0.0, 0.5, None, 0.0, None)
    both = PackedMemory(f"{old.text}\n3 User: I moved the hives to Linz.", 10, frozenset({"u0", "u2"}))
    assert shares_of(asked, gold, both) == Shares(1.0, 0.5, 1.0, None, 1.0, None)
    with pytest.raises(Refused, match="line 1: the line of gold with the same number is about another question"):
        with_questions(chat(tmp_path, [second, first]))


def test_corrected_evidence_is_reported_beside_the_cited(data, tmp_path):
    path = tmp_path / "errata.json"
    wrong = {"sample_id": "one", "question": "Where does Bob work?", "correct_evidence": ["D3:1", "D9:9"]}
    path.write_text(json.dumps([wrong]))
    (loaded,) = with_questions(data, (), path)
    assert [question.corrected for question in loaded.questions] == [("D1:1",), ("D3:1",), ("D2:1",)]
    shown = PackedMemory("1 Bob: I started a new job at the harbour.", 10, frozenset({"D2:1"}))
    assert shares_of(loaded.questions[1], GoldPassages(loaded), shown) == Shares(1.0, 1.0, 1.0, 0.0, None, None)
    path.write_text('[{"question": 1}]')
    with pytest.raises(Refused, match="is not a list of corrections"):
        with_questions(data, (), path)


def test_samples_are_chosen_and_missing_ones_named(data):
    assert [one.conversation_id for one in read_corpus(data)] == ["one", "two"]
    assert [one.conversation_id for one in read_corpus(data, ["two"])] == ["two"]
    with pytest.raises(Refused, match="no conversation 'three'"):
        read_corpus(data, ["three"])
    with pytest.raises(Refused, match="no question names its evidence"):
        with_questions(data, ["two"])


def test_intervals_hold_the_mean_and_repeat():
    shares = [0.0, 1.0, 0.5, 1.0, 0.25]
    low, high = interval(shares)
    assert 0 <= low < percent(shares) < high <= 100
    assert interval(shares) == (low, high)
    assert interval([1.0] * 9) == (100, 100)
    assert interval([]) == (0, 0)


def test_rows_are_means_by_kind():
    def shown(kind, share):
        return Shown("fused", 100, kind, Shares(share, share, share, None, None, None), 10, 1.0)

    plan = RetrievalPlan(budgets=(100,), strategies=(Strategy.FUSED,), baselines=())
    rows = retrieval_rows([shown("a", 1.0), shown("a", 0.5), shown("b", 0.0)], plan)
    assert [(row.kind, row.questions, row.recall) for row in rows] == [
        ("a", 2, (75.0,)),
        ("b", 1, (0.0,)),
        (ALL, 3, (50.0,)),
    ]
    assert (rows[-1].corrected, rows[-1].both_roles, rows[-1].others) == (None, None, None)
    assert (rows[-1].fill, rows[-1].least_fill) == ((10.0,), (10.0,))


def test_the_command_prints_and_writes_a_report(data, tmp_path):
    arguments = ["retrieval", "--data", str(data), "--strategy", "fused", "--budgets", "50,400", "--json"]
    result = CliRunner().invoke(app, [*arguments, "--report", str(tmp_path / "reports")])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert {row["retriever"] for row in rows} == {"fused", *BASELINES}
    assert rows[0]["budgets"] == [50, 400]
    written = json.loads((tmp_path / "reports" / "retrieval.json").read_bytes())
    assert written["rows"] == rows
    assert written["models"] == {"language": "offline", "embedder": "wordllama"}
    assert written["code"]
    assert len(written["data"]["data.json"]) == 64
    assert "| fused | all |" in (tmp_path / "reports" / "retrieval.md").read_text()
    assert (tmp_path / "reports" / "retrieval.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("budgets", ["", "a", "500,-1", "0"])
def test_wrong_budgets_are_refused(data, budgets):
    result = CliRunner().invoke(app, ["retrieval", "--data", str(data), "--budgets", budgets])
    assert result.exit_code == 2
    assert "numbers of tokens" in result.output


@pytest.mark.slow
def test_processes_find_what_one_finds(tmp_path):
    path = tmp_path / "data.json"
    path.write_text(json.dumps([sample("one"), sample("two")]))
    found = []
    for jobs in ("1", "2"):
        arguments = ["retrieval", "--data", str(path), "--strategy", "fused", "--no-baselines", "--json"]
        result = CliRunner().invoke(app, [*arguments, "--jobs", jobs])
        assert result.exit_code == 0, result.output
        found.append([{**row, "milliseconds": 0} for row in json.loads(result.stdout)])
    assert found[0] == found[1]


@pytest.mark.slow
def test_a_process_that_fails_says_why(tmp_path):
    path = tmp_path / "data.json"
    path.write_text(json.dumps([sample("one"), sample("two")]))
    arguments = ["retrieval", "--data", str(path), "--embedder", "nothing", "--jobs", "2"]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, Refused)
    assert "use wordllama" in str(result.exception)
