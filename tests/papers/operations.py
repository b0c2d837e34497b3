"""Measures operations on contradictions and on labelled pairs, offline and by a language model.

Contradictions are lines in DECODE's format, ``{"turns": [{"text", "agent_id"}], "is_contradiction"}``: whether the last
turn contradicts an earlier one of its speaker. Pairs are lines ``{"memory", "summary", "label"}``, with the ``speaker``
where the sentences name one; `tests/papers/pairs` holds 120. The length of a
dialogue is not used as a feature.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Line, Provenance
from eunoe.schemas.memory import Memory
from eunoe.workers.update.english.contradiction import SUSPICION_THRESHOLD, find_contradiction
from eunoe.workers.update.english.parsing import parse_sentence
from eunoe.workers.update.english.rules import decide
from eunoe.workers.update.operations import next_memory
from eunoe.workers.update.operator import Operation, OperationPair, OperationVerdict, Operator
from tests.papers.roc import Scored, at_threshold, auc, auc_within, best_at_rate

Row = Mapping[str, Any]
DESTRUCTIVE = frozenset({Operation.REPLACE, Operation.DELETE})
MAX_RATE = 0.10
MODEL_PAIRS = "pairs, by the model"
_SPEAKER = "speaker"
_DAY = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ContradictionScores:
    """Scores of the threshold for suspicion, per dialogue; shares from 0 to 1."""

    dialogues: int
    threshold: float
    accuracy: float
    f1: float
    false_positive_rate: float
    auc: float
    auc_within_equal_length: float
    length_accuracy: float
    """Accuracy of a baseline on the number of turns alone, at a false positive rate of at most 0.10."""
    length_f1: float


@dataclass(frozen=True, slots=True)
class PairScores:
    """Scores of the four-class operator; shares from 0 to 1."""

    pairs: int
    accuracy: float
    by_label: dict[str, str]
    """Gold label → right answers / all."""
    destructive_right: float | None
    """Share of pairs answered REPLACE or DELETE that are labelled so; `None` where there are none."""
    set_f1: float
    """F1 of the sentences that stay, against those that stay by the labels."""
    wrong: list[dict[str, str]]


async def evaluate_file(path: Path, operator: Operator | None = None) -> dict[str, ContradictionScores | PairScores]:
    """Measure what the lines of a file contain; raises `Refused` for lines in another format.

    Pairs are decided by the strict rules, and by ``operator`` too where one is given, as `MODEL_PAIRS`.
    """
    rows = list(_rows(path))
    found: dict[str, ContradictionScores | PairScores] = {}
    dialogues = [row for row in rows if "turns" in row]
    pairs = [row for row in rows if "label" in row]
    if dialogues:
        found["contradictions"] = score_dialogues(dialogues)
    if pairs:
        texts = [(str(row["memory"]), str(row["summary"]), str(row.get("speaker") or _SPEAKER)) for row in pairs]
        found["pairs"] = score_pairs(pairs, [operate(*one) for one in texts])
        if operator is not None:
            verdicts = [await _judged(operator, *one) for one in texts]
            found[MODEL_PAIRS] = score_pairs(pairs, verdicts)
    if len(dialogues) + len(pairs) < len(rows) or not found:
        raise Refused(f"{path}: every line needs 'turns' and 'is_contradiction', or 'memory', 'summary' and 'label'")
    return found


def _rows(path: Path) -> Iterator[Row]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise Refused(f"{path}: cannot be read: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise Refused(f"{path}, line {number}: not JSON: {error.msg}") from None
        if not isinstance(row, dict) or not _formed(row):
            raise Refused(f"{path}, line {number}: neither a dialogue with turns nor a labelled pair")
        yield row


def _formed(row: Row) -> bool:
    if "turns" in row:
        turns = row["turns"]
        formed = isinstance(turns, list) and all(
            isinstance(t, dict) and {"text", "agent_id"} <= t.keys() for t in turns
        )
        return formed and bool(turns) and isinstance(row.get("is_contradiction"), bool)
    texts = (row.get("memory"), row.get("summary"))
    return all(isinstance(text, str) and text.strip() for text in texts) and row.get("label") in _LABELS


_LABELS = frozenset(operation.value for operation in Operation if operation is not Operation.FUSE)


def score_dialogues(rows: Sequence[Row]) -> ContradictionScores:
    """The suspect threshold on dialogues: the last turn against every earlier turn of its speaker."""
    scored = [Scored(_suspicion_of(row), bool(row["is_contradiction"]), len(row["turns"])) for row in rows]
    accuracy, f1, rate = at_threshold(scored, SUSPICION_THRESHOLD)
    lengths = [Scored(each.length, each.positive, each.length) for each in scored]
    base = best_at_rate(lengths, MAX_RATE)
    return ContradictionScores(
        dialogues=len(rows),
        threshold=SUSPICION_THRESHOLD,
        accuracy=accuracy,
        f1=f1,
        false_positive_rate=rate,
        auc=auc(scored),
        auc_within_equal_length=auc_within(scored),
        length_accuracy=base[0],
        length_f1=base[1],
    )


def _suspicion_of(row: Row) -> float:
    *earlier, last = row["turns"]
    own = [str(turn["text"]) for turn in earlier if turn["agent_id"] == last["agent_id"]]
    return max((find_contradiction(text, str(last["text"]), _SPEAKER)[0] for text in own), default=0.0)


def score_pairs(rows: Sequence[Row], answered: Sequence[OperationVerdict]) -> PairScores:
    """Scores of verdicts on labelled pairs."""
    gold = [Operation(row["label"]) for row in rows]
    right = [wanted is verdict.operation for wanted, verdict in zip(gold, answered, strict=True)]
    acted = [
        wanted in DESTRUCTIVE
        for wanted, verdict in zip(gold, answered, strict=True)
        if verdict.operation in DESTRUCTIVE
    ]
    totals, hits = Counter(gold), Counter(wanted for wanted, hit in zip(gold, right, strict=True) if hit)
    return PairScores(
        pairs=len(rows),
        accuracy=sum(right) / len(rows),
        by_label={label.value: f"{hits[label]}/{totals[label]}" for label in Operation if totals[label]},
        destructive_right=sum(acted) / len(acted) if acted else None,
        set_f1=_set_f1(gold, [verdict.operation for verdict in answered]),
        wrong=[
            {
                "memory": str(row["memory"]),
                "summary": str(row["summary"]),
                "label": wanted.value,
                "operation": verdict.operation.value,
                "because": verdict.because,
            }
            for row, wanted, verdict, hit in zip(rows, gold, answered, right, strict=True)
            if not hit
        ],
    )


def operate(memory: str, summary: str, speaker: str = _SPEAKER) -> OperationVerdict:
    """The strict rules' verdict on two sentences about the same person, ``speaker``."""
    found = decide(parse_sentence(memory, speaker), parse_sentence(summary, speaker))
    return found or OperationVerdict(Operation.APPEND, "nothing says otherwise")


