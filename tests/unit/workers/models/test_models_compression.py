import math
import re
import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eunoe.schemas.errors import Refused
from eunoe.workers.models.local import compression
from eunoe.workers.models.local.compression import LLMLINGUA_MODEL, LLMLinguaCompressor, OfflineCompressor, drop_words
from eunoe.workers.text.tokens import count_tokens
from eunoe.workers.text.words import COMMON_WORDS, FILLERS, FUNCTION_WORDS, GIVEN_NAMES, NEGATIONS, NUMBER_WORDS

WORDS = sorted(FILLERS | FUNCTION_WORDS | COMMON_WORDS | {"pottery", "guitar", "Ann", "Sweden", "7", "$4.50", "didn't"})
SENTENCES = st.lists(st.sampled_from([*WORDS, ".", ",", "?", "\n"]), max_size=40).map(" ".join)


def tokens(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


def is_subsequence(part: list[str], whole: list[str]) -> bool:
    left = iter(whole)
    return all(token in left for token in part)


@given(SENTENCES | st.text(max_size=200), st.floats(0.05, 1.0))
@example("\U0001d15e", 1.0)  # composed, it is two characters
@example("the cat " * 15 + "e\u0301" * 16, 0.5)
def test_what_is_left_stood_there_in_that_order_and_is_enough(text: str, keep: float):
    kept = drop_words(text, keep)
    assert is_subsequence(tokens(kept), tokens(text))
    assert count_tokens(kept) >= math.floor(keep * count_tokens(text))
    assert bool(kept.strip()) == bool(text.strip())
    assert drop_words(text, keep) == kept


@given(st.lists(st.sampled_from(sorted(FUNCTION_WORDS - {"one's"} | COMMON_WORDS)), min_size=4, max_size=60))
def test_about_the_share_is_left_of_common_words(words: list[str]):
    plain = [word for word in words if "'" not in word]
    assert count_tokens(drop_words(" ".join(plain), 0.75)) == math.ceil(0.75 * len(plain))


@pytest.mark.parametrize("keep", [0.75, 0.5, 0.1])
def test_names_numbers_negations_and_the_tag_stay(keep: float):
    text = (
        "Caroline: Well, Melanie and I didn't really go to Oslo on May 7th, so we never paid the $4.50 or 30%, "
        "and it was just two of us without Tom. See https://example.org/a?b=1 or mail a.b@example.org, ok?"
    )
    kept = drop_words(text, keep)
    assert kept.startswith("Caroline: ")
    for word in ("Melanie", "Oslo", "May", "7th", "$4.50", "30%", "two", "didn't", "never", "without", "Tom", "?"):
        assert word in kept, word
    assert "https://example.org/a?b=1" in kept
    assert "a.b@example.org" in kept


@pytest.mark.parametrize("name", ["Ann", "Xiomara", "Priya"])
def test_a_name_at_the_start_of_a_sentence_stays(name: str):
    assert name in drop_words(f"It was nice. {name} said that she would come to see us again some time", 0.2)


def test_fillers_go_before_function_words_and_those_before_common_words():
    text = "um I really think the pottery is good"
    assert drop_words(text, 0.75) == "I think the pottery is good"
    assert drop_words(text, 0.375) == "think pottery good"
    assert drop_words(text, 0.12) == "pottery"


def test_words_never_run_together_and_lines_stay_apart():
    assert drop_words("Ann: guitar/the pottery\nBob: the garden is the best", 0.6) == (
        "Ann: guitar pottery\nBob: garden best"
    )


@pytest.mark.parametrize("text", ["Мы вчера ходили в музей с Анной", "昨日は図書館に行きました。", "ذهبت إلى السوق"])
def test_what_the_lists_do_not_know_is_kept(text: str):
    assert drop_words(text, 0.5) == text


@pytest.mark.parametrize("text", ["", " ", "\n", "Hi", "!", "...", "the"])
def test_short_texts_are_left_whole(text: str):
    assert drop_words(text, 0.5) == text


def test_no_word_is_both_protected_and_little():
    assert not (NEGATIONS | NUMBER_WORDS) & (FILLERS | FUNCTION_WORDS | COMMON_WORDS)
    assert all(name == name.lower() for name in GIVEN_NAMES)


async def test_many_texts_are_compressed_each_for_itself():
    texts = [f"I really went to the market {n} times" for n in range(200)]
    compressor = OfflineCompressor()
    assert await compressor.compress(texts, 0.75) == [drop_words(text, 0.75) for text in texts]
    assert compressor.name == "words/1"


def test_llmlingua_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "llmlingua", None)
    with pytest.raises(Refused, match=r"pip install 'eunoe\[llmlingua\]'"):
        LLMLinguaCompressor(LLMLINGUA_MODEL)


def test_a_model_whose_name_llmlingua_cannot_read_is_refused_at_start():
    with pytest.raises(Refused, match="xlm-roberta-large"):
        LLMLinguaCompressor("my/model")


@pytest.mark.parametrize(
    "text",
    [
        "Ma mère a été opérée à Orléans hier et mon père était très énervé parce que le médecin n'était pas là.",
        "Tôi sống ở Thành phố Hồ Chí Minh và làm kỹ sư phần mềm cho một công ty nhỏ.",
    ],
)
def test_decomposed_accents_do_not_cut_words(text: str):
    decomposed = unicodedata.normalize("NFD", text.rstrip("."))
    kept = drop_words(decomposed, 0.75).split()
    assert is_subsequence(kept, decomposed.split())
    assert [word for word in decomposed.split() if not word.isascii()] == [word for word in kept if not word.isascii()]


def test_each_word_is_looked_up_once(monkeypatch: pytest.MonkeyPatch):
    looked_up: list[str] = []
    traits = compression._traits

    def look_up(text: str) -> object:
        looked_up.append(text)
        return traits(text)

    monkeypatch.setattr(compression, "_traits", look_up)
    drop_words("Ann: Well, I just bought a new guitar, and it is really nice.", 0.5)
    assert looked_up == tokens("Ann: Well, I just bought a new guitar, and it is really nice.")
