"""The import graph between packages: its limits hold, and its check finds what breaks them."""

import grimp
import pytest

from tests.graph import MAX_UNITS, ROOTS, UnitGraph, cycles_of, read_graph


@pytest.mark.parametrize("root", ROOTS)
def test_the_graph_has_no_faults(root: str):
    graph = read_graph(root)
    assert graph.faults() == []
    assert graph.upward == []
    assert len(graph.units) <= MAX_UNITS


def test_each_kind_of_fault_is_found():
    arrows = {("top", "base"): 1, ("base", "top"): 2, ("top", "new"): 1}
    graph = UnitGraph("p", [["top"], ["base"]], frozenset({"top", "base", "new"}), arrows)
    assert graph.faults() == ["p: new is in no layer", "p: arrow upward from base to top", "p: cycle of base, top"]
    assert graph.lines() == [
        "p: 3 units (limit 18), 3 arrows, 1 upward", "  top   base 1, new 1", "  base  top 2"
    ]  # fmt: skip
    units = [f"u{number}" for number in range(MAX_UNITS + 1)]
    assert UnitGraph("p", [units], frozenset(units), {}).faults() == ["p: 19 units, limit is 18"]


def test_cycles_of_several_units_are_found():
    arrows = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("x", "y"), ("y", "x"), ("d", "x")]
    assert cycles_of(arrows) == [frozenset("abc"), frozenset("xy")]
    assert cycles_of([("a", "b"), ("b", "c"), ("a", "c")]) == []


def test_finding_the_servers_of_a_stack_imports_none_of_them():
    graph = grimp.build_graph("eunoe.deploy")
    for module in ("eunoe.deploy.local.servers", "eunoe.deploy.local.stack"):
        assert graph.find_shortest_chain("eunoe.deploy.clients.connect", module) is None
