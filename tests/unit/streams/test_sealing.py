"""The envelope: what is sealed opens under its key and at its place, and nowhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.keys import KEY_BYTES, DataKey
from eunoe.streams.sealed.envelope import Tampered, seal, sealed_name, sealed_names, unseal

secrets = st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES)
keys = st.builds(DataKey, st.just("0" * 32), secrets)
places = st.lists(st.text(max_size=8), max_size=4).map(tuple)
texts = st.binary(max_size=2_000)


@given(keys, texts, places, st.booleans())
def test_what_is_sealed_opens_again(key: DataKey, plain: bytes, place: tuple[str, ...], deflate: bool) -> None:
    assert unseal(key, seal(key, plain, place, deflate=deflate), place) == plain


@given(keys, keys, texts, places)
def test_another_key_opens_nothing(key: DataKey, other: DataKey, plain: bytes, place: tuple[str, ...]) -> None:
    sealed = seal(key, plain, place, deflate=True)
    if other.secret != key.secret:
        with pytest.raises(Tampered, match="not sealed with the key"):
            unseal(other, sealed, place)


@given(keys, texts, places, places)
def test_another_place_opens_nothing(
    key: DataKey, plain: bytes, place: tuple[str, ...], other: tuple[str, ...]
) -> None:
    sealed = seal(key, plain, place, deflate=True)
    if other != place:
        with pytest.raises(Tampered):
            unseal(key, sealed, other)


@given(keys, texts, places, st.data())
def test_a_changed_bit_opens_nothing(key: DataKey, plain: bytes, place: tuple[str, ...], data: st.DataObject) -> None:
    sealed = bytearray(seal(key, plain, place, deflate=True))
    bit = data.draw(st.integers(0, 8 * len(sealed) - 1))
    sealed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Tampered):
        unseal(key, bytes(sealed), place)


@given(keys, texts, st.data())
def test_a_cut_opens_nothing(key: DataKey, plain: bytes, data: st.DataObject) -> None:
    sealed = seal(key, plain, ("a",), deflate=True)
    with pytest.raises(Tampered):
        unseal(key, sealed[: data.draw(st.integers(0, len(sealed) - 1))], ("a",))


@given(keys, texts)
def test_no_two_envelopes_are_equal(key: DataKey, plain: bytes) -> None:
    assert seal(key, plain, (), deflate=True) != seal(key, plain, (), deflate=True)


def test_long_text_is_compressed_before_it_is_sealed() -> None:
    key = DataKey("0" * 32, bytes(KEY_BYTES))
    assert len(seal(key, b"said " * 1_000, (), deflate=True)) < 200
    assert len(seal(key, b"said " * 1_000, (), deflate=False)) > 5_000


@given(keys, keys, st.lists(st.text(max_size=20), unique=True, max_size=6))
def test_names_depend_on_the_key_and_nothing_else(key: DataKey, other: DataKey, names: list[str]) -> None:
    found = sealed_names(key, names)
    assert found == [sealed_name(key, name) for name in names]
    assert len(set(found)) == len(names)
    if other.secret != key.secret:
        assert not set(found) & set(sealed_names(other, names))
