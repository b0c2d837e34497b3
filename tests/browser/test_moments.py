"""What a person does at the wrong moment, on a network that loses, delays and reorders answers."""

import asyncio
from typing import Any

import pytest
from playwright.async_api import Route

from eunoe.deploy.generations.followers import tell_followers
from eunoe.schemas.events import SessionEnded, Utterance
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.memory import DerivedReason
from tests.browser.conftest import Window
from tests.support.page import DEMO, NOW, START, TENANT

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]


class Told:
    """A conversation in which something is said while its page is open."""

    def __init__(self, window: Window, name: str) -> None:
        self.window, self.name, self.sessions = window, name, 0
        self.about: dict[str, Any] = {"tenant": TENANT, "conversation_id": name, "speaker": "Ann", "at": START}

    async def tell(self, *texts: str) -> None:
        """A session of these lines, from its first to its end."""
        self.sessions += 1
        session = {"session_id": f"s{self.sessions}"}
        said = [
            Utterance(**self.about, **session, utterance_id=f"u{self.sessions}.{number}", text=text)
            for number, text in enumerate(texts, 1)
        ]
        ended = SessionEnded(tenant=TENANT, conversation_id=self.name, **session, at=START)
        await self.window.site.gateway.log.append([*said, ended])

    async def open(self, rest: str) -> None:
        """Open a view, with its feed."""
        async with self.window.page.expect_response(lambda one: one.url.endswith(f"/{self.name}/remembered")):
            await self.window.open(f"/c/{self.name}/{rest}")

    async def derived(self) -> None:
        """Say that the memory was derived again, as after an erasure."""
        log = self.window.site.gateway.log
        await tell_followers(log, conversation_key(TENANT, self.name), DerivedReason.ERASED)


async def lose_once(window: Window, pattern: str) -> list[str]:
    """Break the connection of the first request to an address; the addresses of those that were broken."""
    lost: list[str] = []

    async def lose(route: Route) -> None:
        if lost:
            return await route.fallback()
        lost.append(route.request.url)
        return await route.abort("connectionreset")

    window.expects_faults = True
    await window.page.route(pattern, lose)
    return lost


async def drawn(window: Window) -> None:
    """Wait until the page has drawn what it knows."""
    await window.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


# ---- answers that are lost, cut off, late or out of order


async def test_an_answer_that_is_cut_off_is_told_and_fetched_again(window: Window) -> None:
    cut: list[str] = []

    async def cut_off(route: Route) -> None:
        if cut:
            return await route.fallback()
        cut.append(route.request.url)
        return await route.fulfill(content_type="application/json", body='{"memories": [{"mem')

    await window.page.route(f"**/{DEMO}/memories?*", cut_off)
    await window.open(f"/c/{DEMO}/memories")
    await window.sees("The answer was cut off.")
    await window.sees("28 memories")


async def test_a_view_that_refreshes_faster_than_its_answers_come_is_shown_all_the_same(window: Window) -> None:
    released, asked = asyncio.Event(), 0

    async def late(route: Route) -> None:
        nonlocal asked
        asked += 1
        await (released if asked == 1 else asyncio.Event()).wait()
        await route.fallback()

    await window.page.clock.install(time=NOW)
    await window.page.route("**/v1/processes", late)
    async with window.page.expect_request("**/v1/processes"):
        await window.open("/processes")
    await window.page.clock.run_for(11_000)
    released.set()
    await window.sees("4 processes")
    await window.page.unroute_all(behavior="ignoreErrors")


# ---- keys


async def test_a_key_that_no_header_can_hold_is_asked_for_again(window: Window) -> None:
    window.expects_faults = True
    await window.open()
    await window.page.get_by_role("button", name="Forget key").click()
    await window.page.get_by_label("Key").fill("eu_…")
    await window.page.get_by_role("button", name="Open").click()
    await window.sees("The gateway does not know this key.")
    await window.open(f"/c/{DEMO}/memories", "eu_\u200bnobody")
    await window.sees("The gateway does not know this key.")
