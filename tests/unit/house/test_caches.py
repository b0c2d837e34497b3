"""Caches over users' text: bounded by what they hold, whatever the length of the texts."""

import importlib
import pkgutil
import tracemalloc
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from eunoe.workers.link.cues import read_cues
from eunoe.workers.models.local.compression import _traits
from eunoe.workers.respond.recall.feature_cache import TEXT_SHARE, FeatureCache
from eunoe.workers.respond.recall.parse_cache import COPIES, ParseCache
from eunoe.workers.text.caches import CacheBySize, cache_sizes, cached_by_length
from eunoe.workers.text.terms import terms
from eunoe.workers.update.english.contradiction import contradiction_score
from eunoe.workers.update.english.parsing import parse_sentence
from tests.support.in_memory import HashEmbedder, ended, make_pipeline, utterance

MAX_BYTES = 40 << 20
"""The most that one cache of a function over texts may hold."""
MAX_TEXT_CACHES = 100 << 20
"""The most that all of them may hold in one process; half of it where texts are of common length."""
BY_COUNT = {
    "streams.settings._short_hash": "keys of at most 500 bytes",
    "streams.trust.trusted_servers": "has no arguments",
    "workers.link.cues._read_stems": "words of at most 40 characters, with at most eight names",
    "workers.models.local.compression._read_traits": "words of at most 40 characters",
    "workers.models.questions.forms._strict": "answer forms, and those that summarize/form.py bounds",
    "workers.models.questions.reading._example": "answer forms, as in questions/forms.py",
    "workers.models.questions.recording._schema_text": "answer forms, as in questions/forms.py",
    "workers.respond.context._write_date": "days",
    "workers.stores.cold.stores._threads": "has no arguments",
    "workers.stores.documents.term_counts._number": "documents of one number",
    "workers.stores.documents.term_counts._written": "numbers",
    "workers.text.terms._terms_of_word": "ASCII words of at most 40 characters",
    "workers.update.english.parsing._plain_word": "words of at most 40 characters",
    "workers.update.english.parsing._shared_word": "words of at most 40 characters",
    "workers.text.terms._stacked": "has no arguments",
}
"""Caches that are bounded by the number of their entries → the bound of one entry."""
TEXT_CACHES = {"cues", "names", "questions", "sentences", "statements", "words"}
"""The kinds by which `cache_sizes` counts functions over texts and words."""


def modules() -> Iterator[ModuleType]:
    for package in map(importlib.import_module, ("eunoe.workers", "eunoe.streams")):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(found.name)


def defined() -> Iterator[tuple[str, Any]]:
    """Everything at the level of a module, by the name of the module that defines it, without ``eunoe.``."""
    for module in modules():
        for name, value in vars(module).items():
            if getattr(value, "__module__", module.__name__) == module.__name__:
                yield f"{module.__name__}.{name}".removeprefix("eunoe."), value


def test_every_cache_is_bounded_by_what_it_holds():
    by_count = {name for name, value in defined() if hasattr(value, "cache_info")}
    assert by_count == BY_COUNT.keys(), "use cached_by_length for texts, or name the bound of one entry here"
    by_length = {
        name: value.max_bytes for name, value in defined() if isinstance(getattr(value, "max_bytes", None), int)
    }
    assert len(by_length) >= 9
    assert {name for name, most in by_length.items() if most > MAX_BYTES} == set()
    bounds = {name: most for name, (_, most) in cache_sizes().items() if name in TEXT_CACHES}
    assert bounds.keys() == TEXT_CACHES
    assert sum(by_length.values()) < sum(bounds.values()) <= MAX_TEXT_CACHES


async def test_nothing_at_the_level_of_a_module_grows_with_conversations():
    async def talk(number: int) -> None:
        text = f"My sister Zoe{number}x moved to Town{number}y because of her job{number}z. I don't like town{number}y."
        name = f"c{number}"
        await pipeline.produce(utterance(1, text, conversation=name), ended(conversation=name))
        ask = utterance(2, f"Who moved to Town{number}y?", conversation=name, ask={"request_id": f"r{number}"})
        await pipeline.produce(ask)

    def sizes() -> dict[str, int]:
        return {name: len(value) for name, value in defined() if isinstance(value, dict | list | set)}

    pipeline = make_pipeline()
    await talk(1)
    before = sizes()
    assert before
    for number in range(2, 12):
        await talk(number)
    assert sizes() == before


