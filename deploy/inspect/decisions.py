"""Shares of the decisions behind a conversation's state that a model made, and that were made offline in its place."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eunoe.schemas.events import Provenance

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


def decision_shares(state: Document) -> list[DecisionShare]:
    """A row for each stage that asked a model, in the order of its first decision in ``state`` (see `StateDigest`).

    The stage is that of the provenance: a memory that stage summarize formed counts there, although stage update
    stores it. Replies and segmentations are no part of the state.
    """
    sessions = _sessions(state)
    found: dict[tuple[str, int | None, Provenance], int] = {}
    for document, session in _documents(state, sessions):
        made_by = Provenance.model_validate(document["made_by"])
        if made_by.prompt is not None:
            key = (made_by.code.partition("/")[0], session, made_by)
            found[key] = found.get(key, 0) + 1
    return [_share(stage, found) for stage in dict.fromkeys(stage for stage, _, _ in found)]


def _sessions(state: Document) -> dict[str, int]:
    """Id of a document → the session that made it, over all tables."""
    return {
        id_: document["session"]
        for part in state.values()
        for table in part.get("tables", {}).values()
        for id_, document in table.items()
        if isinstance(document, dict) and isinstance(document.get("session"), int)
    }


def _documents(state: Document, sessions: Mapping[str, int]) -> Iterator[tuple[Document, int | None]]:
    """All documents with a provenance, each with its session."""
    for part in state.values():
        for table in part.get("tables", {}).values():
            for document in table.values():
                yield from _walk(document, None, sessions)


def _walk(node: Any, session: int | None, sessions: Mapping[str, int]) -> Iterator[tuple[Document, int | None]]:  # noqa: ANN401 - JSON
    if isinstance(node, list):
        for part in node:
            yield from _walk(part, session, sessions)
    if not isinstance(node, dict):
        return
    own = node.get("session", node.get("changed", sessions.get(str(node.get("newer")), session)))
    session = own if isinstance(own, int) else session
    if isinstance(node.get("made_by"), dict):
        yield node, session
    for part in node.values():
        if isinstance(part, dict | list):
            yield from _walk(part, session, sessions)


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
