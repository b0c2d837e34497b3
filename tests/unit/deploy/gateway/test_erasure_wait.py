"""The gauge of erasures that wait: an operator hears of those that nobody carries out."""

import asyncio
import math
from datetime import UTC, datetime, timedelta

from prometheus_client.parser import text_string_to_metric_families

from eunoe.deploy.gateway.erasure_wait import ErasureWait
from eunoe.deploy.gateway.meter import GatewayMeter
from eunoe.schemas.erasure import ErasureRefused, ErasureRequest
from eunoe.schemas.errors import Unavailable
from eunoe.streams.cancelling import cancelled
from tests.support.command import until
from tests.support.memory.erasures import MemoryErasures

NOW = datetime(2026, 11, 1, tzinfo=UTC)


class Ledger(MemoryErasures):
    """A ledger that may be away."""

    away = False

    async def requests(self) -> list[ErasureRequest]:
        if self.away:
            raise Unavailable("away", "the ledger")
        return await super().requests()


def shown(wait: ErasureWait) -> float:
    """The gauge as the gateway's metrics show it."""
    meter = GatewayMeter()
    meter.watch_erasures(wait.seconds)
    families = text_string_to_metric_families(meter.text().decode())
    (value,) = [one.value for family in families for one in family.samples if "erasures" in one.name]
    return value


def request(name: str, waited: timedelta) -> ErasureRequest:
    return ErasureRequest(request_id=name, key="default/a", at=NOW - waited, utterance_ids=("u0",))


async def test_it_shows_the_age_of_the_oldest_that_is_neither_done_nor_refused():
    ledger = Ledger()
    wait = ErasureWait(ledger, now=lambda: NOW)
    assert math.isnan(shown(wait)), "nothing is known yet"
    await wait.look()
    assert shown(wait) == 0
    await ledger.request(request("old", timedelta(hours=3)))
    await ledger.request(request("new", timedelta(hours=2)))
    await wait.look()
    assert shown(wait) == 3 * 3600
    await ledger.refuse(ErasureRefused(request_id="old", key="default/a", at=NOW, reason="unknown"))
    await wait.look()
    assert shown(wait) == 2 * 3600


async def test_a_ledger_that_is_away_is_asked_again_and_what_was_known_goes_on_to_age():
    ledger, later = Ledger(), NOW
    wait = ErasureWait(ledger, now=lambda: later, every_s=0.001)
    await ledger.request(request("r", timedelta(hours=3)))
    await wait.look()
    ledger.away, later = True, NOW + timedelta(hours=1)
    watching = asyncio.create_task(wait.watch())
    await asyncio.sleep(0)
    assert shown(wait) == 4 * 3600
    ledger.away = False
    await ledger.refuse(ErasureRefused(request_id="r", key="default/a", at=NOW, reason="unknown"))

    async def over() -> bool:
        return shown(wait) == 0

    await until(over, 10)
    await cancelled(watching)
