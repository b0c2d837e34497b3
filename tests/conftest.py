"""Shared by all tests: no time limits of hypothesis, the servers of the session, and which tests apply to them."""

import gc
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from eunoe.deploy.event_loop import collect_seldom, keep_for_good
from tests.support import given, needs
from tests.support.needs import Broker
from tests.support.slow_files import SLOW, selects_none, unnamed
from tests.support.time_limits import TimeLimits

if TYPE_CHECKING:
    from tests.support.pipeline import Pipeline
    from tests.support.session import SessionServers

IN_CI = bool(os.environ.get("CI"))
"""The same examples in every run of CI; people's runs look for others."""
settings.register_profile(
    "calm", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=IN_CI, print_blob=True
)
settings.load_profile("calm")
collect_seldom()  # as all commands do; an eighth of the time to collect these tests was the collector's

LEFT_OUT = pytest.StashKey[Counter[str]]()
_WORKER_OUTPUT = "left_out"


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(TimeLimits())
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is not None:  # two processes must not write one font cache, nor those of runs on two brokers at once
        os.environ["MPLCONFIGDIR"] = str(config.cache.mkdir(f"matplotlib-{needs.under_test().value}-{worker}"))
    missing = given.missing()
    if 0 < len(missing) < len(given.SERVERS):
        raise pytest.UsageError(f"set all of {', '.join(given.SERVERS)}, or none: {', '.join(missing)} is not set")
    if needs.under_test() is Broker.KAFKA and not missing:
        raise pytest.UsageError(f"{needs.VARIABLE}=kafka starts servers: unset {', '.join(given.SERVERS)}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file of which the slow tests alone, or all others, run none: every process would import it."""
    if collection_path.suffix == ".py" and selects_none(config.option.markexpr, collection_path.read_bytes()):
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what does not apply: tests of the embedded servers on others, and what needs more than there is."""
    if hidden := unnamed(item.path for item in items if item.get_closest_marker(SLOW) is not None):
        raise pytest.UsageError(f"a run of the slow tests passes over {hidden}: write pytest.mark.{SLOW} there")
    broker = needs.under_test()
    left_out = {item: why for item in items if (why := _why_not(item, broker))}
    config.stash[LEFT_OUT] = Counter(f"{item.location[0]}: {why}" for item, why in left_out.items())
    if hasattr(config, "workeroutput"):
        config.workeroutput[_WORKER_OUTPUT] = dict(config.stash[LEFT_OUT])
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what is there before the first test: half a million objects that stay.

    A whole collection takes half a second with them, and tests ask for many.
    """
    gc.collect()
    keep_for_good()


def _why_not(item: pytest.Item, broker: Broker) -> str:
    """Why a test does not run on ``broker``; empty where it does."""
    about = item.get_closest_marker("embedded")
    if about is not None and broker is not Broker.EMBEDDED:
        (reason,) = about.args
        return str(reason)
    wanted = [need for marker in item.iter_markers("needs") for need in marker.args]
    unknown = set(wanted) - needs.NEEDS.keys()
    if unknown:
        raise pytest.UsageError(f"{item.nodeid} needs {', '.join(sorted(unknown))}: tests/support/needs.py knows none")
    lacking = needs.lacking(broker, wanted)
    return f"needs {', '.join(lacking)}" if lacking else ""


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process of pytest-xdist left out; each of them collects all tests."""
    found = getattr(node, "workeroutput", {}).get(_WORKER_OUTPUT)
    if found is not None:
        node.config.stash[LEFT_OUT] = Counter(found)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tell every time, and one by one, what did not run and why."""
    left_out = config.stash.get(LEFT_OUT, Counter())
    if not left_out:
        return
    on = needs.under_test().value
    terminalreporter.section(f"{left_out.total()} tests do not apply to {on} and did NOT run", sep="!", yellow=True)
    for why, tests in sorted(left_out.items()):
        terminalreporter.line(f"NOT RUN {tests:3} of {why}", yellow=True)


@pytest.fixture(scope="session")
def servers(_servers: None, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SessionServers]":
    """The broker, Redis and Qdrant that the tests of this process share."""
    from tests.support.session import SessionServers  # noqa: PLC0415 - most tests need none, and it imports much

    shared = SessionServers(tmp_path_factory.mktemp("servers"))
    yield shared
    shared.close()


@pytest.fixture
def pipeline(servers: "SessionServers", tmp_path: Path) -> "Pipeline":
    """A pipeline on the shared servers, with a prefix of its own."""
    from tests.support.pipeline import shared_pipeline  # noqa: PLC0415 - the same

    return shared_pipeline(tmp_path, servers)


@pytest.fixture
def standalone(servers: "SessionServers", tmp_path: Path) -> "Pipeline":
    """A pipeline that is the only one on its servers, and starts them."""
    from tests.support.pipeline import standalone_pipeline  # noqa: PLC0415 - the same

    return standalone_pipeline(tmp_path, servers)


@pytest.fixture(scope="session", autouse=True)
def _servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Apache Kafka where the run asks for it, once for all tests; cleans up on servers that are not ours."""
    if needs.under_test() is Broker.KAFKA:
        from tests.support.apache import kafka_run  # noqa: PLC0415 - the same

        with kafka_run(tmp_path_factory.mktemp("servers")):
            yield
        return
    yield
    if given.are_given():
        from tests.support.cleanup import remove_everything  # noqa: PLC0415 - it imports much

        remove_everything()
