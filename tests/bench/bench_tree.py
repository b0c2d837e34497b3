"""Benchmark of insertions into a growing tree: comparisons, touched nodes, model calls, depth, fan-out.

    python tests/bench/bench_tree.py --data LINES.json [--plot tree.png] [--json]

``LINES.json``: ``[{"summary": {"id": "a memory", …}}, …]``; the lines are varied so that none repeats.
"""

import argparse
import asyncio
import itertools
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from eunoe.schemas.model_ports import Vectors
from eunoe.workers.models.local.embedding import WordLlamaEmbedder
from eunoe.workers.tree.aggregates import tasks_of
from eunoe.workers.tree.nodes import ROOT, TreeNode
from eunoe.workers.tree.offline import OfflineAggregator
from eunoe.workers.tree.prompt import split_tasks
from eunoe.workers.tree.settings import TreeSettings
from eunoe.workers.tree.tree import Insertion, LeafEntry, WorkingTree, base_threshold, insert

SESSION = 5
"""Entries of one session."""
MONTHS = ("January", "March", "April", "June", "July", "August", "September", "October", "November", "December")
PLACES = ("Lisbon", "Oslo", "Porto", "Turin", "Ghent", "Graz", "Leeds", "Nantes", "Brno", "Cork", "Bern", "Riga")
AT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Measured:
    """A tree of ``size`` leaves; means are over its last insertions (a tenth, at most 1,000)."""

    size: int
    comparisons: float
    touched: float
    """Ancestors touched by one insertion."""
    touched_in_session: float
    """Distinct nodes touched by a session of `SESSION` insertions."""
    calls: float
    """Model calls per insertion, if a model aggregated."""
    diverted: float
    """Full nodes that diverted an insertion to a child below the threshold."""
    mean_depth: float
    max_depth: int
    mean_fan_out: float
    max_fan_out: int
    root_fan_out: int
    nodes: int
    seconds: float
    """Seconds since the start, embedding and extracts included."""


@dataclass
class CachingEmbedder:
    """An embedder that embeds each text once."""

    inner: WordLlamaEmbedder = field(default_factory=WordLlamaEmbedder)
    kept: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def dimensions(self) -> int:
        return self.inner.dimensions

    async def embed(self, texts: Sequence[str]) -> Vectors:
        missing = [text for text in dict.fromkeys(texts) if text not in self.kept]
        if missing:
            self.kept |= dict(zip(missing, self.inner.embed_now(missing), strict=True))
        return np.stack([self.kept[text] for text in texts]) if texts else np.empty((0, self.dimensions), np.float32)


def varied_lines(path: Path) -> Iterator[str]:
    """The lines of the file, then each with a month and a place appended, another pair in every round."""
    lines = list(dict.fromkeys(line for one in json.loads(path.read_text()) for line in one["summary"].values()))
    pairs = [f"in {place} in {month}" for month in MONTHS for place in PLACES]
    yield from lines
    for turn in range(len(pairs)):
        for place, line in enumerate(lines):
            yield f"{line.rstrip('.')} {pairs[(7 * turn + place) % len(pairs)]}."


