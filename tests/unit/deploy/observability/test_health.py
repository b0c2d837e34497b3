"""Alive, ready, and what was counted: the judgement and what is served of it."""

import json
import math
import urllib.error
import urllib.request
from asyncio import to_thread
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from eunoe.deploy.exits import HOPELESS, Exit, code_of, meaning
from eunoe.deploy.observability import probe
from eunoe.deploy.observability.counters import WorkerMeter
from eunoe.deploy.observability.exposition import metrics_text
from eunoe.deploy.observability.health import CountingPublisher, HealthState, Phase
from eunoe.deploy.observability.histograms import HISTOGRAMS
from eunoe.deploy.observability.metrics import METRICS, MetricSources
from eunoe.deploy.observability.progress import StageProgress
from eunoe.deploy.observability.server import parse_address, serve_health
from eunoe.deploy.process.durability import durability_faults
from eunoe.deploy.process.supervisor import LONGEST_PAUSE_S, restart_pause
from eunoe.deploy.process.worker import check_codecs
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.dead_letters import dead_letter
from eunoe.streams.group.handlers import one_by_one
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.record import Lease, Message, Record, Revoked
from eunoe.streams.topics import Topic
from eunoe.workers.models.questions.metering import DecidedBy
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.blocked import BlockedConversations
from eunoe.workers.runner.errors import Fenced
from eunoe.workers.runner.metrics import BEHIND, Part, SessionOutcome
from eunoe.workers.text.caches import CacheBySize

PLACE = ("sessions", 0)
OTHER = ("sessions", 1)
RECORD = Record("sessions", 0, 0, b"default/c", b"{}", 0)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def progress(clock: Clock) -> StageProgress:
    return StageProgress(clock)


def test_a_stage_that_has_work_and_does_none_of_it_is_not_alive(clock: Clock, progress: StageProgress):
    progress.sample({PLACE: 5, OTHER: 9}, {PLACE: 8, OTHER: 9}, rebalancing=False)
    assert progress.lag() == {PLACE: 3, OTHER: 0}
    clock.now = 99
    assert progress.stalled(100) == []
    clock.now = 101
    assert progress.stalled(100) == ["sessions/0: 3 left, none handled for 101 s"]


def test_progress_is_a_sign_of_life_and_so_is_having_nothing_to_do(clock: Clock, progress: StageProgress):
    for step in range(10):
        clock.now = step * 90
        progress.sample({PLACE: step, OTHER: 9}, {PLACE: 50, OTHER: 9}, rebalancing=False)
        assert progress.stalled(100) == []
    clock.now += 20
    progress.sample({PLACE: 9, OTHER: 9}, {PLACE: 50, OTHER: 10}, rebalancing=False)
    clock.now += 90
    # the one stands for 110 s; the other has had work for 90 s only
    assert progress.stalled(100) == ["sessions/0: 41 left, none handled for 110 s"]


def test_a_partition_that_was_lost_is_forgotten_and_begins_anew(clock: Clock, progress: StageProgress):
    progress.sample({PLACE: 5}, {PLACE: 8}, rebalancing=False)
    clock.now = 200
    progress.sample({}, {}, rebalancing=False)
    assert progress.stalled(100) == []
    progress.sample({PLACE: 5}, {PLACE: 8}, rebalancing=False)
    assert progress.stalled(100) == []


def test_a_broker_that_tells_less_than_before_takes_no_lag_away(progress: StageProgress):
    progress.sample({PLACE: 5}, {PLACE: 8}, rebalancing=False)
    progress.sample({PLACE: 5}, {}, rebalancing=False)
    assert progress.lag() == {PLACE: 3}


def test_a_rebalance_without_an_end_is_no_life(clock: Clock, progress: StageProgress):
    for clock.now in (0, 60, 120):
        progress.sample({}, {}, rebalancing=True)
    assert progress.stalled(100) == ["no partitions for 120 s: the rebalance does not end"]
    progress.sample({}, {}, rebalancing=False)
    assert progress.stalled(100) == []


class Sleeper:
    """A lease whose pause takes as long as the clock is told to."""

    revoked = False

    def __init__(self, during: Callable[[], None]) -> None:
        self.during = during

    async def pause(self, seconds: float) -> None:
        self.during()


async def test_who_waits_on_purpose_is_alive_however_long(clock: Clock, progress: StageProgress):
    progress.sample({PLACE: 5}, {PLACE: 8}, rebalancing=False)

    def long() -> None:
        clock.now = 1000
        progress.sample({PLACE: 5}, {PLACE: 8}, rebalancing=False)
        assert progress.stalled(100) == []

    async def handle(record: Record, lease: Lease) -> None:
        await lease.pause(1)
        assert not lease.revoked

    await progress.watched(one_by_one(handle))((RECORD,), Sleeper(long))
    assert progress.stalled(100) == []
    clock.now = 1101
    assert len(progress.stalled(100)) == 1
    assert progress.given_back == 0


