"""Commands packed in C are those that redis-py packs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Connection
from redis.exceptions import DataError

from eunoe.deploy.clients.redis_connections import TcpConnection

words = st.lists(st.text(st.characters(exclude_categories=["Cs"])) | st.binary() | st.integers() | st.floats())


@given(name=st.sampled_from(["GET", b"HSET", "CLIENT SETINFO", b"CLIENT SETINFO"]), rest=words)
def test_a_command_has_the_bytes_that_redis_py_gives_it(
    name: str | bytes, rest: list[str | bytes | int | float]
) -> None:
    assert b"".join(TcpConnection().pack_command(name, *rest)) == b"".join(Connection().pack_command(name, *rest))


@pytest.mark.parametrize("word", [None, [1], True])
@pytest.mark.parametrize("kind", [Connection, TcpConnection])
def test_a_word_of_another_type_is_refused(kind: type[Connection], word: object) -> None:
    with pytest.raises(DataError):
        kind().pack_command("GET", word)


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        TcpConnection().pack_command("GET", "\ud800")
