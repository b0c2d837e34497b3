"""The fields of a ledger in Redis, and the words of the scripts that change it."""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from eunoe.schemas.decisions import Commit, Ledger, Outbox, Scope
from eunoe.schemas.errors import StateDamaged
from eunoe.schemas.versions import newer_fault
from eunoe.workers.stores.documents.sealed_documents import Stored
from eunoe.workers.stores.redis.keys import Keys

ANY = "*"
"""Stands for any token, in a commit that names none that it was read with."""
SKIPPED = "skipped/"
"""Prefix of the fields of a ledger that name skipped sessions."""
OUTBOX = "outbox/"
"""Prefix of the field of an unsent outbox; its number follows, so that no other one is marked as sent."""


DAMAGED = "damaged"
"""Field that stands in place of all others where a repair found a ledger to be damaged, and has not replaced it yet."""
NUMBERLESS = "outbox"
"""Field of an outbox without its number, as checkouts of before 0.1.0 wrote it: nothing here would send or erase it."""


@contextmanager
def noticing_damage(scope: Scope, keys: Keys, host: str) -> Iterator[None]:
    """Raise `StateDamaged` where the body meets a ledger with something else in place of a number or an outbox.

    A repair replaces the ledger of a stage; that of one request, which it leaves, is to be deleted.
    """
    try:
        yield
    except ValueError as fault:
        if newer_fault(fault) is not None:
            raise
        remedy = "run `eunoe repair` to derive the conversation again"
        if scope.request_id:
            remedy = f"delete it in Redis (DEL {shlex.quote(keys.ledger(scope))})"
        where = f"the ledger of {scope.stage} of {scope.key}"
        raise StateDamaged(f"{where} was changed: {remedy}", f"Redis at {host}") from fault


def read_ledger(fields: Mapping[str, str], outbox: Outbox | None, server: str) -> Ledger:
    """The ledger of its fields in Redis; raises ``ValueError`` where one is no number that should be, or is damaged."""
    for name in (DAMAGED, NUMBERLESS):
        if name in fields:
            raise ValueError(name)
    return Ledger(
        applied=int(fields.get("applied", 0)),
        skipped=frozenset(int(name.removeprefix(SKIPPED)) for name in fields if name.startswith(SKIPPED)),
        outbox=outbox,
        lates=int(fields.get("lates", 0)),
        server=server,
        key=fields.get("key", ""),
        token=fields.get("token", ""),
    )


def shown_by(server: str, thawed: str) -> str:
    """`Ledger.server`: the process, and the token of the conversation's last return from the cold store."""
    return f"{server}/{thawed}"


def commit_words(commit: Commit, token: str, outbox_text: Stored) -> list[str | int | bytes]:
    """The words of a commit, and the token that it leaves; see commit.lua."""
    outbox = commit.outbox
    return [
        commit.expect,
        commit.applied,
        token,
        outbox_text,
        "" if outbox is None else outbox.number,
        int(commit.skip),
        "" if commit.unpark is None else commit.unpark,
    ]


def fence_words(commit: Commit, sealed: str) -> list[str | int]:
    """The words of the fence, which ledger and server must still show; ``sealed``: the id of the data key."""
    server, _, thawed = commit.server.partition("/") if commit.server else ("", "", ANY)
    return [
        commit.lates,
        "" if commit.late is None else commit.late,
        server if commit.checks_server else "",
        sealed,
        thawed,
        ANY if commit.after is None else commit.after,
    ]