async def test_what_is_given_back_is_counted(progress: StageProgress):
    async def handle(record: Record, lease: Lease) -> None:
        raise Revoked

    with pytest.raises(Revoked):
        await progress.watched(one_by_one(handle))((RECORD,), Sleeper(lambda: None))
    assert progress.given_back == 1


def test_a_worker_is_ready_when_it_runs_and_waits_for_no_server():
    health = HealthState()
    assert (health.report().live, health.report().ready, health.report().why) == (True, False, ("starting",))
    health.phase = Phase.RUNNING
    assert health.report().ready
    health.outages.enter("Redis at r")
    assert (health.report().live, health.report().ready) == (True, False)
    assert health.report().why == ("1 waiting for Redis at r",)
    health.outages.leave("Redis at r", answered=True)
    health.phase = Phase.STOPPING
    assert (health.report().live, health.report().ready) == (True, False)


def test_a_stuck_worker_is_neither():
    health = HealthState(stalled_s=-1.0, phase=Phase.RUNNING)
    health.progress("segment").sample({PLACE: 5}, {PLACE: 8}, rebalancing=False)
    report = health.report()
    assert (report.live, report.ready, report.lag) == (False, False, {"segment": 3})
    assert report.why[0].startswith("segment: sessions/0: 3 left")


async def test_dead_letters_are_counted_by_stage_and_reason_when_they_are_sent():
    health = HealthState()
    publisher = CountingPublisher(MemoryLog(partitions=1), health)
    letter = dead_letter(RECORD, "segment", DeadLetterReason.INVALID, "x")
    await publisher.publish([letter, Message(Topic.SEGMENTS, b"default/c", b"{}"), letter])
    assert health.letters == {("segment", "invalid"): 2}


def watched() -> MetricSources:
    watched = MetricSources(WorkerMeter(), HealthState(phase=Phase.RUNNING))
    watched.meter.stage("segment").events = 7
    watched.health.progress("segment").sample({PLACE: 5}, {PLACE: 8}, rebalancing=False)
    watched.health.letters["segment", 'a"b\n'] += 3
    watched.health.outages.enter("Redis at r:1")
    return watched


def read(text: str) -> dict[str, float]:
    families = text_string_to_metric_families(text)
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in families
        for sample in family.samples
    }


def test_the_metrics_are_what_was_counted():
    samples = read(metrics_text(watched()).decode())
    assert samples["eunoe_live[]"] == 1
    assert samples["eunoe_ready[]"] == 0
    assert samples["eunoe_events_total[('stage', 'segment')]"] == 7
    assert samples["eunoe_lag[('partition', '0'), ('stage', 'segment'), ('topic', 'sessions')]"] == 3
    assert samples["eunoe_dead_letters_total[('reason', 'a\"b\\n'), ('stage', 'segment')]"] == 3
    assert samples["eunoe_waiting[('server', 'Redis at r:1')]"] == 1
    assert all(math.isfinite(value) for value in samples.values())


def test_every_known_label_has_a_sample_from_the_start():
    sources = MetricSources(WorkerMeter(), HealthState())
    for stage in STAGES:
        sources.meter.stage(stage)
        sources.health.progress(stage)
        sources.health.blocked[stage] = BlockedConversations()
    sources.meter.stage("update").model = "gpt"
    sources.health.outages.expect("Redis")
    sources.health.letter_ends[0] = 0
    sources.health.evicted["Redis"] = 0
    cache: CacheBySize[str, str] = CacheBySize(10, "documents")
    samples = read(metrics_text(sources).decode())
    later = {"lag", "lag_seconds", "in_work", "queued"}  # of partitions and consumers, which come at a rebalance
    empty = {one.name for one in METRICS if not [1 for sample in samples if sample.startswith(f"{one.name}[")]}
    model = {one.name for one in METRICS if one.name.startswith("eunoe_model_")}  # there is none
    assert empty == {f"eunoe_{name}" for name in later} | model - {
        "eunoe_model_items_total",
        "eunoe_model_stage_tokens_total",
    }
    decisions = [name for name in samples if name.startswith("eunoe_decisions_total[") and "'update'" in name]
    assert len(decisions) == len(DecidedBy)
    assert len([name for name in samples if name.startswith("eunoe_sessions_total[")]) == len(SessionOutcome)
    assert len([name for name in samples if name.startswith("eunoe_replies_total[")]) == 2 * len(BEHIND)
    assert samples["eunoe_cache_limit_bytes[('cache', 'documents')]"] >= cache.max_bytes


