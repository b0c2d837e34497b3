"""The choice of the servers for a command: those of the environment, or of `eunoe up` in the same directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eunoe.deploy.clients.connect import as_set_for_stack, connected_settings
from eunoe.deploy.local.lock import DirectoryLock
from eunoe.deploy.local.notice import StackUrls, write_notice
from eunoe.deploy.settings import read_settings, reveal
from eunoe.deploy.settings.sections import Language
from eunoe.schemas.errors import Refused
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.link.settings import LinkSettings

URLS = StackUrls(kafka="127.0.0.1:1", redis_url="redis://127.0.0.1:2", qdrant_url="http://127.0.0.1:3", epoch=1, pid=1)
OWN = {
    "EUNOE_REDIS_URL": "redis://own:1",
    "EUNOE_QDRANT_URL": "http://own:2",
    "EUNOE_QDRANT_API_KEY": "qdrant-key",
    "EUNOE_ERASURES": "ledger.sqlite",
}


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Path]:
    """The data directory of an `eunoe up`."""
    with DirectoryLock(tmp_path):
        write_notice(tmp_path, URLS)
        yield tmp_path


def test_without_variables_the_servers_of_up_are_taken(up: Path) -> None:
    found = connected_settings(up)
    assert (found.kafka, reveal(found.redis_url), found.qdrant_url) == (URLS.kafka, URLS.redis_url, URLS.qdrant_url)


def test_empty_variables_are_as_none(up: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EUNOE_KAFKA", *OWN):
        monkeypatch.setenv(name, "")
    assert connected_settings(up).kafka == URLS.kafka


def test_a_broker_in_the_environment_goes_before_up(up: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUNOE_KAFKA", "own:9092")
    monkeypatch.setenv("EUNOE_REDIS_URL", OWN["EUNOE_REDIS_URL"])
    found = connected_settings(up)
    assert (found.kafka, reveal(found.redis_url)) == ("own:9092", OWN["EUNOE_REDIS_URL"])


@pytest.mark.parametrize("name", OWN)
def test_other_servers_without_a_broker_are_refused_beside_up(
    name: str, up: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, OWN[name])
    with pytest.raises(Refused, match=rf"^{name} set, but not EUNOE_KAFKA, and `eunoe up` runs in {up}: set ") as told:
        connected_settings(up)
    assert OWN[name] not in str(told.value).removeprefix(name)


def test_other_servers_without_a_broker_are_taken_where_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EUNOE_REDIS_URL", OWN["EUNOE_REDIS_URL"])
    assert reveal(connected_settings(tmp_path).redis_url) == OWN["EUNOE_REDIS_URL"]


def test_what_a_stack_was_started_with_holds_unless_the_command_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    decided = {
        "intake": {"idle_seconds": 5.0, "max_open_sessions": 3},
        "link": {"associative": 9},
        "language": "offline",
    }
    monkeypatch.setenv("EUNOE_INTAKE__MAX_OPEN_SESSIONS", "1")
    settings = as_set_for_stack(read_settings(), decided)
    assert (settings.stages.of(IntakeSettings).idle_seconds, settings.stages.of(IntakeSettings).max_open_sessions) == (
        5,
        1,
    )
    assert settings.stages.of(LinkSettings).associative == 9
    assert settings.language is Language.OFFLINE
    assert as_set_for_stack(read_settings(), {}) == read_settings()


def test_settings_of_a_stack_that_this_version_does_not_take_are_refused() -> None:
    with pytest.raises(Refused, match=r"settings of the running `eunoe up`: intake\.idle_seconds"):
        as_set_for_stack(read_settings(), {"intake": {"idle_seconds": "soon"}})
