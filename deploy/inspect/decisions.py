"""Shares of the decisions behind a conversation's state that a model made, and that were made offline in its place."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eunoe.schemas.events import Provenance
from eunoe.workers.derive.digest import StateRow

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DecisionShare:
    """The decisions of one stage for which a model was asked, as far as the state holds them."""

    stage: str
    decisions: int
    """Sessions or turns whose items were decided together."""
    fell_back: int
    """Decisions of which the offline rules made one item at least."""
    items: int
    """Pairs, nodes, sentences."""
    items_offline: int
    """Items that the offline rules decided, for want of a valid answer."""

    @property
    def offline(self) -> float:
        """The share of items decided offline, from 0 to 1."""
        return self.items_offline / self.items if self.items else 0.0


_Session = int | tuple[str, "_Session"] | None
"""A session, or the id of a memory whose session it is, with that which it is where there is no such memory."""


_TABLES: Final = 64
"""More than the tables of a stage."""
_MANY: Final = 2**40
"""More than the sessions of a conversation. One number of both takes less room than a pair."""


class DecisionCount:
    """Counts decisions document by document, in any order of them."""

    def __init__(self) -> None:
        self._sessions: dict[str, int] = {}
        """Id of a document → the session that made it, behind the place of the table that tells it: the last counts."""
        self._found: dict[tuple[str, _Session, Provenance], int] = {}
        self._first: dict[str, tuple[int, int, int]] = {}
        """Stage → the place of its first decision."""
        self._known: dict[Provenance, Provenance] = {}

    def add(self, row: StateRow) -> None:
        """Count the decisions of a document."""
        document = row.document
        if isinstance(document, dict) and isinstance(document.get("session"), int):
            told = (row.place[0] * _TABLES + row.place[1]) * _MANY + document["session"]
            self._sessions[row.id] = max(self._sessions.get(row.id, 0), told)
        for node, session in _walk(document, None):
            made_by = Provenance.model_validate(node["made_by"])
            if made_by.prompt is None:
                continue
            made_by = self._known.setdefault(made_by, made_by)
            stage = made_by.code.partition("/")[0]
            self._first[stage] = min(self._first.get(stage, row.place), row.place)
            key = (stage, session, made_by)
            self._found[key] = self._found.get(key, 0) + 1

    def shares(self) -> list[DecisionShare]:
        """A row for each stage that asked a model, in the order of its first decision in the state.

        The stage is that of the provenance: a memory that stage summarize formed counts there, although stage update
        stores it. Replies and segmentations are no part of the state.
        """
        found: dict[tuple[str, int | None, Provenance], int] = {}
        for (stage, session, made_by), documents in self._found.items():
            key = (stage, self._resolved(session), made_by)
            found[key] = found.get(key, 0) + documents
        return [_share(stage, found) for stage in sorted(self._first, key=self._first.__getitem__)]

    def _resolved(self, session: _Session) -> int | None:
        while isinstance(session, tuple):
            told = self._sessions.get(session[0])
            session = session[1] if told is None else told % _MANY
        return session


def _walk(node: Any, session: _Session) -> Iterator[tuple[Document, _Session]]:  # noqa: ANN401 - JSON
    """All parts of a document with a provenance, each with its session."""
    if isinstance(node, list):
        for part in node:
            yield from _walk(part, session)
    if not isinstance(node, dict):
        return
    session = _session_of(node, session)
    if isinstance(node.get("made_by"), dict):
        yield node, session
    for part in node.values():
        if isinstance(part, dict | list):
            yield from _walk(part, session)


def _session_of(node: Document, above: _Session) -> _Session:
    own = node.get("session", node.get("changed"))
    if isinstance(own, int):
        return own
    if "session" in node or "changed" in node or "newer" not in node:
        return above
    return (str(node["newer"]), above)


def _share(stage: str, found: Mapping[tuple[str, int | None, Provenance], int]) -> DecisionShare:
    mine = [(made_by, documents) for (name, _, made_by), documents in found.items() if name == stage]
    items = [(made_by, made_by.items or documents) for made_by, documents in mine]
    offline = [count if made_by.fallback else made_by.fell_back for made_by, count in items]
    return DecisionShare(
        stage=stage,
        decisions=len(mine),
        fell_back=sum(count > 0 for count in offline),
        items=sum(count for _, count in items),
        items_offline=sum(offline),
    )


def joined(rows: Sequence[DecisionShare]) -> DecisionShare:
    """The sum of the rows of all stages."""
    return DecisionShare(
        stage="all",
        decisions=sum(row.decisions for row in rows),
        fell_back=sum(row.fell_back for row in rows),
        items=sum(row.items for row in rows),
        items_offline=sum(row.items_offline for row in rows),
    )