def test_a_histogram_has_all_its_counts_from_the_start_and_adds_up():
    seen = watched()
    meter = seen.meter.stage("segment")
    before = read(metrics_text(seen).decode())
    for seconds in (0.004, 0.3, 500.0, -1.0):
        meter.add(Part.DECIDING, seconds)
    meter.freshness.add(7)
    after = read(metrics_text(seen).decode())
    assert before.keys() == after.keys()

    def told(name: str, **labels: str) -> float:
        return after[f"{name}{sorted({'stage': 'segment', **labels}.items())}"]

    assert told("eunoe_stage_seconds_bucket", part="deciding", le="0.005") == 2
    assert told("eunoe_stage_seconds_bucket", part="deciding", le="0.5") == 3
    assert told("eunoe_stage_seconds_bucket", part="deciding", le="+Inf") == 4
    assert told("eunoe_stage_seconds_count", part="deciding") == 4
    assert told("eunoe_stage_seconds_sum", part="deciding") == pytest.approx(500.304)
    assert told("eunoe_freshness_seconds_bucket", le="5.0") == 0
    assert told("eunoe_freshness_seconds_bucket", le="10.0") == 1


def test_names_of_metrics_are_unique_and_of_the_usual_form():
    names = [definition.name for definition in (*METRICS, *HISTOGRAMS)]
    assert len(set(names)) == len(names)
    assert all(name.startswith("eunoe_") for name in names)


async def _ask(url: str) -> tuple[int, str]:
    def ask() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await to_thread(ask)


async def test_the_server_tells_all_three(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    seen = watched()
    async with serve_health(seen, "0") as url:
        assert url is not None
        assert url.startswith("http://127.0.0.1:")
        status, body = await _ask(f"{url}/live")
        assert (status, json.loads(body)["live"]) == (200, True)
        status, body = await _ask(f"{url}/ready")
        assert (status, json.loads(body)["why"]) == (503, ["1 waiting for Redis at r:1"])
        status, body = await _ask(f"{url}/metrics")
        assert status == 200
        assert read(body)["eunoe_events_total[('stage', 'segment')]"] == 7
        monkeypatch.setenv("EUNOE_HEALTH", f"0.0.0.0:{url.rpartition(':')[2]}")
        assert await to_thread(probe.main, []) == 0
        assert await to_thread(probe.main, ["ready"]) == 1
        with pytest.raises(Refused, match="cannot listen"):
            async with serve_health(seen, url.removeprefix("http://")):
                pass
    assert await to_thread(probe.main, []) == 1
    assert "no answer" in capsys.readouterr().out


async def test_without_an_address_nothing_is_served():
    async with serve_health(watched(), None) as url:
        assert url is None


@pytest.mark.parametrize(
    ("text", "address"),
    [("8081", ("127.0.0.1", 8081)), (":0", ("127.0.0.1", 0)), ("0.0.0.0:1", ("0.0.0.0", 1)), ("[::1]:2", ("::1", 2))],
)
def test_addresses(text: str, address: tuple[str, int]):
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "localhost", "a:b", "1.2.3.4:99999", "a:-1"])
def test_wrong_addresses_are_refused(text: str):
    with pytest.raises(Refused, match="EUNOE_HEALTH"):
        parse_address(text)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Refused("x"), Exit.USAGE),
        (Unavailable("x"), Exit.UNAVAILABLE),
        (Fenced("x"), Exit.AGAIN),
        (ValueError("x"), Exit.SOFTWARE),
        (ModuleNotFoundError("x"), Exit.INCOMPLETE),
    ],
)
def test_exit_codes_say_why(fault: Exception, code: Exit):
    assert code_of(fault) is code


def test_every_exit_code_and_signal_has_words():
    assert meaning(-9) == "signal 9"
    assert meaning(Exit.AGAIN) == "another process took over"
    assert meaning(3) == "code 3"


def test_restarts_pause_longer_and_longer_up_to_a_bound():
    pauses = [restart_pause(number) for number in range(1, 60)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.2, LONGEST_PAUSE_S)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}, []),
        ({"appendonly": "yes", "appendfsync": "everysec"}, []),
        ({}, []),
        ({"appendonly": "no"}, ["appendonly is no"]),
        ({"appendonly": "yes", "appendfsync": "no"}, ["appendfsync is no"]),
        (
            {"appendonly": "no", "maxmemory-policy": "allkeys-lru"},
            ["appendonly is no", "maxmemory-policy is allkeys-lru"],
        ),
    ],
)
def test_what_redis_does_not_promise_is_said(config: dict[str, str], told: list[str]):
    said = durability_faults(config)
    assert len(said) == len(told)
    assert all(one.startswith(start) for one, start in zip(said, told, strict=True))


def test_a_missing_codec_is_an_incomplete_installation_and_no_reason_to_start_again(monkeypatch: pytest.MonkeyPatch):
    check_codecs()
    monkeypatch.setattr("aiokafka.codec.has_zstd", lambda: False)
    with pytest.raises(ImportError, match="no codec for zstd: the package cramjam is missing") as fault:
        check_codecs()
    assert code_of(fault.value) in HOPELESS