def test_results_of_long_arguments_are_few_or_not_kept():
    calls: list[str] = []

    @cached_by_length("test", len, 2, (3, 100), (10, 2))
    def read(text: str) -> str:
        calls.append(text)
        return text.upper()

    for text in ("abc", "abcd", "abcde", "abcdef", "a" * 11, "abc", "abcdef", "abcd", "a" * 11):
        assert read(text) == text.upper()
    assert calls == ["abc", "abcd", "abcde", "abcdef", "a" * 11, "abcd", "a" * 11]
    assert read.max_bytes == 640
    assert cache_sizes()["test"] == (2 * (3 + 2 * 10), 640)


READ_LATE = (
    "other",
    "named",
    "negated",
    "planned",
    "wished",
    "past",
    "dated",
    "stance",
    "looks_back",
    "size",
    "foreign",
)


def test_parsed_sentences_take_no_more_than_is_counted():
    words = [f"{one}{other}{last}" for one in ("be", "tra", "mil") for other in "aeiouy" for last in ("d", "nt", "ks")]
    sentences = [" ".join(words[(7 * number + place * place) % 54] for place in range(28)) for number in range(200)]
    assert max(map(len, sentences)) <= 200 - len("Ann")
    parse_sentence.__wrapped__(sentences[0], "Ann")  # what is built once
    before = cache_sizes()["sentences"][0]
    tracemalloc.start()
    for sentence in sentences:
        parsed = parse_sentence(sentence, "Ann")
        contradiction_score(parsed, parsed)
        assert parsed.numbers <= parsed.all_stems | parsed.numbers
        assert {type(getattr(parsed, name)) for name in READ_LATE} == {str, frozenset, bool, int}
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0 < taken <= cache_sizes()["sentences"][0] - before


def test_long_words_are_read_and_not_kept():
    def entries() -> dict[str, int]:
        words = ("workers.link.cues._read_stems", "workers.models.local.compression._read_traits")
        return {
            name: value.cache_info().currsize
            for name, value in defined()
            if name in (*words, "workers.text.terms._terms_of_word")
        }

    before = entries()
    assert len(before) == 3
    for number in range(5):
        word = "".join(f"z{number}q{place}" for place in range(100))
        assert terms(word) == [word]
        parse_sentence(word, "Ann")
        read_cues(word, ("Ann", "Ben"))
        _traits(word)
    assert entries() == before


def test_documents_are_kept_by_their_size():
    parsed: list[str] = []

    def parse(text: str) -> str:
        parsed.append(text)
        return text[:1]

    cache = ParseCache(parse, 4 * COPIES * 1000)
    large = [f"{number:04}" + "x" * 996 for number in range(5)]
    for text in (*large, large[-1], large[0]):
        cache(text)
    assert parsed == [*large, large[0]]


def test_a_value_that_is_larger_than_the_cache_is_not_kept():
    cache: CacheBySize[str, str] = CacheBySize(100, "test")
    cache.put("a", "small", 60)
    cache.put("b", "huge", 101)
    assert (cache.get("a"), cache.get("b"), cache.size) == ("small", None, 60)
    cache.put("a", "other", 30)
    assert (cache.get("a"), cache.size) == ("other", 30)


async def test_features_are_kept_by_their_size():
    counted: list[int] = []

    class Counting(HashEmbedder):
        async def embed(self, texts):
            counted.append(len(texts))
            return await super().embed(texts)

    row_bytes = 4 * HashEmbedder().dimensions + 400
    cache = FeatureCache(Counting(), round(2 * row_bytes / TEXT_SHARE))
    await cache.read_vectors(["first", "second", "third"], ("Ann",))
    await cache.read_vectors(["third", "second"], ("Ann",))
    await cache.read_vectors(["first"], ("Ann",))
    assert counted == [3, 1], "two of them have room"
    row = (await cache.read_vectors(["first"], ("Ann",)))["first"]
    assert isinstance(row, np.ndarray)
    assert row.base is None, "a view keeps the vectors of all texts"
