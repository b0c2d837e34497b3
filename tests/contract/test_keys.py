"""Names of keys: no two things share one, and a script's keys share their slot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from eunoe.schemas.decisions import Collection, Scope
from eunoe.schemas.identity import conversation_key
from eunoe.workers.stores.redis.keys import Keys

KEYS = Keys()
parts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("{}:/@!%*?"), min_size=1, max_size=12)
scopes = st.builds(Scope, parts, st.builds(conversation_key, parts, parts), st.just("") | parts)


def names_of(scope: Scope, table: str, number: int) -> list[str]:
    return [
        KEYS.ledger(scope),
        KEYS.table(scope.stage, scope.key, table),
        KEYS.parked_numbers(scope),
        KEYS.parked(scope, number),
    ]


def test_the_names_are_those_that_people_look_for() -> None:
    scope = Scope("segment", "acme/c1")
    assert names_of(scope, "spans", 7) == [
        "eunoe:v1:{acme/c1}:segment",
        "eunoe:v1:{acme/c1}:segment/spans",
        "eunoe:v1:{acme/c1}:segment!parked",
        "eunoe:v1:{acme/c1}:segment!parked/7",
    ]
    assert KEYS.ledger(Scope("respond", "acme/c1", "r 1")) == "eunoe:v1:{acme/c1}:respond@r%201"
    assert KEYS.positions("intake") == "eunoe:v1:{log}:positions"
    assert KEYS.positions("segment", 3) == "eunoe:v1:{log~3}:positions/segment"
    assert KEYS.timers(3) == "eunoe:v1:{log-3}:timers"
    assert KEYS.collection(Collection.SEGMENTS) == "eunoe.v1.segments"


@given(scopes, parts, st.integers(0, 99))
def test_the_keys_of_a_conversation_share_a_slot(scope: Scope, table: str, number: int) -> None:
    slots = {key_slot(name.encode()) for name in names_of(scope, table, number)}
    assert slots == {key_slot(scope.key.encode())}


@given(st.tuples(scopes, parts, st.integers(0, 99)), st.tuples(scopes, parts, st.integers(0, 99)))
def test_different_things_have_different_keys(one: tuple[Scope, str, int], other: tuple[Scope, str, int]) -> None:
    assert len(set(names_of(*one))) == 4
    ledgers_equal = KEYS.ledger(one[0]) == KEYS.ledger(other[0])
    assert ledgers_equal == (one[0] == other[0])
    tables_equal = KEYS.table(one[0].stage, one[0].key, one[1]) == KEYS.table(other[0].stage, other[0].key, other[1])
    assert tables_equal == (one[0].stage == other[0].stage and one[0].key == other[0].key and one[1] == other[1])
    assert not set(names_of(*one)[:2]) & set(names_of(*other)[2:])


@pytest.mark.parametrize("bad", ["", "a:b", "{a}", "a*", "_answers", "a b", "é"])
def test_names_that_would_reach_into_others_are_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="prefix"):
        Keys(prefix=bad)
    with pytest.raises(ValueError, match="generation"):
        Keys(generation=bad)


@pytest.mark.parametrize("bad", ["", "a{b", "}x"])
def test_a_key_that_is_none_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="conversation key"):
        KEYS.ledger(Scope("segment", bad))


@pytest.mark.parametrize(
    ("key", "conversation"),
    [
        ("eunoe:v1:{default/c}:update", "default/c"),
        ("eunoe:v1:{log}:index", None),
        ("eunoe:v2:{default/c}:update", None),
        ("other:v1:{default/c}:update", None),
        ("eunoe:v1:{default/c", None),
        ("a/b", None),
        ("", None),
    ],
)
def test_keys_of_others_belong_to_no_conversation(key: str, conversation: str | None) -> None:
    assert KEYS.conversation_of(key) == conversation
