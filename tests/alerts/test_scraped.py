"""A real Prometheus scrapes `eunoe up` during a demo: each expression of the dashboard and of the rules has series."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support import command
from tests.support.command import until
from tests.support.derived.dashboard import expressions
from tests.support.prometheus import RULES, Prometheus, prometheus

EVERY_S = 1.0
PROCESSES = ("worker-replies", "worker-memory", "gateway")


def addresses(logs: Path) -> list[str]:
    """Where the processes of `eunoe up` say that their health is; as many as have said it."""
    written = [path.read_text() for name in PROCESSES if (path := logs / f"{name}.log").exists()]
    found = [re.search(r"health: http://(\S+?)/live", text) for text in written]
    return [match[1] for match in found if match]


def watched() -> Iterator[str]:
    """All expressions, so that they have a series where nothing is wrong, too, and after seconds in place of minutes.

    Comparisons give 0 or 1 in place of nothing; a subquery by the minute is one by the second; what must
    not be absent must be there.
    """
    yield from (expression.replace("$__rate_interval", "1m") for expression in expressions())
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            for expression in re.findall(r"absent\((.*?)\)", rule["expr"]) or [rule["expr"]]:
                yield re.sub(r" ([<>]=?) ", r" \1 bool ", expression).replace(":1m]", ":1s]")


def empty(server: Prometheus) -> list[str]:
    """The expressions that give no series now."""
    return [expression for expression in watched() if not server.series(expression)]


@pytest.mark.timeout(300)
async def test_every_expression_has_a_series_while_a_demo_runs(tmp_path: Path) -> None:
    settings = {"EUNOE_PARTITIONS": "4", "EUNOE_HEALTH": "127.0.0.1:0"}
    async with command.running("up", cwd=tmp_path, ready="ready: all stages run", **settings):
        targets = addresses(tmp_path / ".eunoe" / "logs")
        assert len(targets) == len(PROCESSES)
        with prometheus(tmp_path / "prometheus", targets, EVERY_S) as server:
            played = asyncio.create_task(command.eunoe("demo", "--attach", "--json", cwd=tmp_path, **settings))

            async def scraped() -> bool:
                return server.ready() and server.healthy_targets() == len(targets)

            await until(scraped, 60)
            done = await played
            assert done.code == 0, done.err
            lacking = empty(server)

            async def all_there() -> bool:
                nonlocal lacking
                lacking = await asyncio.to_thread(empty, server)
                return not lacking

            try:
                await until(all_there, 20)
            except AssertionError:
                pytest.fail("no series: " + "\n".join(lacking))
            assert not [alert for alert, _, _ in server.alerts()]
