"""BM25 terms and vectors."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.decisions import SparseVector
from eunoe.workers.text import terms as module
from eunoe.workers.text.terms import document_vector, idf, query_vector, term_index, terms

WORDS = st.lists(st.sampled_from(["dog", "cat", "paint", "lake", "run", "guitar", "book", "tea", "swim"]), max_size=25)


def dot(a: SparseVector, b: SparseVector) -> float:
    weights = dict(zip(b.indices, b.values, strict=True))
    return sum(value * weights.get(index, 0.0) for index, value in zip(a.indices, a.values, strict=True))


def test_words_of_one_stem_are_one_term():
    assert terms("She was painting; the paintings, PAINTED") == terms("paint paint paint")


@given(st.text(st.characters(max_codepoint=127)))
def test_words_of_ascii_are_those_of_the_pattern_for_all_scripts(text: str):
    lower = text.lower()
    assert module._ASCII_WORD.findall(lower) == module._WORD.findall(lower)


@given(st.text(st.characters(max_codepoint=127)), st.lists(st.text("abc' "), max_size=3))
def test_terms_of_ascii_do_not_change_beside_another_script(text: str, names: list[str]):
    assert terms(f"{text} あ", names) == [*terms(text, names), "あ"]


def test_stop_words_and_names_are_left_out():
    assert terms("Hey Caroline, did Caroline’s dog like it?", drop=["Caroline"]) == ["dog", "like"]
    assert terms("Mary Ann's boat", drop=["Mary Ann"]) == ["boat"]


def test_width_case_and_accents_in_one_form():
    assert terms("ＣＡＦＥ\u0301 Ⅳ") == ["café", "iv"]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("커피", "저는 커피를 좋아해요"),
        ("咖啡", "我每天早上喝咖啡"),
        ("猫", "うちの猫が好きです"),
        ("แมว", "ฉันรักแมวมาก"),
        ("пианино", "Я играю на пианино."),
        ("हिन्दी", "मुझे हिन्दी पसंद है"),
        ("iPhone15", "iPhone15を買った"),
    ],
)
def test_other_scripts_are_found(question, text):
    assert set(terms(question)) & set(terms(text))


def test_a_vowel_sign_does_not_break_a_word():
    assert terms("हिन्दी") == ["हिन्दी"]


@given(st.text(max_size=80))
def test_any_text_gives_terms_that_can_be_sent(text):
    found = terms(text)
    assert all(found)
    vector = document_vector(found, 10.0)
    assert list(vector.indices) == sorted(set(vector.indices))
    assert all(0 <= index < 2**32 for index in vector.indices)
    assert terms(text) == found


def test_an_index_never_changes():
    assert term_index("paint") == 1467646999


@given(st.lists(WORDS, min_size=1, max_size=8), WORDS, st.floats(1.0, 40.0))
def test_the_dot_product_is_bm25(corpus, question, average):
    frequency = Counter(word for document in corpus for word in set(document))
    query = query_vector(question, frequency, len(corpus))
    for document in corpus:
        counts = Counter(document)
        direct = sum(
            math.log(1 + (len(corpus) - frequency[word] + 0.5) / (frequency[word] + 0.5))
            * counts[word]
            * 2.2
            / (counts[word] + 1.2 * (1 - 0.75 + 0.75 * len(document) / average))
            for word in question
        )
        assert dot(query, document_vector(document, average)) == pytest.approx(direct)


def test_terms_of_one_index_add_up(monkeypatch):
    apart = document_vector(["dog", "cat", "cat"], 5.0)
    monkeypatch.setattr(module, "term_index", lambda term: 7)
    together = document_vector(["dog", "cat", "cat"], 5.0)
    assert together.indices == (7,)
    assert together.values[0] == pytest.approx(sum(apart.values))


def test_a_rare_term_tells_more_and_none_tells_less_than_nothing():
    assert idf(1, 10) > idf(9, 10) > idf(10, 10) > 0


def test_impossible_numbers_are_refused():
    with pytest.raises(ValueError, match="average_length"):
        document_vector(["dog"], 0)
    with pytest.raises(ValueError, match="cannot occur in 3 of 2"):
        idf(3, 2)


def test_frequencies_read_after_another_session_came_in_raise_the_number_of_documents():
    assert query_vector(["dog"], {"dog": 3}, 2) == query_vector(["dog"], {"dog": 3}, 3)


def test_nothing_gives_an_empty_vector():
    assert document_vector([], 10.0) == query_vector([], {}, 0) == SparseVector()
