"""The import graph between the units of deploy/ and workers/: ``python -m tests.graph`` prints and checks it.

A unit is a package or module directly below the root. Its layer comes from the import contracts in pyproject.toml;
the stages of workers/ stand between the registry and the runner. Exit code 1: too many units, a unit without a layer,
an arrow upward, or a cycle.
"""

import sys
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import grimp

ROOTS = ("eunoe.deploy", "eunoe.workers")
MAX_UNITS = 18
PROJECT = Path(__file__).parents[1]
ALLOWED_CYCLES = (frozenset({"link", "update"}),)
"""Each of these stages reads the state of the other, through its ``reads`` module only."""

Arrow = tuple[str, str]
"""A unit and one that it imports."""


@dataclass(frozen=True, slots=True)
class UnitGraph:
    """The units of a root package, their layers and the imports between them."""

    root: str
    layers: Sequence[Collection[str]]
    """From the highest to the lowest."""
    units: frozenset[str]
    arrows: Mapping[Arrow, int]
    """Number of importing modules, by arrow."""

    @property
    def upward(self) -> list[Arrow]:
        """Arrows from a lower layer to a higher one."""
        rank = {unit: number for number, layer in enumerate(self.layers) for unit in layer}
        return [
            (unit, other) for unit, other in self.arrows if unit in rank and other in rank and rank[unit] > rank[other]
        ]

    def faults(self) -> list[str]:
        """All violations, one line each."""
        placed = {unit for layer in self.layers for unit in layer}
        found = [f"{self.root}: {unit} is in no layer" for unit in sorted(self.units - placed)]
        if len(self.units) > MAX_UNITS:
            found.append(f"{self.root}: {len(self.units)} units, limit is {MAX_UNITS}")
        found += [f"{self.root}: arrow upward from {unit} to {other}" for unit, other in self.upward]
        cycles = [cycle for cycle in cycles_of(self.arrows) if cycle not in ALLOWED_CYCLES]
        return [*found, *(f"{self.root}: cycle of {', '.join(sorted(cycle))}" for cycle in cycles)]

    def lines(self) -> list[str]:
        """The graph as text: a line of totals, then each unit with the units that it imports."""
        counts = f"{len(self.units)} units (limit {MAX_UNITS}), {len(self.arrows)} arrows, {len(self.upward)} upward"
        width = max(map(len, self.units), default=0)
        ordered = [unit for layer in self.layers for unit in sorted(layer) if unit in self.units]
        return [f"{self.root}: {counts}", *(f"  {unit:{width}}  {self._imports(unit)}".rstrip() for unit in ordered)]

    def _imports(self, unit: str) -> str:
        return ", ".join(f"{other} {count}" for (one, other), count in sorted(self.arrows.items()) if one == unit)


def cycles_of(arrows: Iterable[Arrow]) -> list[frozenset[str]]:
    """The largest sets of units that all reach each other."""
    reach: dict[str, set[str]] = {}
    for unit, other in arrows:
        reach.setdefault(unit, set()).add(other)
    for middle in list(reach):
        for others in reach.values():
            if middle in others:
                others.update(reach[middle])
    cycles = {frozenset(other for other in reach[unit] if unit in reach.get(other, ())) for unit in reach}
    return sorted((cycle for cycle in cycles if len(cycle) > 1), key=sorted)


def read_graph(root: str) -> UnitGraph:
    """The graph of the installed package ``root``."""
    graph = grimp.build_graph(root)
    units: set[str] = set()
    arrows: Counter[Arrow] = Counter()
    for module in graph.modules:
        unit = _unit(module, root)
        if unit is None:
            continue
        units.add(unit)
        others = {_unit(other, root) for other in graph.find_modules_directly_imported_by(module)}
        arrows.update((unit, other) for other in others if other not in (None, unit))
    return UnitGraph(root, _layers(root, units), frozenset(units), arrows)


def _unit(module: str, root: str) -> str | None:
    """The unit of a module; `None` for the root package and for other packages."""
    rest = module.removeprefix(f"{root}.")
    return None if rest == module else rest.partition(".")[0]


def _layers(root: str, units: Collection[str]) -> list[Collection[str]]:
    """The layers of the import contract for ``root``, with the stages put in."""
    contracts = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (texts,) = [contract["layers"] for contract in contracts if contract.get("containers") == [root]]
    layers: list[Collection[str]] = [[unit.strip(" ()") for unit in text.split(":")] for text in texts]
    stages = [unit for unit in units if (PROJECT / root.rpartition(".")[2] / unit / "spec.py").exists()]
    if stages:
        layers.insert(layers.index(["registry"]) + 1, stages)
    return layers


def main() -> int:
    """Print the graphs and their faults; returns the exit code."""
    graphs = [read_graph(root) for root in ROOTS]
    for graph in graphs:
        print("\n".join(graph.lines()), end="\n\n")
    faults = [fault for graph in graphs for fault in graph.faults()]
    print("\n".join(faults) or "no faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