async def _judged(operator: Operator, memory: str, summary: str, speaker: str) -> OperationVerdict:
    """The verdict of stage update on one pair."""
    old, new = (_memory(text, session, speaker) for session, text in enumerate((memory, summary), 1))
    return (await operator.operate([OperationPair(old, new)])).verdicts[0]


def _memory(text: str, session: int, speaker: str) -> Memory:
    at = _DAY + timedelta(days=session)
    line = Line(utterance_id=f"u{session}", speaker=speaker, text=text, at=at)
    return Memory(
        memory_id=f"m{session}",
        session=session,
        index=0,
        speaker=speaker,
        text=text,
        evidence=(line,),
        at=at,
        known_from=at,
        made_by=Provenance(code="pair", model="none"),
    )


def _set_f1(gold: Sequence[Operation], answered: Sequence[Operation]) -> float:
    """F1 over all sentences that stay, pair by pair."""
    wanted = [(place, id_) for place, operation in enumerate(gold) for id_ in _staying(operation)]
    found = [(place, id_) for place, operation in enumerate(answered) for id_ in _staying(operation)]
    both = len(set(wanted) & set(found))
    return 2 * both / (len(wanted) + len(found)) if wanted or found else 1.0


def _staying(operation: Operation) -> tuple[str, ...]:
    sets = next_memory(["m"], ["s"], {("m", "s"): OperationVerdict(operation)})
    return (*sets.memories, *sets.sentences)
