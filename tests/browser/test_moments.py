"""Things that a person does at the wrong moment, on a network that loses, delays and reorders answers."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Route

from eunoe.deploy.gateway.page.bundle import page_file
from eunoe.deploy.gateway.page.export import read_snapshot
from eunoe.deploy.generations.followers import tell_followers
from eunoe.schemas.events import SessionEnded, Utterance
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.memory import DerivedReason
from eunoe.workers.stores.records.generations import Generation, GenerationState
from tests.browser.conftest import Window
from tests.support.page import ASKED, DEMO, LARGE, NOW, START, TENANT

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


async def test_a_feed_that_never_rests_refreshes_what_is_open(window: Window) -> None:
    told = Told(window, "busy")
    await told.tell("I moved to Lyon in March.")
    await told.open("sessions")
    await window.sees("1 session closed")
    stop = asyncio.Event()

    async def go_on() -> None:
        while not stop.is_set():
            await told.tell(f"I bought book {told.sessions} in Marseille.")
            await asyncio.wait([asyncio.ensure_future(stop.wait())], timeout=0.2)

    saying = asyncio.ensure_future(go_on())
    try:
        await window.page.get_by_text("1 session closed").wait_for(state="detached", timeout=8_000)
    finally:
        stop.set()
        await saying


async def test_the_list_of_timelines_comes_back_after_a_lost_answer(window: Window) -> None:
    lost = await lose_once(window, f"**/{LARGE}/timelines?*")
    await window.open(f"/c/{LARGE}/timelines")
    await window.sees("Trying again in")
    await window.sees("3 timelines")
    assert len(lost) == 1


async def test_every_timeline_has_a_text_however_many_there_are(window: Window) -> None:
    ids = [f"{number:08d}-0000-5000-8000-000000000000" for number in range(1, 151)]
    many = [{"root": id_, "size": 2, "oldest": id_} for id_ in ids]

    async def listed(route: Route) -> None:
        await route.fulfill(json={"timelines": many, "next": None})

    await window.page.route(f"**/{LARGE}/timelines?*", listed)
    await window.open(f"/c/{LARGE}/timelines")
    await window.sees("150 timelines")
    await window.page.get_by_role("listbox").press("End")
    await window.sees("Ann mentioned matter 150 of the garden.")


async def test_a_branch_whose_answer_is_lost_says_so(window: Window) -> None:
    await window.open(f"/c/{LARGE}/tree")
    await window.page.get_by_role("treeitem").first.wait_for()
    before = await window.page.get_by_role("treeitem").count()
    await lose_once(window, f"**/{LARGE}/tree?node=node-*")
    await window.page.get_by_role("treeitem").first.click()
    await window.sees("The gateway does not answer.")
    await window.page.wait_for_function("n => document.querySelectorAll('[role=treeitem]').length > n", arg=before)
    await window.page.get_by_text("The gateway does not answer.").wait_for(state="detached")


async def test_a_late_answer_does_not_take_the_place_of_a_later_one(window: Window) -> None:
    told, read, released = Told(window, "ordered"), asyncio.Event(), asyncio.Event()

    async def first_last(route: Route) -> None:
        first = not read.is_set()
        answer = await route.fetch()
        read.set()
        if first:
            await released.wait()
        await route.fulfill(response=answer)

    await told.tell("I moved to Lyon in March.")
    await window.page.route("**/ordered/tree?*", first_last)
    await told.open("tree")
    await read.wait()
    await told.tell("I bought a red boat in Marseille.")
    await window.sees("2 memories below")
    async with window.page.expect_event("requestfinished", lambda one: "/ordered/tree" in one.url):
        released.set()
    await drawn(window)
    assert await window.page.get_by_text("2 memories below").count() == 1


async def test_a_question_whose_answer_was_lost_is_said_once(window: Window) -> None:
    told, sent = Told(window, "once"), 0

    async def lose_answer(route: Route) -> None:
        nonlocal sent
        sent += 1
        if sent > 1:
            return await route.fallback()
        await route.fetch()
        return await route.abort("connectionreset")

    window.expects_faults = True
    await told.tell("I moved to Lyon in March.")
    await window.page.route("**/once/asks", lose_answer)
    await told.open("ask")
    await window.page.get_by_label("Question").fill("Where did I move to?")
    await window.page.get_by_label("say it").check()
    await window.page.get_by_role("button", name="Ask", exact=True).click()
    await window.sees("The gateway does not answer. Is it running?")
    await window.page.get_by_role("button", name="Ask", exact=True).click()
    await window.page.wait_for_url("**reply=**")
    await window.page.get_by_role("tab", name="sessions").click()
    await window.sees("1 line in 1 open session")


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


# ---- what refreshes under the reader


async def test_a_refresh_leaves_the_reader_where_the_reader_is(window: Window) -> None:
    told = Told(window, "still")
    await told.tell(*(f"I bought book {number} in Marseille." for number in range(60)))
    await window.page.set_viewport_size({"width": 900, "height": 500})
    await told.open("sessions?s=1&page=0&line=u1.50")
    await window.page.wait_for_function("() => scrollY > 500")
    await window.page.evaluate("scrollTo(0, 0)")
    await told.tell("I moved to Lyon in March.")
    await window.page.locator(".opener").filter(has_text="session 2").wait_for()
    await window.page.locator("li[id='line-u1.50']").wait_for()
    await drawn(window)
    assert await window.page.evaluate("scrollY") == 0


async def test_a_memory_that_comes_moves_neither_the_mark_nor_what_is_read(window: Window) -> None:
    told = Told(window, "moved")
    for number in range(40):
        await told.tell(f"I bought book {number} in Marseille.")
    await told.open("memories")
    await window.sees("40 memories")
    rows = window.page.get_by_role("listbox")
    for _ in range(30):
        await rows.press("ArrowDown")
    marked = window.page.locator(".row.active .said")
    text, top = await marked.inner_text(), (await marked.bounding_box() or {})["y"]
    await told.tell("I moved to Lyon in March.")
    await window.sees("41 memories")
    assert await marked.inner_text() == text
    assert (await marked.bounding_box() or {})["y"] == pytest.approx(top, abs=1)


@pytest.mark.parametrize("label", ["Question", "asked by"])
async def test_what_is_typed_stays_when_memory_is_derived_again(window: Window, label: str) -> None:
    told = Told(window, f"retyped{len(label)}")
    await told.tell("I moved to Lyon in March.")
    await told.open("ask")
    await window.page.get_by_label(label).fill("Where is the boat")
    async with window.page.expect_response(lambda one: one.url.endswith(told.name)):
        await told.derived()
    await drawn(window)
    assert await window.page.get_by_label(label).input_value() == "Where is the boat"


async def test_a_question_under_way_is_answered_though_memory_is_derived_again(window: Window) -> None:
    told, log = Told(window, "underway"), window.site.gateway.log
    await told.tell("I moved to Lyon in March.")
    await told.open("ask")
    await window.page.get_by_label("Question").fill("Where did Ann move to?")
    log.lagging = True
    try:
        async with window.page.expect_request("**/underway/asks"):
            await window.page.get_by_role("button", name="Ask", exact=True).click()
        async with window.page.expect_response(lambda one: one.url.endswith("/underway")):
            await told.derived()
    finally:
        await log.catch_up()
    await window.page.wait_for_url("**reply=**")
    await window.sees("It cites")


async def test_a_slider_follows_the_hand_however_fast_that_is(window: Window) -> None:
    await window.open(f"/c/{LARGE}/memories")
    await window.page.locator(".row").first.wait_for()
    drag = """async () => {
        const slider = document.getElementById("as-of");
        for (let at = 1; at <= 400; at += 1) {
            slider.value = at;
            slider.dispatchEvent(new Event("input", {bubbles: true}));
            if (at % 50 === 0) await new Promise(done => requestAnimationFrame(done));
        }
    }"""
    await window.page.evaluate(drag)
    await window.page.locator("output").get_by_text("after session 400").wait_for()
    await window.page.wait_for_function("() => location.hash.includes('at=400')")


async def test_dead_letters_are_fresh_for_whoever_comes_back(window: Window) -> None:
    await window.open("/letters")
    await window.page.locator("a.card").first.wait_for()
    about = {"tenant": TENANT, "conversation_id": "returned", "utterance_id": "w1", "speaker": "Ann", "at": START}
    await window.site.gateway.log.append([Utterance(**about, text=text) for text in ("I moved to Lyon.", "I stayed.")])
    await window.page.evaluate("dispatchEvent(new Event('focus'))")
    await window.sees("returned")


async def test_a_generation_that_was_made_meanwhile_is_there_for_whoever_comes_back(window: Window) -> None:
    await window.open(f"/c/{DEMO}/generations")
    await window.sees("They differ in")
    states = window.site.gateway.states
    made = Generation(name="v3", state=GenerationState.BUILT, made_at=START, source="v1")
    states.others["v3"] = states.others["v2"]
    await states.book.write(made)
    try:
        await window.page.evaluate("dispatchEvent(new Event('focus'))")
        await window.page.get_by_label("new").get_by_role("option", name="v3").wait_for(state="attached")
    finally:
        await states.book.forget("v3")


async def test_a_letter_that_was_discarded_is_shown_so_though_the_answer_was_lost(window: Window) -> None:
    page = window.page
    about = {"tenant": TENANT, "conversation_id": "unheard", "utterance_id": "w1", "speaker": "Ann", "at": START}
    await window.site.gateway.log.append([Utterance(**about, text=text) for text in ("I moved to Lyon.", "I stayed.")])

    async def lose_answer(route: Route) -> None:
        await route.fetch()
        await route.abort("connectionreset")

    window.expects_faults = True
    await page.route("**/discard", lose_answer)
    await window.open("/letters")
    await page.get_by_role("link", name="conflict at intake").filter(has_text="unheard").click()
    await page.get_by_role("button", name="Discard …").click()
    await page.get_by_role("button", name="Discard", exact=True).click()
    await window.sees("discarded 20")
    assert await page.get_by_role("button", name="Discard …").count() == 0


async def test_the_list_says_what_is_in_memory_by_now(window: Window) -> None:
    told, behind = Told(window, "catching-up"), True

    async def lag(route: Route) -> None:
        answer = await route.fetch()
        found = await answer.json()
        await route.fulfill(response=answer, json={**found, "remembered": 0} if behind else found)

    await told.tell("I moved to Lyon in March.")
    await window.page.route("**/v1/conversations/catching-up", lag)
    await window.open()
    await window.sees("1 session closed · 1 not in memory yet")
    behind = False
    await window.page.evaluate("dispatchEvent(new Event('focus'))")
    await window.page.get_by_text("1 not in memory yet").wait_for(state="detached")


def listed_as(names: list[str], seconds: dict[str, int]) -> Any:
    """Answers for the list of conversations: pages of what stands in ``names`` when they are read."""

    async def listed(route: Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        start = int(query.get("cursor", ["0"])[0])
        end = start + int(query["limit"][0])
        page = [
            {"conversation_id": name, "active": f"2025-11-10T09:00:{seconds.get(name, 0):02}Z"}
            for name in names[start:end]
        ]
        await route.fulfill(json={"conversations": page, "next": str(end) if end < len(names) else None})

    return listed


async def test_the_list_is_as_long_as_it_was_for_whoever_comes_back(window: Window) -> None:
    names, seconds = [f"many-{number:03}" for number in range(200)], {}
    window.expects_faults = True  # there are no such conversations
    await window.page.route("**/v1/conversations?*", listed_as(names, seconds))
    await window.open()
    cards = window.page.locator(".card")
    for count in (50, 100, 150):
        await window.page.wait_for_function("count => document.querySelectorAll('.card').length === count", arg=count)
        if count < 150:
            await window.page.get_by_role("button", name="More conversations").click()
    card = cards.nth(120)
    await card.scroll_into_view_if_needed()
    before = await window.page.evaluate("scrollY")
    await card.click()
    await window.sees("There is no such conversation")
    names.remove("many-130")  # it is active meanwhile, another one is erased
    names.insert(0, "many-130")
    names.remove("many-003")
    seconds["many-130"] = 1
    await window.page.go_back()
    await window.page.wait_for_function("() => document.querySelector('.card strong')?.textContent === 'many-130'")
    told = await cards.locator("strong").all_inner_texts()
    assert told == names[:149]
    assert await window.page.evaluate("scrollY") == before
    seconds["many-199"] = 2
    names.insert(0, names.pop())
    await window.page.evaluate("dispatchEvent(new Event('focus'))")
    await window.page.wait_for_function("() => document.querySelector('.card strong').textContent === 'many-199'")
    assert await cards.locator("strong").all_inner_texts() == names[:150]
    await window.page.get_by_role("button", name="More conversations").click()
    await window.page.wait_for_function("() => document.querySelectorAll('.card').length === 199")


async def test_memories_that_were_read_are_there_for_whoever_comes_back_from_another_view(window: Window) -> None:
    told = Told(window, "to-and-fro")
    await told.tell("I moved to Lyon in March.")
    await told.open("memories")
    await window.sees("moved to Lyon")
    asked: list[str] = []
    window.page.on("request", lambda one: asked.append(one.url))
    for view, text in (("progress", "Decided offline"), ("insights", "No insights"), ("memories", "moved to Lyon")):
        await window.page.get_by_role("tab", name=view).click()
        await window.sees(text)
    await drawn(window)
    assert [url for url in asked if "/memories" in url] == []
    await window.page.get_by_role("tab", name="progress").click()
    await told.tell("I bought a red boat in Marseille.")
    await window.sees("2 sessions closed")
    await window.page.get_by_role("tab", name="memories").click()
    await window.sees("red boat")


async def test_the_progress_is_fresh_for_whoever_comes_back(window: Window) -> None:
    await window.open(f"/c/{DEMO}/progress")
    await window.sees("digest")
    async with window.page.expect_response(lambda one: one.url.endswith(f"/{DEMO}/state")):
        await window.page.evaluate("dispatchEvent(new Event('focus'))")


async def test_enter_waits_for_the_list_that_it_chooses_from(window: Window) -> None:
    released = asyncio.Event()

    async def late(route: Route) -> None:
        await released.wait()
        await route.fallback()

    await window.page.route("**/v1/conversations?*", late)
    await window.open()
    search = window.page.get_by_role("searchbox")
    await search.fill("mina-and")
    await search.press("Enter")
    released.set()
    await window.page.wait_for_function("where => location.hash === where", arg=f"#/c/{DEMO}")


# ---- links, paper, and a file of its own


async def test_a_list_is_printed_whole(window: Window) -> None:
    await window.open(f"/c/{DEMO}/memories")
    await window.sees("28 memories")
    rows = window.page.locator(".row")
    assert await rows.count() < 28
    await window.page.emulate_media(media="print")
    await window.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    await rows.nth(27).wait_for()
    heights = "box => [box.clientHeight, box.querySelector('.spacer').clientHeight]"
    box, whole = await window.page.locator(".rows").evaluate(heights)
    assert box == whole
    await window.page.emulate_media(media="screen")
    await window.page.evaluate("dispatchEvent(new Event('afterprint'))")
    await rows.nth(27).wait_for(state="detached")


async def test_a_link_to_a_session_finds_it_among_many(window: Window) -> None:
    await window.open(f"/c/{LARGE}/sessions?s=3")
    await window.sees("sessions 1 and on")
    await window.page.get_by_label("segment 1").wait_for()
    await window.page.locator("li.open .opener").click()
    await window.page.get_by_label("segment 1").wait_for(state="detached")
    await window.sees("sessions 1 and on")


async def test_a_file_names_no_view_that_needs_a_gateway(window: Window, tmp_path: Path) -> None:
    snapshot = await read_snapshot(window.site.gateway.pipeline.store, conversation_key(TENANT, ASKED))
    assert snapshot is not None
    file = tmp_path / "page.html"
    file.write_text(page_file(ASKED, snapshot), encoding="utf-8")
    window.on_file = True
    await window.page.goto(f"{file.as_uri()}#/c/{ASKED}/sessions?s=6")
    await window.page.locator(".lines .reply").wait_for()
    assert await window.page.get_by_text("why this reply?").count() == 0
    await window.go(f"/c/{ASKED}/why?reply=r")
    await window.page.locator(".row").first.wait_for()
