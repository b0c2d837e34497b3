"""What is kept of a segment in few bytes gives the same as what was computed of it."""

from collections import Counter
from datetime import UTC, datetime

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eunoe.schemas.events import Line, Provenance
from eunoe.schemas.memory import Segment
from eunoe.workers.models.local.vectors import levels, unit_of_levels
from eunoe.workers.respond.fused.scoring_input import ScoringInput
from eunoe.workers.respond.recall.feature_cache import SegmentFeatures
from eunoe.workers.respond.recall.packed_segments import JoinedPassages, StoredSegment, pack_segment
from eunoe.workers.respond.recall.passages import feature_matrix, segment_passages, text_features
from eunoe.workers.text.passages import cut_passages
from eunoe.workers.text.terms import terms

SPEAKERS = ("Ann", "Ben Okri")
AXIS = np.eye(8, dtype=np.float32)[0]
AT = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC)
WORDS = ("boat", "boats", "Lyon", "7", "always", "we", "Ann", "yesterday?", "Köln", "不", "thanks", "Do", "never.")
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
texts = st.one_of(sentences, st.lists(sentences, min_size=40, max_size=60).map(". ".join))
segments = st.lists(st.tuples(texts, st.sampled_from(SPEAKERS), st.booleans()), max_size=5)


def segment_of(said):
    lines = tuple(
        Line(utterance_id=f"u{place}", speaker=speaker, text=text, at=AT, reply_id="r" if is_reply else None)
        for place, (text, speaker, is_reply) in enumerate(said)
    )
    made_by = Provenance(code="1", model="none")
    return Segment(segment_id="s1", session=3, index=2, lines=lines, denoised="", known_from=AT, made_by=made_by)


@settings(max_examples=60, deadline=None)
@given(segments, st.integers(0, 2**32 - 1))
def test_a_packed_segment_gives_what_was_computed(said, seed):
    segment = segment_of(said)
    text = segment.to_json().decode()
    plain = StoredSegment(text, b"", None)
    passages = segment_passages(plain, (3, 2), [cut_passages(line.text) for line in segment.lines])
    features = [text_features(one.text, SPEAKERS) for one in passages]
    rows = levels(np.random.default_rng(seed).standard_normal((len(passages), 8)).astype(np.float32))
    packed = pack_segment(plain, passages, features, rows, np.ones(len(passages), np.float32))
    stored = StoredSegment(text, b"", packed)
    read = SegmentFeatures(stored, packed)
    inputs = ScoringInput([read, read], {})
    assert (stored.segment_id, stored.session, stored.index) == ("s1", 3, 2)
    assert stored.utterance_ids == plain.utterance_ids == segment.utterance_ids
    assert list(read.passages) == list(JoinedPassages([(), read.passages, ()])) == list(passages)
    assert [one.line for one in read.passages] == [one.line for one in passages]
    assert [one.source() for one in read.passages] == [one.source() for one in passages]
    assert np.array_equal(inputs.features, np.tile(feature_matrix(passages, features), (2, 1)))
    assert np.allclose(inputs.cosines(AXIS), np.tile(unit_of_levels(rows)[:, 0], 2), atol=1e-6)
    assert inputs.speakers.tolist() == 2 * [one.line.speaker for one in passages]
    assert inputs.pieces.tolist() == 2 * [len(cut_passages(line.text)) for line in segment.lines]
    assert inputs.tokens.tolist() == 2 * [one.tokens for one in passages]
    assert packed.size > sum(one.nbytes for one in (packed.levels, packed.features))
    wanted = sorted({*terms(" ".join(WORDS)), "nowhere"})
    counted = np.asarray([[Counter(one.counts)[term] for term in wanted] for one in features]).reshape(-1, len(wanted))
    assert np.array_equal(inputs.counts(wanted), np.tile(counted, (2, 1)))
