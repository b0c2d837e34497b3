"""Measures topic segmentation: the segmenter of stage segment beside simple ones.

Data is a JSON list, or JSON lines, of ``{"utterances": [text, …], "segments": [length, …], "speakers": [name, …]}``;
speakers are optional. Or it is a LoCoMo file, of whose sessions dialogues are spliced.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from eunoe.deploy.evaluate.corpus import read_corpus
from eunoe.deploy.evaluate.report import BarChart
from eunoe.deploy.evaluate.segbaselines import BASELINES
from eunoe.deploy.evaluate.segmetrics import f1, pk, score, window_diff
from eunoe.deploy.progress import Advance
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Line, Utterance
from eunoe.schemas.model_ports import Embedder
from eunoe.workers.segment.segmenter import Segmenter

OURS = "eunoe"
"""The offline segmenter."""
CHUNKS, SHORTEST, LONGEST = 5, 3, 10
"""A spliced dialogue: number of chunks, each from another session, and the range of their lengths in turns."""
STARTS, MIDDLES = "session starts", "session middles"
_FIRST = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A dialogue with the lengths of its gold segments."""

    texts: tuple[str, ...]
    speakers: tuple[str, ...]
    segments: tuple[int, ...]

    def lines(self) -> tuple[Line, ...]:
        """The dialogue as the lines of a session."""
        return tuple(
            Line(utterance_id=f"u{place}", speaker=speaker, text=text or "…", at=_FIRST + timedelta(seconds=30 * place))
            for place, (text, speaker) in enumerate(zip(self.texts, self.speakers, strict=True))
        )


@dataclass(frozen=True, slots=True)
class SegmentationRow:
    """One segmenter on one set: means over dialogues, F1 over all boundaries."""

    data: str
    segmenter: str
    dialogues: int
    pk: float
    window_diff: float
    f1: float
    score: float
    segment_length: float
    """Mean number of lines of a segment."""


async def evaluate_segmentation(
    sets: Sequence[tuple[str, Sequence[Dialogue]]],
    segmenters: Mapping[str, Segmenter],
    embedder: Embedder,
    advance: Advance = lambda: None,
) -> list[SegmentationRow]:
    """One row for each set and segmenter, ``segmenters`` first; ``advance`` is called for each dialogue."""
    rows = []
    for name, dialogues in sets:
        found: dict[str, list[tuple[Sequence[int], Sequence[int]]]] = {way: [] for way in (*segmenters, *BASELINES)}
        for dialogue in dialogues:
            for way, segmenter in segmenters.items():
                spans = (await segmenter.segment(dialogue.lines())).spans
                found[way].append((dialogue.segments, [span.last - span.first + 1 for span in spans]))
            vectors = await embedder.embed(dialogue.texts)
            for way, cut in BASELINES.items():
                found[way].append((dialogue.segments, cut(vectors)))
            advance()
        rows += [_row(name, way, pairs) for way, pairs in found.items()]
    return rows


