"""The segmenter without a language model."""

import asyncio
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunoe.schemas.events import Line
from eunoe.schemas.model_ports import Vectors
from eunoe.workers.models.local.embedding import WordLlamaEmbedder
from eunoe.workers.segment.boundaries import CUES, _at, boundaries, gap_scores, long_turns
from eunoe.workers.segment.cohesion import adjacent, margins, standardize
from eunoe.workers.segment.content_words import content_words, novelty, shared
from eunoe.workers.segment.cues import read_cues
from eunoe.workers.segment.offline import OfflineSegmenter
from eunoe.workers.segment.settings import SegmentSettings
from eunoe.workers.segment.spans import exchanges
from eunoe.workers.text.language import is_english

AT = datetime(2026, 3, 1, tzinfo=UTC)

BOAT = [
    "Hi Ada! How is the old boat coming along?",
    "Slowly, the hull of the boat needed new planks and two coats of varnish.",
    "Varnish takes for ever to dry. Is the hull tight now?",
    "Yes, it floats! The mast and the sail are next.",
]
COUSCOUS = [
    "Do you have a good recipe for couscous?",
    "I steam the couscous twice and add butter, chickpeas and raisins.",
    "Raisins in couscous! My family would love that with lamb.",
    "Lamb works, simmer it with the chickpeas for two hours.",
]
TAXI = [
    "I need a taxi to the airport on Friday.",
    "What time does the taxi have to be there?",
    "At 7 am, my flight leaves at 9.",
    "Your taxi is booked, the reference number is K7Q.",
    "Thanks, that's all. Goodbye!",
]


def rows(seed: int, n: int, width: int = 8) -> Vectors:
    found = np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def lines(texts: list[str], speakers: str = "AB") -> list[Line]:
    return [
        Line(utterance_id=f"u{i}", speaker=speakers[i % len(speakers)], text=text, at=AT)
        for i, text in enumerate(texts)
    ]


def covered(spans) -> list[int]:
    return [i for span in spans for i in range(span.first, span.last + 1)]


@pytest.fixture(scope="module")
def embedder():
    model = WordLlamaEmbedder()
    yield model
    asyncio.run(model.aclose())


TEXTS = st.lists(
    st.one_of(st.text(max_size=30), st.sampled_from([*BOAT, *COUSCOUS, *TAXI, "?", "안녕하세요", "¿Qué tal?"])),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.integers(0, 99), st.floats(-20, 20))
def test_any_lines_and_vectors_are_tiled_the_same_twice(texts, seed, threshold):
    vectors = rows(seed, len(texts))
    spans = boundaries(texts, vectors, threshold)
    assert covered(spans) == list(range(len(texts)))
    assert boundaries(list(texts), vectors.copy(), threshold) == spans


@settings(max_examples=30, deadline=None)
@given(TEXTS, st.integers(0, 99), st.text("ABC", min_size=1, max_size=6))
def test_segments_are_made_of_whole_units(texts, seed, speakers):
    said = [line.model_copy(update={"text": "x"}) for line in lines(["x"] * len(texts), speakers)]
    units = exchanges(said)
    spans = boundaries(texts, rows(seed, len(texts)), -50.0, units=units)
    assert covered(spans) == list(range(len(texts)))
    assert {span.first for span in spans} <= {unit.first for unit in units}


def test_equal_vectors_and_no_words_give_one_segment():
    spans = boundaries(["…"] * 6, np.tile(rows(1, 1), (6, 1)), 3.0)
    assert covered(spans) == list(range(6))
    assert len(spans) == 1


def test_a_very_long_session_is_tiled():
    texts = [*BOAT, *COUSCOUS, *TAXI] * 70
    spans = boundaries(texts, rows(5, len(texts)), 3.0)
    assert covered(spans) == list(range(len(texts)))
    assert len(spans) > 70


async def test_topics_of_a_dialogue_are_found(embedder):
    found = await OfflineSegmenter(embedder, SegmentSettings()).segment(lines([*BOAT, *COUSCOUS, *TAXI]))
    assert [span.first for span in found.spans] == [0, 4, 8]
    assert found.made_by.model == embedder.name
    assert not found.made_by.fallback


async def test_other_languages_are_split_by_cohesion(embedder):
    texts = [
        "Das alte Boot braucht neue Planken.",
        "Das Boot bekommt auch neuen Lack und neue Planken.",
        "Der Lack am Boot trocknet langsam.",
        "Das Boot schwimmt, der Lack glänzt.",
        "Couscous mit Rosinen und Kichererbsen schmeckt gut.",
        "Kichererbsen koche ich zwei Stunden für Couscous.",
        "Rosinen und Kichererbsen passen zu Couscous.",
        "Couscous mit Butter und Rosinen ist besser.",
    ]
    assert not is_english(texts)
    found = await OfflineSegmenter(embedder, SegmentSettings()).segment(lines(texts))
    assert [span.first for span in found.spans] == [0, 4]


