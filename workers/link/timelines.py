"""Timelines through a retrieved memory (THEANINE, section 2.2, Algorithm 2, equations 9 and 10).

A timeline is a directed path through the retrieved memory. It starts at the oldest memory of the component and ends at
one without outgoing edges. If no directed path leads from the oldest memory to the retrieved one (a later memory joined
two components), it starts at the oldest ancestor.

The number of enumerated paths is bounded. The distance of every memory to the start (or to an end) is computed first,
so that a walk takes only steps from which it can still arrive. Branches are ordered by a hash of ids: the same graph
gives the same timelines, without preferring a branch.
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

Neighbours = Mapping[str, Sequence[str]]
"""Memory id → the memories one step away, in one direction."""
Path = tuple[str, ...]


class Timeline(Value):
    """A raw timeline."""

    memories: tuple[str, ...]
    """Memory ids, oldest first."""
    relations: tuple[Relation, ...]
    """The relation of each memory to the next: one less than ``memories``."""
    retrieved: str
    truncated: bool = False
    """Whether a bound on length or reading cut it: it may begin after the oldest memory or end before the last."""


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The vertices read around a retrieved memory, which is in both maps."""

    past: Mapping[str, Vertex]
    """The retrieved memory and its ancestors."""
    future: Mapping[str, Vertex]
    """The retrieved memory and its descendants."""
    children: Neighbours
    """Memory id → ids its outgoing edges lead to, for the memories of ``future``."""
    oldest: str | None
    """The oldest memory of the component (equation 9); `None` if unknown."""

    def relation(self, older: str, newer: str) -> Relation:
        """The relation of the edge between two neighbours."""
        vertex = self.future.get(newer) or self.past[newer]
        return dict(vertex.older)[older]


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction from the retrieved memory: towards the start, or towards an end."""

    steps: Neighbours
    distance: Mapping[str, int]
    """Memory id → least number of steps to a goal, for memories that can reach one."""


def untangle(retrieved: str, around: Neighbourhood, settings: TimelineSettings) -> list[Timeline]:
    """From one to n timelines through ``retrieved``, the same for the same graph.

    If the graph has at most ``max_paths`` paths of at most ``max_length`` memories, n of them are sampled by hash with
    equal chance. If it has more, n different ones are drawn branch by branch. If all are longer, the longer side is cut
    and ``truncated`` is set.
    """
    past, future = _past(around), _future(around)
    max_steps = settings.max_length - 1
    behind, ahead = past.distance.get(retrieved), future.distance.get(retrieved)
    fits = behind is not None and ahead is not None and behind + ahead <= max_steps
    if fits:
        paths = _sample(partial(_paths, retrieved, past, future, max_steps), settings)
    else:
        back, on = _split_steps(max_steps, behind, ahead)
        paths = _draw(partial(_cut_path, retrieved, (past, back), (future, on)), settings)
    return [_timeline(path, around, retrieved, truncated=not fits) for path in paths]


def single_memory(retrieved: str) -> Timeline:
    """The timeline of a memory that is not in the graph (yet)."""
    return Timeline(memories=(retrieved,), relations=(), retrieved=retrieved)


def _past(around: Neighbourhood) -> Direction:
    steps = {id_: [older for older, _ in vertex.older] for id_, vertex in around.past.items()}
    return Direction(steps, distances(steps, _starts(around, steps)))


def _starts(around: Neighbourhood, steps: Neighbours) -> list[str]:
    """The memory where all timelines start; empty if it was not read."""
    if around.oldest is not None and around.oldest in steps:
        return [around.oldest]
    if any(step not in steps for nexts in steps.values() for step in nexts):
        return []
    orders = {id_: AgeKey(vertex.session, vertex.index, id_) for id_, vertex in around.past.items()}
    return [min(orders, key=orders.__getitem__)]


def _future(around: Neighbourhood) -> Direction:
    ends = [id_ for id_, vertex in around.future.items() if not vertex.degree]
    return Direction(around.children, distances(around.children, ends))


def distances(steps: Neighbours, goals: Iterable[str]) -> dict[str, int]:
    """Memory id → least number of steps to a goal, for memories that can reach one."""
    back: dict[str, list[str]] = {}
    for id_, nexts in steps.items():
        for next_ in nexts:
            back.setdefault(next_, []).append(id_)
    distance = dict.fromkeys(goals, 0)
    queue = deque(distance)
    while queue:
        id_ = queue.popleft()
        for before in back.get(id_, ()):
            if before not in distance:
                distance[before] = distance[id_] + 1
                queue.append(before)
    return distance


def _split_steps(max_steps: int, behind: int | None, ahead: int | None) -> tuple[int, int]:
    """The steps for past and future if both do not fit: half each, plus what the other does not need."""
    half = max_steps // 2
    if behind is not None and behind <= half:
        return behind, max_steps - behind
    if ahead is not None and ahead <= max_steps - half:
        return max_steps - ahead, ahead
    return half, max_steps - half


def _paths(retrieved: str, past: Direction, future: Direction, max_steps: int, seed: str) -> Iterator[Path]:
    """Yield every timeline of at most ``max_steps`` steps."""
    for before in _branches(past, retrieved, max_steps - future.distance[retrieved], seed):
        for after in _branches(future, retrieved, max_steps - len(before), seed):
            yield (*reversed(before), retrieved, *after)


def _branches(direction: Direction, at: str, max_steps: int, seed: str) -> Iterator[Path]:
    """Yield every path of at most ``max_steps`` steps from ``at`` to a goal, without ``at``, ordered by the seed."""
    if not direction.distance[at]:
        yield ()
        return
    open_ = [step for step in direction.steps[at] if direction.distance.get(step, max_steps) < max_steps]
    for step in sorted(open_, key=partial(_rank, seed)):
        for rest in _branches(direction, step, max_steps - 1, seed):
            yield (step, *rest)


def _sample(lay_out: Callable[[str], Iterator[Path]], settings: TimelineSettings) -> list[Path]:
    found = list(islice(lay_out("0"), settings.max_paths + 1))
    if len(found) > settings.max_paths:
        return _draw(lambda seed: next(lay_out(seed)), settings)
    ranked = sorted(found, key=lambda path: (_rank("path", *path), path))
    return ranked[: settings.timelines]


def _draw(draw: Callable[[str], Path], settings: TimelineSettings) -> list[Path]:
    """The first n different paths of at most ``max_paths`` draws."""
    drawn: dict[Path, None] = {}
    for number in range(max(settings.max_paths, settings.timelines)):
        drawn.setdefault(draw(str(number)))
        if len(drawn) == settings.timelines:
            break
    return list(drawn)


def _cut_path(retrieved: str, past: tuple[Direction, int], future: tuple[Direction, int], seed: str) -> Path:
    before, after = _partial_path(*past, retrieved, seed), _partial_path(*future, retrieved, seed)
    return (*reversed(before), retrieved, *after)


def _partial_path(direction: Direction, max_steps: int, at: str, seed: str) -> Path:
    """A path to a goal within ``max_steps`` steps, or one of ``max_steps`` steps towards a goal."""
    if direction.distance.get(at, max_steps + 1) <= max_steps:
        return next(_branches(direction, at, max_steps, seed))
    taken: list[str] = []
    while len(taken) < max_steps:
        known = [step for step in direction.steps[at] if step in direction.steps]
        open_ = [step for step in known if step in direction.distance] or known
        if not open_:
            break
        at = min(open_, key=partial(_rank, seed))
        taken.append(at)
    return tuple(taken)


def _rank(seed: str, *ids: str) -> bytes:
    """A sort key that depends on the seed and the ids only."""
    return hashlib.blake2b("\n".join((seed, *ids)).encode(), digest_size=8).digest()


def _timeline(path: Path, around: Neighbourhood, retrieved: str, *, truncated: bool) -> Timeline:
    relations = tuple(around.relation(older, newer) for older, newer in pairwise(path))
    return Timeline(memories=path, relations=relations, retrieved=retrieved, truncated=truncated)
