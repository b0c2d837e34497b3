"""The counters of stages and of the event loop."""

import asyncio
import time

import orjson
import pytest

from eunoe.deploy.gateway.meter import GatewayMeter
from eunoe.deploy.observability.counters import WorkerMeter, metered
from eunoe.streams.group.dispatcher import Dispatcher
from eunoe.streams.group.handlers import one_by_one
from eunoe.streams.record import Lease, Record
from eunoe.workers.runner.metrics import LoopMeter, Part, Spread, StageMeter, percentile


def test_a_part_counts_the_time_of_its_body_even_when_it_fails():
    meter = StageMeter()
    with pytest.raises(KeyError), meter.timed(Part.APPLYING):
        raise KeyError
    meter.add(Part.APPLYING, 2.0)
    meter.add(Part.DECIDING, 1.0)
    counted = meter.document()
    assert 2.0 < counted["applying_s"] < 3.0
    assert (counted["deciding_s"], counted["publishing_s"], counted["events"]) == (1.0, 0.0, 0)


def test_a_percentile_is_right_to_a_tenth():
    spread = Spread()
    for milliseconds in range(1, 1001):
        spread.add(milliseconds)
    counts = spread.document()
    assert percentile(counts, 0.5) == pytest.approx(500, rel=0.11)
    assert percentile(counts, 0.99) == pytest.approx(990, rel=0.11)
    assert spread.longest_ms == 1000
    assert percentile({}, 0.99) == 0.0


async def test_a_block_of_the_loop_counts_for_every_sample_it_swallowed():
    meter = LoopMeter(interval_s=0.005)
    sampling = asyncio.create_task(meter.run())
    await asyncio.sleep(0.02)
    time.sleep(0.1)  # noqa: ASYNC251 - a block is what is measured
    await asyncio.sleep(0.02)
    sampling.cancel()
    told = meter.document()
    assert told["late_longest_ms"] >= 90
    assert sum(count for bound, count in told["late_ms"].items() if float(bound) > 20) >= 10
    assert told["busy_longest_ms"] < 90  # it slept, it did not compute


async def test_a_worker_writes_its_counters_and_writes_them_again_at_its_end(tmp_path):
    path = tmp_path / "meter.json"
    meter = WorkerMeter()
    async with metered(meter, path):
        assert orjson.loads(path.read_bytes())["stages"] == {}
        meter.stage("segment").events += 3
    assert orjson.loads(path.read_bytes())["stages"]["segment"]["events"] == 3


async def test_records_that_queue_behind_their_key_are_counted_as_waiting():
    gate, begun = asyncio.Event(), asyncio.Event()

    async def handle(_record: Record, _lease: Lease) -> None:
        begun.set()
        await gate.wait()

    dispatcher = Dispatcher(one_by_one(handle))
    for offset in range(2):
        await dispatcher.submit(Record("conversations", 0, offset, b"k", b"", 0))
    await begun.wait()
    waited_s = dispatcher.waited_s
    await asyncio.sleep(0.05)
    gate.set()
    await dispatcher.revoke(1.0)
    assert dispatcher.waited_s == waited_s  # the second was dropped, never started
    dispatcher.resume()
    gate.clear()
    for offset in range(2, 4):
        await dispatcher.submit(Record("conversations", 0, offset, b"k", b"", 0))
    await asyncio.sleep(0.05)
    gate.set()
    async with asyncio.timeout(5):
        while dispatcher.in_work or dispatcher.queued:  # noqa: ASYNC110 - it gives the loop one turn at a time
            await asyncio.sleep(0)
    assert dispatcher.waited_s >= 0.05


def test_the_gateway_counts_every_route_from_the_start():
    meter = GatewayMeter(["POST /v1/events"])
    before = meter.text().decode()
    assert 'eunoe_http_seconds_count{method="POST",route="/v1/events",status="5xx"} 0.0' in before
    assert 'eunoe_gateway_requests_total{route="POST /v1/events",status="503"} 0.0' in before
    meter.count("POST /v1/events", 503, 0.3)
    meter.count("none", 404, 0.001)
    after = meter.text().decode()
    assert 'eunoe_http_seconds_bucket{le="0.35",method="POST",route="/v1/events",status="5xx"} 1.0' in after
    assert 'eunoe_http_seconds_bucket{le="0.2",method="POST",route="/v1/events",status="5xx"} 0.0' in after
    assert 'eunoe_gateway_requests_total{route="POST /v1/events",status="503"} 1.0' in after
    assert 'eunoe_http_seconds_count{method="",route="none",status="4xx"} 1.0' in after


def test_the_gateway_shows_open_streams_and_waiting_requests_apart():
    meter = GatewayMeter()
    meter.watch_open(streams=lambda: 3, waits=lambda: 2)
    shown = meter.text().decode()
    assert "\neunoe_gateway_streams 3.0\n" in shown
    assert "\neunoe_gateway_waits 2.0\n" in shown