async def test_a_higher_threshold_never_gives_more_segments(embedder):
    counts = []
    for threshold in (-4.0, 0.0, 3.0, 6.0, 50.0):
        segmenter = OfflineSegmenter(embedder, SegmentSettings(threshold=threshold))
        counts.append(len((await segmenter.segment(lines([*BOAT, *COUSCOUS, *TAXI]))).spans))
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 1


async def test_no_lines_give_no_segments_and_one_line_one(embedder):
    segmenter = OfflineSegmenter(embedder, SegmentSettings())
    assert (await segmenter.segment([])).spans == ()
    assert covered((await segmenter.segment(lines(["Hello!"]))).spans) == [0]


def test_the_margin_is_what_a_boundary_changes():
    standard = np.array([[0, 2, -1, -1], [2, 0, -1, -1], [-1, -1, 0, 2], [-1, -1, 2, 0]], float)

    def worth(*segments: range) -> float:
        return sum(
            sum(standard[i, j] - 0.2 for i in part for j in part if i != j) / len(part) ** 0.5 - 1 for part in segments
        )

    def best(cut: int, wanted: bool) -> float:
        values = []
        for mask in range(8):
            cuts = [gap + 1 for gap in range(3) if mask >> gap & 1]
            if (cut in cuts) == wanted:
                values.append(worth(*(range(a, b) for a, b in zip([0, *cuts], [*cuts, 4], strict=True))))
        return max(values)

    expected = [best(cut, wanted=True) - best(cut, wanted=False) for cut in (1, 2, 3)]
    assert margins(standard, floor=0.2, power=0.5, price=1.0) == pytest.approx(expected)
    assert int(np.argmax(expected)) == 1


def test_similarity_is_relative_to_the_session():
    vectors = rows(3, 12)
    standard = standardize(vectors)
    assert standard.shape == (12, 12)
    assert standard[np.triu_indices(12, 1)].mean() == pytest.approx(0, abs=1e-6)
    assert adjacent(standard).shape == (11,)
    assert not standardize(rows(3, 1)).any()


def test_new_words_tell_a_change_and_shared_ones_deny_it():
    words = content_words([*BOAT, *COUSCOUS], names=["Ada"])
    assert "ada" not in words[0]
    assert int(np.argmax(novelty(words)[1:])) + 1 == 3
    assert shared(words)[3] == shared(words).min() == 0


@pytest.mark.parametrize(
    ("cue", "text"),
    [
        ("greeting", "Hey Sam, long day?"),
        ("opener", "By the way, the shop is closed."),
        ("errand", "Find me a hotel nearby"),
        ("new_question", "Do you have a bicycle?"),
        ("request", "Can you check my calendar"),
        ("thanks", "Thank you so much."),
        ("farewell", "Have a great day!"),
        ("anything_else", "Anything else I can do?"),
        ("done", "It is booked."),
        ("answer", "Yes please."),
        ("personal", "Do you have pets?"),
        ("backward", "I really love that one."),
        ("asks", "Really? Great."),
        ("ends_asking", 'He said "why?"'),
        ("open_question", "Which day?"),
        ("winding_up", "Anything else today?"),
        ("closing", "Bye!"),
    ],
)
def test_a_cue_is_seen_where_it_is_and_not_in_a_plain_line(cue, text):
    both = [text, "We painted the kitchen wall yesterday."]
    marks = read_cues(both, content_words(both, ()), ())[cue]
    assert marks.tolist() == [1.0, 0.0]


def test_every_weighed_cue_is_read():
    assert {cue.name for cue in CUES} <= read_cues(["Hello"], content_words(["Hello"], ()), ()).keys()


def test_long_turns_raise_the_threshold_unless_a_main_speaker_is_terse():
    long, short = "word " * 120, "two words"
    assert long_turns([short] * 4, ["A", "B"] * 2) == 0
    assert long_turns([long] * 4, ["A", "B"] * 2) == pytest.approx(20)
    assert long_turns([long, short] * 2, ["A", "B"] * 2) == 0
    assert long_turns([*[long] * 7, short], [*["A"] * 7, "B"]) == pytest.approx(20)
    assert long_turns([long], ()) == pytest.approx(20)
    assert long_turns([], ()) == 0


def test_one_line_has_no_gap():
    assert gap_scores(["Hello, how are you?"], rows(1, 1)).shape == (0,)


def test_a_cue_at_either_end_of_a_very_long_line_is_seen():
    text = "By the way " + "word " * 20_000 + "do you have a bicycle?"
    cues = read_cues([text], content_words([text], ()), ())
    assert cues["opener"].tolist() == cues["ends_asking"].tolist() == [1.0]


def test_a_cue_counts_for_the_gaps_that_have_a_line_at_its_offset():
    for lines_of_session in range(1, 6):
        strengths = np.arange(1.0, lines_of_session + 1)
        for offset in range(-3, 6):
            gaps = range(lines_of_session - 1)
            expected = [strengths[g + offset] if 0 <= g + offset < lines_of_session else 0.0 for g in gaps]
            assert _at(strengths, offset).tolist() == expected