async def measure(lines: Iterator[str], sizes: Sequence[int]) -> list[Measured]:
    settings, embedder = TreeSettings(), CachingEmbedder()
    aggregator = OfflineAggregator(embedder, settings)
    growth = WorkingTree(0, str)
    base, started, done = settings.early_threshold, time.perf_counter(), 0
    inserted: list[Insertion] = []
    sessions: list[tuple[int, int]] = []
    found: list[Measured] = []
    counter = itertools.count()
    while done < max(sizes):
        growth = WorkingTree(
            growth.session + 1, lambda _: f"{next(counter):08d}", growth.nodes, growth.vectors, growth.sums
        )
        texts = list(itertools.islice(lines, SESSION))
        for text, vector in zip(texts, await embedder.embed(texts), strict=True):
            entry = LeafEntry(str(done), text, (), AT)
            run(insert(growth, entry, vector, base, settings))
            done += 1
            if done == settings.sample:
                leaves = [id_ for id_, node in growth.nodes.items() if node.is_leaf]
                base = base_threshold(growth.rows(leaves), settings)
        tasks = tasks_of(growth)
        for task, made in zip(tasks, await aggregator.aggregate(tasks, ()), strict=True):
            growth.put(growth.nodes[task.node_id].model_copy(update={"text": made.text, "made_by": made.made_by}))
            (growth.vectors[task.node_id],) = embedder.inner.embed_now([made.topic])
        inserted += growth.insertions
        calls = len(split_tasks(tasks, settings.aggregate_tokens, settings.prompt_budget_tokens))
        sessions.append((len(tasks), calls))
        if done in sizes:
            found.append(summary(growth.nodes, inserted, sessions, time.perf_counter() - started))
            print(found[-1], file=sys.stderr)
    return found


def run(steps: Iterable[object]) -> None:
    for need in steps:
        raise LookupError(f"the whole tree is here, yet {need} was asked for")


def summary(
    nodes: dict[str, TreeNode], inserted: Sequence[Insertion], sessions: Sequence[tuple[int, int]], seconds: float
) -> Measured:
    n = len(inserted)
    last = inserted[-min(max(n // 10, 50), 1000) :]
    last_sessions = sessions[-(len(last) // SESSION) :]
    fan_outs = [len(node.children) for node in nodes.values() if node.children]
    depths = [node.depth for node in nodes.values() if node.is_leaf]
    return Measured(
        size=n,
        comparisons=mean([one.comparisons for one in last]),
        touched=mean([len(one.touched) for one in last]),
        touched_in_session=mean([touched for touched, _ in last_sessions]),
        calls=mean([calls for _, calls in last_sessions]) / SESSION,
        diverted=mean([one.diversions for one in last]),
        mean_depth=mean(depths),
        max_depth=max(depths),
        mean_fan_out=mean(fan_outs),
        max_fan_out=max(fan_outs),
        root_fan_out=len(nodes[ROOT].children),
        nodes=len(nodes) - 1,
        seconds=round(seconds, 1),
    )


def mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 2)


def print_table(found: Sequence[Measured]) -> None:
    names = list(asdict(found[0]))
    print("  ".join(names))
    for one in found:
        print("  ".join(f"{value:>{len(name)}}" for name, value in asdict(one).items()))
    by_size = {one.size: one.comparisons for one in found}
    if {10_000, 100_000} <= by_size.keys():
        print(f"comparisons at 100,000 / at 10,000: {by_size[100_000] / by_size[10_000]:.2f} (to be at most 1.5)")


def plot(found: Sequence[Measured], path: Path) -> None:
    """Draw the costs over the size; prints a message where matplotlib is not installed."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - only for the plot
    except ImportError:
        print("no plot: matplotlib is not installed", file=sys.stderr)
        return
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the backend is chosen

    figure, axes = plt.subplots(figsize=(7, 4.5))
    for name in ("comparisons", "touched", "touched_in_session", "max_depth", "root_fan_out"):
        axes.plot([one.size for one in found], [getattr(one, name) for one in found], marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel="memories in the tree", ylabel="per insertion", title="Tree insertion")
    axes.legend()
    axes.grid(visible=True, which="both", alpha=0.3)
    figure.savefig(path, dpi=120)
    print(f"plot: {path}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 10_000, 100_000])
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if any(size % SESSION for size in arguments.sizes):
        parser.error(f"every size must be a multiple of {SESSION}")
    found = asyncio.run(measure(varied_lines(arguments.data), sorted(arguments.sizes)))
    if arguments.json:
        print(json.dumps([asdict(one) for one in found], indent=2))
    else:
        print_table(found)
    if arguments.plot:
        plot(found, arguments.plot)


if __name__ == "__main__":
    main()
