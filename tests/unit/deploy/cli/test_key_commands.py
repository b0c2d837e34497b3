"""`eunoe keys status`, `rewrap` and `replay`, and the operator's key of a data directory."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Awaitable
from datetime import UTC, datetime
from pathlib import Path
from shutil import copy

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from eunoe.deploy.cli.keys import app
from eunoe.deploy.clients.data_keys import open_data_keys
from eunoe.deploy.clients.key_checks import check_key_store_has_destroyed
from eunoe.deploy.local.kept import make_kek
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.sections import KeySettings
from eunoe.schemas.erasure import ErasureDone
from eunoe.schemas.errors import Refused
from eunoe.schemas.keys import Destroyed, Destruction
from eunoe.workers.stores.erasures.sqlite_ledger import SqliteErasures

OLD, NEW = (b64encode(bytes([number]) * 32).decode() for number in (1, 2))
NOW = datetime(2026, 11, 1, tzinfo=UTC)


def settings_of(path: Path, kek: str = OLD) -> Settings:
    keys = KeySettings(store=SecretStr(str(path / "keys.sqlite")), kek=SecretStr(kek))
    return Settings(keys=keys, erasures=SecretStr(str(path / "ledger.sqlite")))


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    return {
        "EUNOE_KEYS__STORE": str(tmp_path / "keys.sqlite"),
        "EUNOE_KEYS__KEK": OLD,
        "EUNOE_ERASURES": str(tmp_path / "ledger.sqlite"),
    }


async def erased(settings: Settings, path: Path) -> str:
    """A key that an erasure has destroyed; the store before that is in a backup."""
    async with open_data_keys(settings) as keys:
        assert keys is not None
        id_ = (await keys.current("default/a")).id
        copy(path / "keys.sqlite", path / "backup")
        await keys.destroy(id_, Destruction.ERASED)
    receipt = json.dumps({"keys": [{"id": id_, "why": "erased"}]})
    await SqliteErasures(path / "ledger.sqlite").finish(
        ErasureDone(request_id="r", key="default/a", at=NOW, receipt=receipt)
    )
    return id_


async def test_a_store_from_a_backup_is_refused_until_its_keys_are_destroyed_again(tmp_path, variables) -> None:
    settings = settings_of(tmp_path)
    await check_key_store_has_destroyed(settings)
    id_ = await erased(settings, tmp_path)
    await check_key_store_has_destroyed(settings)
    copy(tmp_path / "backup", tmp_path / "keys.sqlite")
    with pytest.raises(Refused, match=r"restored from a backup; run `eunoe keys replay`"):
        await check_key_store_has_destroyed(settings)
    assert await run(["status"], variables) == 1
    assert await run(["replay"], variables) == 0
    assert await run(["status"], variables) == 0
    await check_key_store_has_destroyed(settings)
    async with open_data_keys(settings) as keys:
        assert keys is not None
        assert isinstance(await keys.get(id_), Destroyed)


async def test_another_store_is_refused(tmp_path) -> None:
    await erased(settings_of(tmp_path), tmp_path)
    (tmp_path / "keys.sqlite").unlink()
    with pytest.raises(Refused, match="restored from a backup"):
        await check_key_store_has_destroyed(settings_of(tmp_path))


async def test_keys_are_wrapped_anew_and_the_old_operators_key_is_not_needed(tmp_path, variables) -> None:
    async with open_data_keys(settings_of(tmp_path)) as keys:
        assert keys is not None
        key = await keys.current("default/a")
    assert await run(["rewrap", "--json"], variables | {"EUNOE_KEYS__KEK": f"1:{OLD} 2:{NEW}"}) == 0
    async with open_data_keys(settings_of(tmp_path, f"2:{NEW}")) as keys:
        assert keys is not None
        assert await keys.get(key.id) == key
    assert await run(["status"], variables) == 2


async def test_without_a_key_store_there_is_nothing_to_show(variables) -> None:
    assert await run(["status"], variables | {"EUNOE_KEYS__STORE": ""}) == 2


def test_a_data_directory_gets_one_operators_key_and_refuses_to_lose_it(tmp_path: Path) -> None:
    kek, store = tmp_path / "keys" / "kek", tmp_path / "keys" / "store.sqlite"
    make_kek(kek, store)
    made = kek.read_text()
    assert kek.stat().st_mode & 0o777 == 0o600
    store.touch()
    make_kek(kek, store)
    assert kek.read_text() == made
    kek.unlink()
    with pytest.raises(Refused, match="is missing"):
        make_kek(kek, store)


def run(words: list[str], variables: dict[str, str]) -> Awaitable[int]:
    """The exit code of a command, in a loop of its own."""

    def command() -> int:
        found = CliRunner().invoke(app, words, env=variables)
        return 2 if isinstance(found.exception, Refused) else found.exit_code

    return asyncio.to_thread(command)
