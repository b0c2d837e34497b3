"""The benchmarks, small: they check their own results."""

import orjson
import pytest

from tests.support import command

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.embedded("it starts servers of its own")]


@pytest.mark.timeout(300)
async def test_the_pipeline_is_measured_and_comes_to_the_memory_of_a_sequential_run(tmp_path):
    words = ("--conversations", "2", "--sessions", "2", "--turns", "4", "--delay", "0.01", "--json")
    done = await command.run_module("tests.bench", "pipeline", *words, cwd=tmp_path, timeout_s=240)
    assert done.code == 0, done.err
    figures = orjson.loads(done.out)
    assert figures["sessions"] == 4
    assert figures["digest_checked"] == "equal to a sequential run"
    assert figures["stages"]["link"]["events"] == 4
    assert figures["model_calls_per_session"] >= 2  # the topics and the memories of each
    assert figures["redis_commands_per_session"] > 10
    assert figures["qdrant_requests_per_session"] > 1
    assert (tmp_path / "reports" / "pipeline.md").exists()


@pytest.mark.timeout(400)
async def test_a_rebuild_is_measured_and_comes_to_the_same_memory(tmp_path):
    words = ("--marks", "300", "--turns", "1", "--json")
    done = await command.run_module("tests.bench", "rebuild", *words, cwd=tmp_path, timeout_s=350)
    assert done.code == 0, done.err
    figures = orjson.loads(done.out)
    assert figures["checked"] == "digest for digest the same"
    (row,) = figures["rebuilt"].values()
    assert (row["events"], row["sessions"]) == (380, 190)
    assert min(row[name] for name in ("events_per_s", "cpu_ms_per_event", "share_rss_mb", "answers_s", "memory_s")) > 0
    assert (tmp_path / "reports" / "rebuild.md").exists()


@pytest.mark.timeout(300)
async def test_a_soak_starts_a_system_of_its_own_and_judges_what_it_saw(tmp_path):
    words = ("--minutes", "0.15", "--rate", "4", "--conversations", "3", "--asks", "0.4", "--json")
    generous = ("--ask-limit", "60000", "--fresh-limit", "240", "--report", str(tmp_path / "reports"))
    done = await command.eunoe("bench", "soak", *words, *generous, cwd=tmp_path, timeout_s=240)
    found = orjson.loads(done.out)
    assert done.code == 0, found["judgements"]
    assert found["held"]
    assert found["asks"] > 0
    assert found["sessions"] >= 3
    assert found["samples"][-1]["lag"] == found["samples"][-1]["dead_letters"] == found["unremembered"] == 0
    assert {"broker", "worker memory", "worker replies", "gateway"} <= found["samples"][-1]["memory_mb"].keys()
    assert (tmp_path / "reports" / "soak.png").exists()

    hasty = await command.eunoe("bench", "soak", *words, "--ask-limit", "1", cwd=tmp_path, timeout_s=240)
    assert hasty.code == 1
    assert not orjson.loads(hasty.out)["held"]