def _row(name: str, way: str, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> SegmentationRow:
    n = len(pairs)
    p_k = sum(pk(gold, predicted) for gold, predicted in pairs) / n
    difference = sum(window_diff(gold, predicted) for gold, predicted in pairs) / n
    boundary_f1 = f1(pairs)
    return SegmentationRow(
        data=name,
        segmenter=way,
        dialogues=n,
        pk=round(p_k, 3),
        window_diff=round(difference, 3),
        f1=round(boundary_f1, 3),
        score=round(score(boundary_f1, p_k, difference), 3),
        segment_length=round(
            sum(sum(predicted) for _, predicted in pairs) / sum(len(predicted) for _, predicted in pairs), 1
        ),
    )


def read_dialogues(path: Path) -> list[Dialogue]:
    """The dialogues of a file; raises `Refused` with the place of the first malformed one."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Refused(f"{path}: cannot be read: {error.strerror}") from None
    found = [_dialogue(row, f"{path}, dialogue {place}") for place, row in enumerate(_rows(data, path), 1)]
    if not found:
        raise Refused(f"{path}: holds no dialogue")
    return found


def _rows(data: bytes, path: Path) -> Iterator[Any]:
    if data.lstrip().startswith(b"["):
        try:
            yield from orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise Refused(f"{path}, line {error.lineno}: not JSON: {error.msg}") from None
        return
    for number, line in enumerate(data.splitlines(), 1):
        try:
            if line.strip():
                yield orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise Refused(f"{path}, line {number}: not JSON: {error.msg}") from None


def _dialogue(row: Any, where: str) -> Dialogue:  # noqa: ANN401 - any JSON
    fields: Any = row if isinstance(row, dict) else {}
    texts, lengths = fields.get("utterances"), fields.get("segments")
    if not (_all(texts, str) and _all(lengths, int)):
        raise Refused(f"{where}: needs 'utterances' (texts) and 'segments' (their lengths)")
    if sum(lengths) != len(texts) or min(lengths) < 1:
        raise Refused(f"{where}: 'segments' must be lengths over 0 that add up to its {len(texts)} utterances")
    names = fields.get("speakers") or [("A", "B")[place % 2] for place in range(len(texts))]
    if not _all(names, str) or len(names) != len(texts):
        raise Refused(f"{where}: 'speakers' must name one speaker per utterance")
    return Dialogue(tuple(texts), tuple(names), tuple(lengths))


def _all(values: Any, kind: type) -> bool:  # noqa: ANN401 - any JSON
    return isinstance(values, list) and bool(values) and all(isinstance(value, kind) for value in values)


def splice(path: Path, count: int, seed: int) -> list[tuple[str, list[Dialogue]]]:
    """Two sets of ``count`` dialogues, spliced from the starts and from the middles of sessions.

    Each dialogue has `CHUNKS` chunks of one conversation. Raises `Refused` where sessions are too few or too short.
    """
    conversations = [_sessions(loaded.utterances) for loaded in read_corpus(path)]
    usable = [sessions for sessions in conversations if len(sessions) >= CHUNKS]
    if not usable:
        raise Refused(f"{path}: splicing needs {CHUNKS} sessions of over {LONGEST + SHORTEST} turns in a conversation")
    sets = []
    for name in (STARTS, MIDDLES):
        # one seed for each set; no security depends on it
        draw = random.Random(f"{seed}:{name}")  # noqa: S311
        sets.append((f"spliced {path.stem}, {name}", [_spliced(draw, usable, name) for _ in range(count)]))
    return sets


def _sessions(utterances: Sequence[Utterance]) -> list[list[Utterance]]:
    found = [list(group) for _, group in groupby(utterances, lambda one: one.session_id)]
    return [session for session in found if len(session) > LONGEST + SHORTEST]


def _spliced(draw: random.Random, usable: Sequence[list[list[Utterance]]], name: str) -> Dialogue:
    chunks = [_chunk(draw, session, name) for session in draw.sample(draw.choice(usable), CHUNKS)]
    said = [one for chunk in chunks for one in chunk]
    return Dialogue(
        tuple(one.text for one in said), tuple(one.speaker for one in said), tuple(len(chunk) for chunk in chunks)
    )


def _chunk(draw: random.Random, session: Sequence[Utterance], name: str) -> Sequence[Utterance]:
    length = draw.randint(SHORTEST, LONGEST)
    start = 0 if name == STARTS else draw.randint(SHORTEST, len(session) - length)
    return session[start : start + length]


def segmentation_bars(rows: Sequence[SegmentationRow]) -> BarChart:
    """Bars of Pk by set, one for each segmenter."""
    sets = tuple(dict.fromkeys(row.data for row in rows))
    ways = dict.fromkeys(row.segmenter for row in rows)
    series = {way: [row.pk for row in rows if row.segmenter == way] for way in ways}
    return BarChart("Topic segmentation (lower is better)", "Pk", sets, series)
