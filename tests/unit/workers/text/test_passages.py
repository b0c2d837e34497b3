"""Passages of a long text: every word in one, in order, none too long; an ordinary text stays whole."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from eunoe.workers.text.passages import GAP, MAX_TOKENS, cut_passages, cut_pieces, excerpt
from eunoe.workers.text.tokens import count_tokens

TEXTS = st.text(st.sampled_from("ab Z.!?…\n\t#-*|`'\"() 1。字가é\u0301"), max_size=600)


@given(TEXTS, st.integers(1, 30))
@example("- \n1", 1)
def test_passages_keep_every_word_in_order(text: str, limit: int):
    spans = cut_passages(text, limit)
    assert "".join(text.split()) == "".join("".join(text[span.start : span.end].split()) for span in spans)
    assert all(one.end <= other.start for one, other in pairwise(spans))
    for span in spans:
        # one word may be longer than a passage; five ideographs are rounded once in a text, and once in each part
        words = text[span.start : span.end].split()
        assert span.tokens <= limit + 1 or len(words) <= 1 or len(spans) == 1


def test_a_text_of_ordinary_length_is_one_passage():
    assert [(span.start, span.end) for span in cut_passages("I moved. It rains.\nWe cook.")] == [(0, 27)]
    assert len(cut_passages("")) == 1


def test_pieces_are_sentences_items_headings_rows_and_lines_of_code():
    prose, items = "First this. Then that, e.g. a 3.5 m rope.", "- one item.\n2. more\n3. third"
    text = f"## Plan\n{prose}\n{items}\n| a | b |\n```\nx = y.z. w\n```\nDone."
    assert [text[span.start : span.end] for span in cut_pieces(text)] == [
        "## Plan",
        "First this.",
        "Then that, e.g. a 3.5 m rope.",
        "- one item.",
        "2. more",
        "3. third",
        "| a | b |",
        "```",
        "x = y.z. w",
        "```",
        "Done.",
    ]


def test_a_heading_begins_a_passage():
    text = "\n".join(["We begin."] * 5 + ["## Steps"] + ["- pack the tent and the stove"] * 20)
    found = [text[span.start : span.end] for span in cut_passages(text)]
    assert found[0] == "\n".join(["We begin."] * 5)
    assert found[1].startswith("## Steps\n- pack")


def test_a_long_word_and_a_long_line_are_cut():
    spans = cut_passages("word " * 1000)
    assert {span.tokens for span in spans[:-1]} == {MAX_TOKENS}
    assert sum(span.tokens for span in spans) == count_tokens("word " * 1000)


@given(TEXTS, TEXTS, st.integers(0, 60))
def test_an_excerpt_shows_parts_of_the_text_in_order_and_marks_its_gaps(text: str, about: str, limit: int):
    shown = excerpt(text, about, limit)
    if count_tokens(text) <= limit:
        assert shown == text
    parts = [part.strip() for part in shown.split(GAP)]
    assert all("".join(part.split()) in "".join(text.split()) for part in parts) or GAP in text


def test_an_excerpt_has_the_passages_that_share_most_with_what_it_is_about():
    told = "The spare key lies under the third step."
    long = f"{'We talked of the weather at length. ' * 300}{told} {'Then it rained again. ' * 300}"
    shown = excerpt(long, "Ann keeps a spare key under a step", 100)
    assert told in shown
    assert shown.startswith((GAP, "We talked"))
    assert count_tokens(shown) <= 100
