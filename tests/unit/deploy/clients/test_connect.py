"""The choice of the servers for a command: those of the environment, or of `eunoe up` in the same directory."""

import base64
import json
import shlex
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from eunoe.deploy.cli.up import way_to_find
from eunoe.deploy.clients.bootstrap import open_clients
from eunoe.deploy.clients.connect import (
    announced_stores,
    as_set_for_stack,
    check_not_of_stack,
    connected_settings,
    environment,
    left_behind,
    on_stack,
    unused_operator_key,
)
from eunoe.deploy.clients.data_keys import operator_keys
from eunoe.deploy.clients.live_settings import of_generation
from eunoe.deploy.clients.models import check_endpoint_of_stack, own_endpoint
from eunoe.deploy.doctor.findings import Findings, Level
from eunoe.deploy.doctor.model import check_model, check_model_briefly
from eunoe.deploy.gateway.keys import KeyFile
from eunoe.deploy.local.kept import KeptData
from eunoe.deploy.local.lock import DirectoryLock
from eunoe.deploy.local.notice import StackUrls, write_notice
from eunoe.deploy.settings import Settings, read_settings, reveal
from eunoe.deploy.settings.deciding import DECIDING
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


@pytest.mark.parametrize("changes", [{}, {"link.associative": "4", "model_seed": "7"}], ids=["as it runs", "rebuilt"])
def test_a_child_process_decides_as_the_stack_was_started(
    changes: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    of_stack = {
        "intake": {"idle_seconds": 5.0, "max_open_sessions": 3},
        "segment": {"unit": "exchange"},
        "language": "offline",
        "models": {"respond": {"model": "our-larger-model"}},
    }
    monkeypatch.setenv("EUNOE_INTAKE__MAX_OPEN_SESSIONS", "1")
    settings = of_generation(on_stack(as_set_for_stack(read_settings(), of_stack), URLS), "v2", changes)
    for name, value in environment(settings).items():
        monkeypatch.setenv(name, value)
    child = read_settings()
    assert child.stages == settings.stages
    assert child.stages.of(IntakeSettings).idle_seconds == 5
    assert {name: getattr(child, name) for name in DECIDING} == {name: getattr(settings, name) for name in DECIDING}


ENDPOINT = "https://models.example/v1"
ASKED = {"model": "our-model", "language": "openai"}


@pytest.fixture
def up_with_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of an `eunoe up` whose workers ask a model, for commands that are run beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    data = tmp_path / ".eunoe"
    data.mkdir()
    with DirectoryLock(data):
        write_notice(data, URLS.model_copy(update={"model_endpoint": ENDPOINT, "settings": ASKED}))
        yield data


async def test_beside_an_up_with_a_model_no_other_derives_memory(
    up_with_a_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Refused, match=rf"asks models at {ENDPOINT}, and OPENAI_BASE_URL is not set here: set it"):
        async with open_clients(connected_settings()):
            pass
    monkeypatch.setenv("EUNOE_EMBEDDING", "endpoint:our-embedder:8")
    monkeypatch.setenv("EUNOE_LANGUAGE", "offline")
    with pytest.raises(Refused, match="OPENAI_BASE_URL"):  # else text would go to another provider
        check_endpoint_of_stack(connected_settings(), {})


@pytest.mark.parametrize(
    "variables",
    [{"OPENAI_BASE_URL": "https://other.example/v1"}, {"EUNOE_LANGUAGE": "offline"}, {"EUNOE_KAFKA": "own:9092"}],
    ids=lambda variables: next(iter(variables)),
)
def test_a_model_a_wish_for_none_and_other_servers_are_taken_as_said(
    variables: dict[str, str], up_with_a_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    check_endpoint_of_stack(connected_settings(), variables)


@pytest.mark.parametrize("check", [partial(check_model, thorough=False), check_model_briefly], ids=["all", "brief"])
async def test_the_doctor_asks_no_other_endpoint_than_up(
    check: Callable[[Settings, Mapping[str, str], Findings], Awaitable[None]], up_with_a_model: Path
) -> None:
    findings = Findings("model")
    await check(connected_settings(), {}, findings)
    (found,) = findings.found
    assert found.level is Level.WARNING
    assert f"`eunoe up` asks models at {ENDPOINT}" in found.text


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"OPENAI_BASE_URL": "https://me:secret@models.example/v1"}, "https://models.example/v1"),
        ({"OPENAI_API_KEY": "key"}, None),
        ({}, None),
    ],
)
def test_up_announces_the_endpoint_that_it_was_given_without_its_password(
    variables: dict[str, str], told: str | None
) -> None:
    assert own_endpoint(read_settings(), variables) == told


def test_servers_of_a_newer_up_are_no_missing_ones(tmp_path: Path) -> None:
    """It may keep texts in a way that this version does not know; "no servers" sent people to start others."""
    with DirectoryLock(tmp_path):
        write_notice(tmp_path, URLS)
        newer = {**json.loads(URLS.to_json()), "sealed_with": "another key"}
        (tmp_path / "stack.json").write_text(json.dumps(newer))
        with pytest.raises(
            Refused, match=r"a newer version of eunoe runs in .*sealed_with: .*: use its commands"
        ) as told:
            connected_settings(tmp_path)
        assert "another key" not in str(told.value)
        (tmp_path / "stack.json").write_text('{"kafka": ')
        assert not connected_settings(tmp_path).kafka
    (tmp_path / "stack.json").write_text(json.dumps(newer))
    assert not connected_settings(tmp_path).kafka  # it was killed


