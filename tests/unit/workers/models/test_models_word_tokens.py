from pathlib import Path
from threading import Thread

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from eunoe.workers.models.local.embedding import _wheel_folder
from eunoe.workers.models.local.word_tokens import _MOST_CHARS, SPACE, UNKNOWN, WordTokens
from eunoe.workers.text.caches import CacheBySize

TOKENIZER = Tokenizer.from_file(
    str(Path(_wheel_folder()) / "tokenizers" / "l2_supercat_tokenizer_config.json"),
)
TOKENIZER.no_padding()
TOKENIZER.no_truncation()
WORDS = WordTokens(TOKENIZER)
ODD = (
    "<s>",
    "</s>",
    "<unk>",
    SPACE,
    f"{SPACE}{SPACE}",
    "",
    "\n",
    "\t",
    "\u00a0",
    "日本",
    "e\u0301",
    "😀",
    "x" * 60,
    "number",
)


def whole(text: str) -> list[int]:
    """The tokens of a text, read as a whole."""
    return [token for token in TOKENIZER.encode(text, add_special_tokens=False).ids if token != UNKNOWN]


def test_no_token_reaches_over_the_begin_of_a_word():
    assert [token for token in TOKENIZER.get_vocab() if SPACE in token.lstrip(SPACE)] == []


@given(st.lists(st.lists(st.one_of(st.text(max_size=12), st.sampled_from(ODD)), max_size=8).map(" ".join), max_size=6))
@example([" leading", "trailing ", "two  spaces", " ", ""])
@example(["a<s> b", f"a{SPACE} b", "a b", "b a"])
@settings(max_examples=300, deadline=None)
def test_the_tokens_of_words_are_those_of_the_whole_text(texts: list[str]):
    assert WORDS.of(texts) == [whole(text) for text in texts]
    assert WORDS.of(texts) == [whole(text) for text in texts], "kept words too"


def test_words_are_kept_up_to_a_size_and_long_ones_not_at_all(monkeypatch: pytest.MonkeyPatch):
    words = WordTokens(TOKENIZER)
    words.of(["y" * (_MOST_CHARS + 1)])
    assert words._kept.size == 0
    kept: CacheBySize[str, tuple[int, ...]] = CacheBySize(5_000, "test")
    monkeypatch.setattr(words, "_kept", kept)
    texts = [f"word{number} and word{number + 1}" for number in range(100)]
    assert words.of(texts) == [whole(text) for text in texts]
    assert 4_000 < kept.size <= 5_000


def test_threads_read_at_the_same_time():
    words = WordTokens(TOKENIZER)
    texts = [f"some {number} words of {number % 7} texts" for number in range(300)]
    found: dict[int, list[list[int]]] = {}
    threads = [Thread(target=lambda place=place: found.update({place: words.of(texts)})) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[place] for place in range(4)] == [[whole(text) for text in texts]] * 4
