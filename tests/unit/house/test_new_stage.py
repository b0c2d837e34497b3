"""A tenth stage: its spec, and one entry in the registry, are all that it takes."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from eunoe.streams.topics import Topic
from eunoe.workers.derive.dependents import dependents, first_stages
from eunoe.workers.registry import STAGES, groups_of, settings_class, stages_of
from tests.support.derived.stages import (
    absent_alert,
    compose_services,
    readers,
    stages_table,
    topics_table,
    with_compose_services,
)
from tests.support.in_memory import make_pipeline
from tests.support.stage_suite import CHECKS, KEY, StageSuite, conversation
from tests.support.wordcount.spec import NAME, SPEC, WORDS, SessionWords, WordCountSettings

CHECKOUT = Path(__file__).parents[3]
TEN = stages_of([*STAGES.values(), SPEC])


async def test_it_runs_in_the_pipeline() -> None:
    pipeline = make_pipeline(settings_class(TEN)(), stages=TEN)
    await pipeline.play(conversation())
    rows = await pipeline.store.scan(NAME, KEY, WORDS)
    counts = [SessionWords.from_json(row) for _, row in sorted(rows.items())]
    assert [(row.session, row.words, row.total) for row in counts] == [(1, 26, 26), (2, 26, 52), (3, 26, 78)]
    longer = make_pipeline(settings_class(TEN)().with_changes(WordCountSettings, min_letters=5), stages=TEN)
    await longer.play(conversation())
    (row,) = await longer.store.fetch(NAME, KEY, WORDS, ["3"])
    assert row is not None
    assert SessionWords.from_json(row).words < 26


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_it_passes_the_suite_of_stages(check: Callable[[StageSuite], Awaitable[None]]) -> None:
    await check(StageSuite(TEN, NAME))


def test_groups_topics_settings_and_dependents_know_it() -> None:
    assert groups_of(TEN)["memory"][-1] == NAME
    assert NAME in readers(Topic.SEGMENTS, TEN)
    assert NAME not in readers(Topic.SEGMENTS)
    assert settings_class(TEN).model_fields[NAME].annotation is WordCountSettings
    assert first_stages(TEN)[NAME] == NAME
    assert {name for name in TEN if NAME in dependents(name, TEN)} == {NAME, "segment", "intake"}


def test_tables_and_services_show_it() -> None:
    assert f"| `{NAME}` | {SPEC.purpose} | `SessionSegmented` | – | session | – | – | `EUNOE_WORDCOUNT__*` |" in (
        stages_table(TEN)
    )
    assert f"| `compress`, `summarize`, `{NAME}` |" in topics_table(TEN)
    compose = yaml.safe_load(with_compose_services((CHECKOUT / "deploy" / "compose.yaml").read_text(), TEN))
    assert compose["services"][NAME]["command"] == ["worker", NAME]
    assert f'or absent(eunoe_events_total{{stage="{NAME}"}})' in absent_alert(TEN)
    blocks, with_it = (set(services.split("\n\n")) for services in (compose_services(), compose_services(TEN)))
    assert blocks < with_it


PROGRAM = """
import json
from eunoe.deploy.cli.worker import choose_stages
from tests.support.derived.settings_page import settings_rows
from eunoe.deploy.settings import read_settings
settings = read_settings()
print(json.dumps({
    "memory": choose_stages(["memory"]),
    "value": settings.stages.wordcount.min_letters,
    "rows": [row for row in settings_rows() if "WORDCOUNT" in row.name],
}))
"""


def test_a_package_and_an_entry_are_enough(tmp_path: Path) -> None:
    """The whole of it, in a copy of the packages: a folder in ``workers/``, and its spec in the registry."""
    eunoe = tmp_path / "eunoe"
    for layer in ("schemas", "streams", "deploy"):
        (eunoe / layer).parent.mkdir(exist_ok=True)
        (eunoe / layer).symlink_to(CHECKOUT / layer)
    (eunoe / "workers").mkdir()
    for path in (CHECKOUT / "workers").iterdir():
        if path.name != "registry.py":
            (eunoe / "workers" / path.name).symlink_to(path)
    (eunoe / "workers" / NAME).symlink_to(CHECKOUT / "tests" / "support" / NAME)

    registry = (CHECKOUT / "workers" / "registry.py").read_text()
    imported = f"from eunoe.workers.{NAME}.spec import SPEC as WORDCOUNT\n"
    registry = re.sub(r"^(from eunoe\.workers\.update\.spec .*\n)", rf"\1{imported}", registry, flags=re.MULTILINE)
    registry, entries = re.subn(r"RESPOND\)\)", "RESPOND, WORDCOUNT))", registry)
    assert entries == 1
    (eunoe / "workers" / "registry.py").write_text(registry)

    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{CHECKOUT}", "EUNOE_WORDCOUNT__MIN_LETTERS": "4"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["memory"][-1] == NAME
    assert found["value"] == 4
    meaning = "Letters of the shortest word that counts."
    assert [row[:3] for row in found["rows"]] == [["EUNOE_WORDCOUNT__MIN_LETTERS", "`1`", meaning]]
