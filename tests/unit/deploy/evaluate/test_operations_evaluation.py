"""`python -m tests.papers operations`: what it measures, on small files of ours."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eunoe.deploy.evaluate.models import EvalModels
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Provenance
from eunoe.workers.update.operator import Operation, OperationJudgement, OperationVerdict
from tests.papers.__main__ import app
from tests.papers.operations import MODEL_PAIRS, evaluate_file
from tests.papers.replay import replay_file
from tests.papers.roc import Scored, at_threshold, auc, auc_within, best_at_rate
from tests.support.in_memory import HashEmbedder

PAIRS = Path(__file__).parents[3] / "papers" / "pairs"


def dialogue(first: str, last: str, contradicts: bool) -> dict[str, object]:
    turns = [{"text": first, "agent_id": 1}, {"text": "And you?", "agent_id": 0}, {"text": last, "agent_id": 1}]
    return {"turns": turns, "is_contradiction": contradicts}


def write(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_dialogues_and_pairs_are_scored(tmp_path: Path):
    file = write(
        tmp_path / "x.jsonl",
        dialogue("I have a dog.", "I don't have a dog.", True),
        dialogue("I have a dog.", "I like tea.", False),
        {"memory": "Has a cold", "summary": "The cold is gone", "label": "DELETE"},
        {"memory": "Has a dog", "summary": "Likes tea", "label": "APPEND"},
        {"memory": "Has a dog", "summary": "Likes tea", "label": "REPLACE"},
    )
    found = asyncio.run(evaluate_file(file))
    dialogues, pairs = found["contradictions"], found["pairs"]
    assert (dialogues.accuracy, dialogues.f1, dialogues.false_positive_rate) == (1, 1, 0)
    assert (dialogues.auc, dialogues.auc_within_equal_length) == (1, 1)
    assert (pairs.accuracy, pairs.destructive_right) == (2 / 3, 1)
    assert pairs.by_label == {"REPLACE": "0/1", "APPEND": "1/1", "DELETE": "1/1"}
    assert pairs.set_f1 == pytest.approx(2 * 3 / (3 + 4))
    assert [row["label"] for row in pairs.wrong] == ["REPLACE"]


@pytest.mark.parametrize("part", [1, 2])
def test_the_rules_find_most_changes_and_end_hardly_anything_wrongly(part: int):
    """The rules were written with part 1 in sight; part 2 was written after them."""
    pairs = asyncio.run(evaluate_file(PAIRS / f"part-{part}.jsonl"))["pairs"]
    assert pairs.pairs == 60
    assert pairs.accuracy >= 0.75
    assert pairs.destructive_right >= 0.95


class Deleting:
    """Deletes whatever it is asked about."""

    reads_meaning = True

    async def operate(self, pairs):
        verdicts = tuple(OperationVerdict(Operation.DELETE) for _ in pairs)
        return OperationJudgement(verdicts, Provenance(code="update/1", model="deleting"))


async def test_pairs_are_decided_by_an_operator_too(tmp_path: Path):
    pair = {"memory": "Has a cold", "summary": "The cold is gone", "label": "DELETE"}
    file = write(tmp_path / "x.jsonl", pair, {**pair, "label": "APPEND"})
    found = await evaluate_file(file, Deleting())
    assert (found["pairs"].accuracy, found[MODEL_PAIRS].accuracy) == (0.5, 0.5)
    assert found[MODEL_PAIRS].by_label == {"APPEND": "0/1", "DELETE": "1/1"}


@pytest.mark.parametrize("text", ["{", "[]", '{"memory": "a", "summary": "b", "label": "KEEP"}', '{"turns": []}', ""])
def test_other_files_are_refused_with_their_place(tmp_path: Path, text: str):
    file = tmp_path / "x.jsonl"
    file.write_text(text)
    with pytest.raises(Refused, match=r"x\.jsonl"):
        asyncio.run(evaluate_file(file))


LOCOMO = {
    "sample_id": "a",
    "conversation": {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ann", "dia_id": "D1:1", "text": "I moved to Lyon."},
            {"speaker": "Ben", "dia_id": "D1:2", "text": "I adopted a parrot named Kiwi from a shelter."},
        ],
        "session_2_date_time": "1:56 pm on 9 June, 2023",
        "session_2": [{"speaker": "Ann", "dia_id": "D2:1", "text": "I moved to Oslo."}],
    },
}


async def test_a_replay_tells_every_fire_with_both_texts(tmp_path: Path):
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps([LOCOMO]))
    scores = await replay_file(file, EvalModels(HashEmbedder()))
    assert (scores.conversations, scores.ended, scores.dead_letters) == (1, 1, 0)
    (fire,) = scores.fires
    assert (fire.session, fire.kind) == (2, "superseded")
    assert ("Lyon" in fire.memory, "Oslo" in fire.by, bool(fire.because)) == (True, True, True)
    assert scores.share_ended == 1 / scores.memories


def test_the_command_prints_one_object(tmp_path: Path):
    file = write(tmp_path / "x.jsonl", dialogue("I have a dog.", "I don't have a dog.", True))
    result = CliRunner().invoke(app, ["operations", "--data", str(file), "--json"])
    assert result.exit_code == 0, result.output
    assert "contradictions" in json.loads(result.stdout)


def test_curves():
    scored = [Scored(3, True, 1), Scored(1, True, 2), Scored(2, False, 2), Scored(0, False, 1)]
    assert auc(scored) == 0.75
    assert auc_within(scored) == 0.5
    assert at_threshold(scored, 2) == (0.5, 0.5, 0.5)
    assert best_at_rate(scored, 0.0)[2] == 0.0
