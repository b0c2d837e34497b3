"""`eunoe eval segmentation`: metrics against nltk's, baselines, files, splicing."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.metrics.segmentation import pk as nltk_pk
from nltk.metrics.segmentation import windowdiff as nltk_windowdiff
from typer.testing import CliRunner

from eunoe.deploy.cli.eval import app
from eunoe.deploy.evaluate.segbaselines import BASELINES, dynamic, every, none, text_tiling
from eunoe.deploy.evaluate.segmentation import read_dialogues, splice
from eunoe.deploy.evaluate.segmetrics import boundaries_of, f1, half_segment, pk, score, window_diff
from eunoe.schemas.errors import Refused

LENGTHS = st.lists(st.integers(1, 7), min_size=1, max_size=8)


def gaps(lengths):
    """Nltk's form: a mark for each gap between two units."""
    return "".join("0" * (length - 1) + "1" for length in lengths)[:-1]


def fitted(lengths, total):
    """The lengths, cut or filled up to ``total``."""
    kept = []
    for length in lengths:
        if total > 0:
            kept.append(min(length, total))
            total -= kept[-1]
    return [*kept, total] if total else kept


@given(LENGTHS, LENGTHS, st.integers(1, 6))
def test_pk_and_window_diff_are_those_of_nltk(gold, told, window):
    told = fitted(told, sum(gold))
    if sum(gold) <= window + 1:
        return
    assert pk(gold, told, window) == pytest.approx(nltk_pk(gaps(gold), gaps(told), window))
    assert window_diff(gold, told, window) == pytest.approx(nltk_windowdiff(gaps(gold), gaps(told), window))


@given(LENGTHS)
def test_gold_itself_is_perfect(gold):
    assert pk(gold, gold) == window_diff(gold, gold) == 0
    assert f1([(gold, gold)]) == 1
    assert score(1, 0, 0) == 1


def test_f1_counts_boundaries_of_all_dialogues_together():
    assert half_segment([5, 5, 4]) == 2
    # one of two found, none of one, one false
    assert f1([([2, 3, 4], [2, 7]), ([4, 4], [2, 6])]) == pytest.approx(2 * 1 / (3 + 2))
    with pytest.raises(ValueError, match="cannot be compared"):
        pk([3], [4])


def blocks(*lengths):
    """Vectors of topics that have nothing to do with each other."""
    rows = [np.eye(8, dtype=np.float32)[topic] for topic, length in enumerate(lengths) for _ in range(length)]
    noise = np.random.default_rng(1).normal(0, 0.05, (len(rows), 8)).astype(np.float32)
    wide = np.stack(rows) + noise
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)


def test_baselines_cut_as_they_should():
    vectors = blocks(6, 7, 5)
    assert none(vectors) == [18]
    assert every(vectors) == [5, 5, 5, 3]
    assert dynamic(vectors) == [6, 7, 5]
    assert {6, 13} <= boundaries_of(text_tiling(vectors))  # it finds them, and cuts more besides


@pytest.mark.parametrize("name", list(BASELINES))
@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_baselines_tile_what_is_short(name, n):
    assert sum(BASELINES[name](blocks(2, 1)[:n])) == n


def dialogue(**fields):
    row = {"utterances": ["Hello", "My car broke", "Oh no", "Bye"], "segments": [1, 3]}
    return json.dumps({**row, **fields})


def test_both_forms_of_files_are_read(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(dialogue() + "\n\n" + dialogue(speakers=["A", "B", "A", "A"]))
    first, second = read_dialogues(path)
    assert first.speakers == ("A", "B", "A", "B")
    assert second.speakers == ("A", "B", "A", "A")
    path.write_text(f"[{dialogue()}]")
    assert read_dialogues(path) == [first]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[1]", "dialogue 1: needs 'utterances'"),
        (dialogue(segments=[1, 2]), "add up to its 4"),
        (dialogue(segments=[0, 4]), "lengths over 0"),
        (dialogue(speakers=["A"]), "one speaker per utterance"),
        ('{"utterances": [', "line 1: not JSON"),
        ("[]", "holds no dialogue"),
    ],
)
def test_other_files_are_refused(tmp_path, text, fault):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(Refused, match=fault):
        read_dialogues(path)


def conversation(tmp_path, sessions=6, turns=24):
    told = {}
    for number in range(1, sessions + 1):
        told[f"session_{number}_date_time"] = f"1:56 pm on {number} May, 2023"
        told[f"session_{number}"] = [
            {"speaker": "AB"[turn % 2], "dia_id": f"D{number}:{turn}", "text": f"topic{number} word{turn}"}
            for turn in range(turns)
        ]
    path = tmp_path / "talk.json"
    path.write_text(json.dumps([{"sample_id": "s", "conversation": told}]))
    return path


def test_splicing_is_seeded_and_takes_starts_and_middles(tmp_path):
    path = conversation(tmp_path)
    sets = splice(path, 20, seed=3)
    assert sets == splice(path, 20, seed=3) != splice(path, 20, seed=4)
    (_, starts), (_, middles) = sets
    for dialogues, begins in ((starts, {"word0"}), (middles, None)):
        for one in dialogues:
            assert len(one.segments) == 5
            assert all(3 <= length <= 10 for length in one.segments)
            edges = [sum(one.segments[:place]) for place in range(5)]
            assert len({one.texts[edge].split()[0] for edge in edges}) == 5
            first = {one.texts[edge].split()[1] for edge in edges}
            assert first == begins if begins else "word0" not in first


def test_splicing_needs_sessions(tmp_path):
    with pytest.raises(Refused, match="needs 5 sessions"):
        splice(conversation(tmp_path, sessions=4), 1, seed=1)


def test_the_command_measures_and_refuses(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(dialogue() + "\n")
    result = CliRunner().invoke(app, ["segmentation", "--data", str(path), "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [row["segmenter"] for row in rows] == ["eunoe", *BASELINES]
    assert next(row for row in rows if row["segmenter"] == "none")["f1"] == 0
    refused = CliRunner().invoke(app, ["segmentation"])
    assert isinstance(refused.exception, Refused)