@pytest.mark.parametrize("name", ["kept.json", "keys.json"])
def test_a_file_that_a_newer_version_wrote_is_not_called_damaged(tmp_path: Path, name: str) -> None:
    """The advice for a damaged one is to go without it, and so without all memory or all keys."""
    (tmp_path / name).write_text('{"mood": "gay"}')
    with pytest.raises(Refused, match=rf"^a newer version of eunoe wrote \S*{name} \(.*mood: .*\): use that one$"):
        KeptData(tmp_path).begin() if name == "kept.json" else KeyFile(tmp_path / name).add([])


@pytest.mark.parametrize(
    ("given", "found"), [(None, "/own"), ("", None), ("elsewhere", "elsewhere"), ("s3://bucket/a", "s3://bucket/a")]
)
def test_commands_find_the_cold_store_that_an_up_was_started_with(
    given: str | None, found: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = URLS.model_copy(update={"cold": "/own"})
    monkeypatch.chdir(tmp_path)
    if given is not None:
        monkeypatch.setenv("EUNOE_COLD__STORE", given)
    in_use = on_stack(read_settings(), own)
    notice = own.model_copy(update=announced_stores(in_use, own))
    monkeypatch.delenv("EUNOE_COLD__STORE", raising=False)
    monkeypatch.chdir("/")
    assert on_stack(read_settings(), notice).cold.store == (str(tmp_path / found) if found == "elsewhere" else found)


def test_the_generation_that_an_up_is_at_work_on_is_told(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path):
        write_notice(tmp_path, URLS.model_copy(update={"generation": "v1"}))
        mine = on_stack(read_settings(), URLS)
        with pytest.raises(Refused, match="are those of v1: stop it and start it again first"):
            check_not_of_stack(mine, "v1", tmp_path)
        check_not_of_stack(mine, "v2", tmp_path)
        check_not_of_stack(mine.model_copy(update={"kafka": "own:9092"}), "v1", tmp_path)
    check_not_of_stack(mine, "v1", tmp_path)  # it was stopped


def test_workers_of_an_up_that_are_those_of_another_generation_are_told(tmp_path: Path) -> None:
    mine = on_stack(read_settings(), URLS)
    with DirectoryLock(tmp_path):
        write_notice(tmp_path, URLS.model_copy(update={"generation": "v1"}))
        advice = left_behind(mine, "v2", tmp_path)
        assert advice is not None
        assert "runs workers of v1, not of v2: stop it and start it again" in advice
        assert left_behind(mine, "v1", tmp_path) is None
        assert left_behind(mine.model_copy(update={"kafka": "own:9092"}), "v2", tmp_path) is None
        write_notice(tmp_path, URLS)  # it has servers alone
        assert left_behind(mine, "v2", tmp_path) is None
    assert left_behind(mine, "v2", tmp_path) is None  # it was stopped


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param({}, None, id="none is set"),
        pytest.param({"EUNOE_KEYS__KEK": "A"}, "EUNOE_KEYS__KEK set without EUNOE_KEYS__STORE", id="a key"),
        pytest.param({"EUNOE_KEYS__KEK_FILE": "kek"}, "EUNOE_KEYS__KEK_FILE set without", id="a file"),
        pytest.param({"EUNOE_KEYS__KEK": "A", "EUNOE_KEYS__STORE": "keys.sqlite"}, None, id="with a store of its own"),
        pytest.param({"EUNOE_KEYS__KEK": "A", "EUNOE_KEYS__STORE": ""}, None, id="without a store"),
    ],
)
def test_an_operators_key_that_eunoe_up_does_not_use_is_told(
    given: Mapping[str, str], told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    note = unused_operator_key(read_settings())
    assert note is None if told is None else told in (note or "")


def test_an_operators_key_of_the_environment_opens_no_store_of_eunoe_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, given = base64.b64encode(b"a" * 32).decode(), base64.b64encode(b"b" * 32).decode()
    (tmp_path / "kek").write_text(own)
    monkeypatch.setenv("EUNOE_KEYS__KEK", given)
    urls = URLS.model_copy(update={"keys": str(tmp_path / "store.sqlite"), "kek_file": str(tmp_path / "kek")})
    settings = on_stack(read_settings(), urls)
    assert operator_keys(settings).by_version == {1: b"a" * 32}
    for name, value in environment(settings).items():
        monkeypatch.setenv(name, value)
    child = read_settings()
    assert child.keys.store == settings.keys.store
    assert operator_keys(child).by_version == {1: b"a" * 32}


def test_a_stack_over_another_directory_is_found_by_the_link_that_its_start_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, here = tmp_path / "a place", tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    with DirectoryLock(data):
        write_notice(data, URLS)
        assert connected_settings().kafka is None
        hint = way_to_find(data)
        assert hint is not None
        subprocess.run(shlex.split(hint.partition(": ")[2]), check=True)
        assert connected_settings().kafka == URLS.kafka
    assert way_to_find(data) is None
