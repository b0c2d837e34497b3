"""Long computations beside the event loop."""

import threading
from datetime import UTC, datetime

import pytest

from eunoe.schemas.events import Line, Span
from eunoe.workers.models.local.offload import LONG, inline, offload
from eunoe.workers.segment.offline import OfflineSegmenter
from eunoe.workers.segment.settings import SegmentSettings
from eunoe.workers.summarize.offline import OfflineSummarizer
from eunoe.workers.summarize.settings import SummarizeSettings
from tests.support.in_memory import HashEmbedder


async def test_what_is_short_stays_and_what_is_long_goes_to_a_thread():
    here = threading.get_ident()
    assert await offload(LONG - 1, threading.get_ident) == here
    assert await offload(LONG, threading.get_ident) != here


async def test_where_nobody_waits_all_stays():
    with inline():
        assert await offload(LONG, threading.get_ident) == threading.get_ident()
    assert await offload(LONG, threading.get_ident) != threading.get_ident()


async def test_its_fault_comes_back():
    with pytest.raises(ZeroDivisionError):
        await offload(LONG, divmod, 1, 0)


async def test_long_sessions_are_segmented_and_summarized_off_the_loop(monkeypatch: pytest.MonkeyPatch):
    threads: set[int] = set()

    def noted(size: int, work, *args, **options):
        async def run():
            def inside():
                threads.add(threading.get_ident())
                return work(*args, **options)

            return await offload(size, inside)

        return run()

    for room in ("segment", "summarize"):
        monkeypatch.setattr(f"eunoe.workers.{room}.offline.offload", noted)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    lines = [Line(utterance_id=f"u{n}", speaker="Ann", text=f"I sold boat {n} in Oslo.", at=at) for n in range(LONG)]
    found = await OfflineSegmenter(HashEmbedder(), SegmentSettings()).segment(lines)
    assert [found.spans[0].first, found.spans[-1].last] == [0, LONG - 1]
    told = await OfflineSummarizer(SummarizeSettings()).summarize(lines, [Span(first=0, last=LONG - 1)])
    assert told.drafts
    assert threads
    assert threading.get_ident() not in threads
