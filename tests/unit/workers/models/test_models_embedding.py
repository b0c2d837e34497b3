import importlib.util
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunoe.schemas.errors import Refused
from eunoe.workers.models.endpoint.client import Endpoint
from eunoe.workers.models.endpoint.embedding_endpoint import EndpointEmbedderSettings, pack_batches
from eunoe.workers.models.local.embedding import FastembedEmbedder, FastembedSettings, WordLlamaEmbedder
from eunoe.workers.models.local.vectors import unit_rows, widened
from eunoe.workers.text.tokens import count_tokens

EMBEDDER = WordLlamaEmbedder()


@pytest.fixture
def quiet_root() -> Iterator[None]:
    """Importing wordllama configures the root logger; put it back."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = handlers, level


@pytest.mark.usefixtures("quiet_root")
def test_the_vectors_are_those_of_the_package(tmp_path: Path):
    from wordllama import WordLlama  # noqa: PLC0415

    spec = importlib.util.find_spec("wordllama")
    assert spec is not None
    assert spec.submodule_search_locations
    package = WordLlama.load(cache_dir=Path(spec.submodule_search_locations[0]), disable_download=True)
    texts = ["Ann bought three apples", "I never went to Sweden!", "日本語", "a " * 300]
    assert np.allclose(EMBEDDER.embed_now(texts), package.embed(texts, norm=True), atol=1e-5)


def test_loading_touches_neither_the_root_logger_nor_the_package():
    script = (
        "import logging, sys\n"
        "from eunoe.workers.models.local.embedding import WordLlamaEmbedder\n"
        "WordLlamaEmbedder()\n"
        "assert not logging.getLogger().handlers and 'wordllama' not in sys.modules and 'requests' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_every_finite_half_is_widened_bit_for_bit():
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = halves[np.isfinite(halves)]
    assert len(finite) == 63_488
    assert np.array_equal(widened(finite).view(np.uint32), finite.astype(np.float32).view(np.uint32))


@given(st.lists(st.text(max_size=60), max_size=12))
@settings(max_examples=60, deadline=None)
def test_a_row_depends_on_its_text_alone_bit_for_bit(texts: list[str]):
    rows = EMBEDDER.embed_now(texts)
    assert rows.shape == (len(texts), 256)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    for text, row in zip(texts, rows, strict=True):
        assert np.array_equal(EMBEDDER.embed_now([text])[0], row)


def test_a_very_long_text_is_taken_in_parts_and_disturbs_no_neighbour():
    long = "apples and pears " * 10_000
    rows = EMBEDDER.embed_now(["short", long, "", "short"])
    assert np.array_equal(rows[0], rows[3])
    assert np.array_equal(rows[1], EMBEDDER.embed_now([long])[0])
    assert rows[1] @ EMBEDDER.embed_now(["apples and pears"])[0] > 0.95


def test_texts_without_a_known_token_share_one_fixed_row():
    rows = EMBEDDER.embed_now(["", "\ud800"])
    assert rows[0].tolist() == [1.0] + [0.0] * 255
    assert np.isfinite(rows).all()


def test_rows_without_direction_become_the_first_axis():
    rows = unit_rows(np.array([[0.0, 0.0], [3.0, 4.0], [np.nan, np.inf]]))
    assert np.allclose(rows, [[1, 0], [0.6, 0.8], [1, 0]])


def test_finite_rows_among_others_are_those_that_they_are_alone():
    finite = np.random.default_rng(3).standard_normal((4, 256)).astype(np.float32)
    mixed = np.vstack([finite, np.full((1, 256), np.nan), np.zeros((1, 256)), finite * 1e-3]).astype(np.float32)
    rows = unit_rows(mixed)
    assert np.array_equal(rows[:4], unit_rows(finite))
    assert np.array_equal(rows[4:6], np.eye(2, 256, dtype=np.float32)[[0, 0]])
    wide = finite.astype(np.float64)
    assert np.array_equal(rows[:4], (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(np.float32))


@given(st.lists(st.text(min_size=1, max_size=30), max_size=60))
def test_batches_keep_order_and_bounds(texts: list[str]):
    bounds = EndpointEmbedderSettings(Endpoint("m", key="k"), 8, batch_texts=7, batch_tokens=20)
    batches = pack_batches(texts, bounds)
    assert [text for batch in batches for text in batch] == texts
    for batch in batches:
        assert 1 <= len(batch) <= 7
        assert len(batch) == 1 or sum(map(count_tokens, batch)) <= 20


def test_fastembed_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(Refused, match=r"pip install 'eunoe\[fastembed\]'"):
        FastembedEmbedder(FastembedSettings())
