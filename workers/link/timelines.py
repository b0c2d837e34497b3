"""Timelines through a retrieved memory (THEANINE, section 2.2, Algorithm 2, equations 9 and 10). Pure.

A timeline is a directed path that starts at the oldest memory of the retrieved memory's component, runs through the
retrieved memory, and ends where no edge goes out. Where the component's oldest memory has no directed path to the
retrieved one (a later memory joined two components), it starts at the oldest ancestor that has.

Paths are never all laid out. From every memory the least number of steps to the start (or to an end) is known, so that
a walk that goes only where the start is still in reach never fails; the paths that are laid out are bounded in number.
The order of branches is a hash of ids: the same graph gives the same timelines, and no branch is preferred.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise

from eunoe.schemas.base import Value
from eunoe.schemas.relations import Relation
from eunoe.workers.link.graph import AgeKey, Vertex
from eunoe.workers.link.settings import TimelineSettings

Steps = Mapping[str, Sequence[str]]
"""Memory id → where one step leads: to older memories, or to newer ones."""
Path = tuple[str, ...]


class Timeline(Value):
    """A raw timeline."""

    memories: tuple[str, ...]
    """Ids, the oldest first."""
    relations: tuple[Relation, ...]
    """How each memory leads to the one after it: one less than memories."""
    retrieved: str
    truncated: bool = False
    """True: a bound on length or reading cut it; it may begin after the oldest memory or end before the last."""
    out_of: int | None = 1
    """How many timelines there were to choose from; None: more than were laid out, or than was read."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What was read around a retrieved memory, which is always part of both."""

    past: Mapping[str, Vertex]
    """The retrieved memory and its ancestors."""
    future: Mapping[str, Vertex]
    """The retrieved memory and its descendants."""
    children: Steps
    """Where the edges of the memories of ``future`` go."""
    oldest: str | None
    """The oldest memory of the component (equation 9); None where it is not known."""

    def relation(self, older: str, newer: str) -> Relation:
        """What the edge between two neighbours says."""
        vertex = self.future.get(newer) or self.past[newer]
        return dict(vertex.older)[older]


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction from the retrieved memory."""

    steps: Steps
    left: Mapping[str, int]
    """The least number of steps to a goal, for the memories from which one is in reach."""


def untangle(retrieved: str, reach: Reach, settings: TimelineSettings) -> list[Timeline]:
    """At most n timelines through ``retrieved``, the same for the same graph; at least one.

    Where the graph has at most ``max_paths`` of at most ``max_length`` memories, n of them are sampled by hash, each
    alike; where there are more, n different ones are drawn branch by branch. Where none is so short, the side that
    is too long is cut, and ``truncated`` says so.
    """
    past, future = _past(reach), _future(reach)
    room = settings.max_length - 1
    behind, ahead = past.left.get(retrieved), future.left.get(retrieved)
    if behind is not None and ahead is not None and behind + ahead <= room:
        paths, out_of = _whole(partial(_paths, retrieved, past, future, room), settings)
        told = out_of if _all_read(past.steps) and _all_read(future.steps) else None
        return [_timeline(path, reach, retrieved, False, told) for path in paths]
    back, on = _share(room, behind, ahead)
    cut = partial(_cut_path, retrieved, (past, back), (future, on))
    return [_timeline(path, reach, retrieved, True, None) for path in _draw(cut, settings)]


def alone(retrieved: str) -> Timeline:
    """The timeline of a memory that the graph does not know (yet)."""
    return Timeline(memories=(retrieved,), relations=(), retrieved=retrieved)


def _past(reach: Reach) -> Direction:
    steps = {id_: [older for older, _ in vertex.older] for id_, vertex in reach.past.items()}
    return Direction(steps, distances(steps, _starts(reach, steps)))


def _starts(reach: Reach, steps: Steps) -> list[str]:
    """The memory where all timelines start; none where it lies beyond what was read."""
    if reach.oldest is not None and reach.oldest in steps:
        return [reach.oldest]
    if not _all_read(steps):
        return []
    orders = {id_: AgeKey(vertex.session, vertex.index, id_) for id_, vertex in reach.past.items()}
    return [min(orders, key=orders.__getitem__)]


def _all_read(steps: Steps) -> bool:
    return all(step in steps for nexts in steps.values() for step in nexts)


def _future(reach: Reach) -> Direction:
    ends = [id_ for id_, vertex in reach.future.items() if not vertex.degree]
    return Direction(reach.children, distances(reach.children, ends))


def distances(steps: Steps, goals: Iterable[str]) -> dict[str, int]:
    """The least number of steps to any goal, for every memory from which one can be reached."""
    back: dict[str, list[str]] = {}
    for id_, nexts in steps.items():
        for next_ in nexts:
            back.setdefault(next_, []).append(id_)
    left = dict.fromkeys(goals, 0)
    queue = deque(left)
    while queue:
        id_ = queue.popleft()
        for before in back.get(id_, ()):
            if before not in left:
                left[before] = left[id_] + 1
                queue.append(before)
    return left


def _share(room: int, behind: int | None, ahead: int | None) -> tuple[int, int]:
    """The steps that past and future get when both do not fit: half each, and what the other does not need."""
    half = room // 2
    if behind is not None and behind <= half:
        return behind, room - behind
    if ahead is not None and ahead <= room - half:
        return room - ahead, ahead
    return half, room - half


def _paths(retrieved: str, past: Direction, future: Direction, room: int, seed: str) -> Iterator[Path]:
    """Every timeline of at most ``room`` steps, lazily."""
    for before in _trails(past, retrieved, room - future.left[retrieved], seed):
        for after in _trails(future, retrieved, room - len(before), seed):
            yield (*reversed(before), retrieved, *after)


def _trails(side: Direction, at: str, room: int, seed: str) -> Iterator[Path]:
    """Every way of at most ``room`` steps from ``at`` to a goal, without ``at``; branches in the order of the seed."""
    if not side.left[at]:
        yield ()
        return
    open_ = [step for step in side.steps[at] if side.left.get(step, room) < room]
    for step in sorted(open_, key=partial(_rank, seed)):
        for rest in _trails(side, step, room - 1, seed):
            yield (step, *rest)


def _whole(lay_out: Callable[[str], Iterator[Path]], settings: TimelineSettings) -> tuple[list[Path], int | None]:
    found = list(islice(lay_out("0"), settings.max_paths + 1))
    if len(found) > settings.max_paths:
        return _draw(lambda seed: next(lay_out(seed)), settings), None
    ranked = sorted(found, key=lambda path: (_rank("path", *path), path))
    return ranked[: settings.timelines], len(found)


def _draw(draw: Callable[[str], Path], settings: TimelineSettings) -> list[Path]:
    """The first n different paths of at most ``max_paths`` draws."""
    drawn: dict[Path, None] = {}
    for number in range(max(settings.max_paths, settings.timelines)):
        drawn.setdefault(draw(str(number)))
        if len(drawn) == settings.timelines:
            break
    return list(drawn)


def _cut_path(retrieved: str, past: tuple[Direction, int], future: tuple[Direction, int], seed: str) -> Path:
    before, after = _reach_or_wander(*past, retrieved, seed), _reach_or_wander(*future, retrieved, seed)
    return (*reversed(before), retrieved, *after)


def _reach_or_wander(side: Direction, room: int, at: str, seed: str) -> Path:
    """A way to a goal within ``room`` steps; where there is none, a way of ``room`` steps towards one."""
    if side.left.get(at, room + 1) <= room:
        return next(_trails(side, at, room, seed))
    way: list[str] = []
    while len(way) < room:
        known = [step for step in side.steps[at] if step in side.steps]
        open_ = [step for step in known if step in side.left] or known
        if not open_:
            break
        at = min(open_, key=partial(_rank, seed))
        way.append(at)
    return tuple(way)


def _rank(seed: str, *ids: str) -> bytes:
    """A place in an order that only the seed and the ids decide."""
    return hashlib.blake2b("\n".join((seed, *ids)).encode(), digest_size=8).digest()


def _timeline(path: Path, reach: Reach, retrieved: str, truncated: bool, out_of: int | None) -> Timeline:
    relations = tuple(reach.relation(older, newer) for older, newer in pairwise(path))
    return Timeline(memories=path, relations=relations, retrieved=retrieved, truncated=truncated, out_of=out_of)
