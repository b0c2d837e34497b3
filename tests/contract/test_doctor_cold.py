"""The doctor's check of the cold store: another store than conversations went to, and places of drives, are told."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from eunoe.deploy.clients.shared import open_redis, store_keys
from eunoe.deploy.doctor.cold import check_cold
from eunoe.deploy.doctor.findings import Findings, Level
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.sections import ColdSettings
from eunoe.schemas.errors import Unavailable
from eunoe.workers.stores.cold.mark import ColdMark
from eunoe.workers.stores.cold.stores import FolderColdStore
from eunoe.workers.stores.redis.connection import RedisConnection
from tests.support.session import SessionServers


@pytest.mark.broker
async def test_an_empty_folder_in_place_of_the_store_is_told(servers: SessionServers, tmp_path: Path) -> None:
    right, empty = tmp_path / "right", tmp_path / "empty"
    right.mkdir()
    empty.mkdir()
    prefix = f"doctor-{tmp_path.name}".replace("_", "-")[:40]
    settings = Settings(redis_url=SecretStr(servers.redis_url), prefix=prefix, cold=ColdSettings(store=str(right)))
    async with open_redis(settings) as redis:
        keys = store_keys(settings)
        await ColdMark(RedisConnection(redis), keys, FolderColdStore(right)).ensure()
        findings = Findings("cold")
        await check_cold(settings, findings)
        assert [one.level for one in findings.found] == [Level.OK]
        wrong = settings.model_copy(update={"cold": ColdSettings(store=str(empty))})
        with pytest.raises(Unavailable, match="not the one that conversations of v1 went to"):
            await check_cold(wrong, Findings("cold"))
        assert list(empty.iterdir()) == []
        await redis.delete(keys.cold_mark())


async def test_the_place_of_a_drive_itself_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path)
    (tmp_path / "folder").mkdir()
    levels = {}
    for name, folder in {"drive": tmp_path, "folder": tmp_path / "folder"}.items():
        findings = Findings("cold")
        await check_cold(Settings(cold=ColdSettings(store=str(folder))), findings)
        levels[name] = [one.level for one in findings.found]
    assert levels == {"drive": [Level.NOTE, Level.OK], "folder": [Level.OK]}
