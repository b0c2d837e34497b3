"""Keys, faults, hostile texts, keyboard and refreshing, in a real browser."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest
from playwright.async_api import Route

from eunoe.deploy.gateway.keys import KeyScope
from eunoe.deploy.gateway.page.bundle import page_file
from eunoe.deploy.gateway.page.export import read_snapshot
from eunoe.deploy.generations.followers import tell_followers
from eunoe.schemas.events import SessionEnded, Utterance
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.memory import DerivedReason
from tests.browser.conftest import Window
from tests.support.page import ASKED, DEMO, HOSTILE, LARGE, NOW, RIGHT_TO_LEFT, SCRIPT, START, TENANT

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

STRANGE = f"/c/{quote(HOSTILE, safe='')}"


# ---- keys


async def test_the_key_leaves_the_address_and_stays_in_the_tab(window: Window) -> None:
    await window.open(f"/c/{DEMO}/memories")
    await window.sees("28 memories")
    assert "eu_" not in window.page.url
    await window.page.reload()
    await window.sees("28 memories")
    assert await window.page.evaluate("[document.cookie, localStorage.length]") == ["", 0]
    await window.page.get_by_role("button", name="Forget key").click()
    await window.sees("A key, please")
    await window.page.get_by_label("Key").fill(window.site.key)
    await window.page.get_by_role("button", name="Open").click()
    await window.sees("28 memories")


async def test_a_wrong_key_is_asked_for_again(window: Window) -> None:
    window.expects_faults = True
    await window.open(key="eu_nobody_nothing")
    await window.sees("The gateway does not know this key.")
    await window.page.get_by_label("Key").fill(window.site.key)
    await window.page.get_by_role("button", name="Open").click()
    await window.sees(DEMO)


async def test_a_view_beyond_the_key_names_the_scope(window: Window) -> None:
    window.expects_faults = True
    few = window.site.gateway.key(TENANT, frozenset({KeyScope.MEMORY_READ}))
    for where, scope in (("/letters", "dead-letters:read"), (f"/c/{DEMO}/progress", "operate")):
        await window.open(where, few)
        await window.sees(f"this key lacks the scope '{scope}'")


# ---- many conversations


async def test_a_search_finds_what_is_not_listed_yet(window: Window) -> None:
    pages = {None: "team-770", "2": "team-8", "3": "team-77"}
    nexts = {None: "2", "2": "3", "3": None}

    async def listed(route: Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        cursor = query.get("cursor", [None])[0]
        one = {"conversation_id": pages[cursor], "active": "2025-11-10T09:00:00Z"}
        await route.fulfill(json={"conversations": [one], "next": nexts[cursor]})

    window.expects_faults = True  # there are no such conversations
    await window.page.route("**/v1/conversations?*", listed)
    await window.open()
    search = window.page.get_by_role("searchbox")
    await search.fill("team-7")
    await window.page.get_by_text("team-77", exact=True).wait_for()
    assert await window.page.locator(".card").count() == 2
    await search.fill("team-9")
    await window.sees("No id holds this")
    await search.fill("team-77")
    await search.press("Enter")
    await window.page.wait_for_function("location.hash === '#/c/team-77'")


async def test_a_fault_announces_no_try_where_none_is_made(window: Window) -> None:
    window.expects_faults = True
    await window.open(f"/c/{DEMO}/ask")
    await window.page.get_by_label("Question").fill("Where?")
    await window.page.context.set_offline(True)
    await window.page.get_by_role("button", name="Ask", exact=True).click()
    await window.sees("The gateway does not answer. Is it running?")
    assert "Trying again" not in await window.page.locator("main").inner_text()


# ---- answers that take their time


async def test_a_late_answer_is_shown_though_its_stream_broke(window: Window) -> None:
    log, broken = window.site.gateway.log, 0

    async def break_behind_accepted(route: Route) -> None:
        nonlocal broken
        sent = route.request
        asking = {"content": sent.post_data_buffer, "headers": await sent.all_headers(), "timeout": 20}
        async with httpx.AsyncClient() as client, client.stream("POST", sent.url, **asking) as answer:
            lines = [line async for line in _until_blank(answer)]
        broken += 1
        await route.fulfill(content_type="text/event-stream", body="\n".join((*lines, "", "")))

    await window.page.route(f"**/{ASKED}/asks", break_behind_accepted)
    log.lagging = True
    try:
        await window.open(f"/c/{ASKED}/ask?q=Where+does+Mina+live%3F&by=Jonas")
        async with window.page.expect_request(f"**/{ASKED}/asks/*"):
            await window.page.get_by_role("button", name="Ask", exact=True).click()
    finally:
        await log.catch_up()
    await window.sees("The reply")
    assert (broken, "reply=" in window.page.url) == (1, True)


async def test_an_answer_that_takes_longer_than_the_gateway_waits_is_awaited_on(window: Window) -> None:
    waits, log = window.site.gateway.app.gateway.settings, window.site.gateway.log
    window.site.gateway.app.gateway = replace(
        window.site.gateway.app.gateway, settings=waits.model_copy(update={"max_wait_seconds": 0.2})
    )
    log.lagging = True
    try:
        await window.open(f"/c/{ASKED}/ask?q=Where+does+Mina+live%3F&by=Ben")
        async with window.page.expect_request(f"**/{ASKED}/asks/*"):
            await window.page.get_by_role("button", name="Ask", exact=True).click()
    finally:
        await log.catch_up()
        window.site.gateway.app.gateway = replace(window.site.gateway.app.gateway, settings=waits)
    await window.page.wait_for_url("**reply=**")
    await window.sees("It cites")


async def test_a_stream_on_which_nothing_comes_is_opened_again(window: Window) -> None:
    await window.page.clock.install(time=NOW)
    async with window.page.expect_request(f"**/{ASKED}/remembered"):
        await window.open(f"/c/{ASKED}/memories")
    await window.page.locator(".row").first.wait_for()
    async with window.page.expect_request(f"**/{ASKED}/remembered"):
        await window.page.clock.run_for(50_000)


async def _until_blank(answer: httpx.Response) -> AsyncIterator[str]:
    """The lines of the first event."""
    async for line in answer.aiter_lines():
        if not line:
            return
        yield line


async def test_a_late_answer_changes_nothing_in_another_view(window: Window) -> None:
    log = window.site.gateway.log
    log.lagging = True
    try:
        await window.open(f"/c/{ASKED}/ask?q=Where+does+Mina+live%3F&by=Jonas")
        async with window.page.expect_request(f"**/{ASKED}/asks"):
            await window.page.get_by_role("button", name="Ask", exact=True).click()
        async with window.page.expect_event("requestfailed", lambda request: request.url.endswith("/asks")):
            await window.go(f"/c/{ASKED}/memories")
    finally:
        await log.catch_up()
    await window.page.locator(".row").first.wait_for()
    assert "reply=" not in window.page.url


# ---- texts of strangers


async def test_hostile_texts_are_shown_as_they_are(window: Window) -> None:
    for view, text in (("sessions?s=1", "<script>"), ("memories?status=all", "<b>Ann</b>"), ("tree", "<b>Ann</b>")):
        await window.open(f"{STRANGE}/{view}")
        await window.page.locator(".said").filter(has_text=text).first.wait_for()
        assert await window.page.title() == f"{HOSTILE} – eunoe"
        assert await window.page.locator("#page b b, #page i, #page img").count() == 0
        assert await window.page.locator("#page script").count() == 0
    await window.open(f"{STRANGE}/sessions?s=1")
    await window.sees(SCRIPT)
    await window.sees(RIGHT_TO_LEFT)
    said = window.page.get_by_text(RIGHT_TO_LEFT)
    assert await said.evaluate("one => getComputedStyle(one).direction") == "rtl"
    await window.page.get_by_role("button", name="all 32,").click()
    await window.page.get_by_role("button", name="less").wait_for()


async def test_a_long_memory_written_from_right_to_left_is_cut_at_its_end(window: Window) -> None:
    about = {"tenant": TENANT, "conversation_id": "layla", "session_id": "s"}
    text = "اشتريت سيارة جديدة من نوع Toyota Corolla بمبلغ 12,500 دينار في عمان يوم 3 آذار " * 3
    said = Utterance(**about, utterance_id="l1", speaker="ليلى", text=text, at=START)
    await window.site.gateway.log.append([said])
    await window.site.gateway.log.append([SessionEnded(**about, at=START)])
    await window.page.set_viewport_size({"width": 360, "height": 740})
    await window.open("/c/layla/memories")
    await window.sees("Toyota")
    first = """() => {
        const said = document.querySelector(".row .said"), letter = document.createRange();
        letter.setStart(said.firstChild, 0);
        letter.setEnd(said.firstChild, 1);
        const row = said.closest(".row").getBoundingClientRect(), at = letter.getBoundingClientRect();
        return [at.right - row.left, row.right - at.right];
    }"""
    left, right = await window.page.evaluate(first)
    assert left > 0
    assert right > 0


async def test_the_browser_refuses_markup_made_of_text(window: Window) -> None:
    await window.open()
    await window.sees(DEMO)
    refused = "() => { try { document.body.innerHTML = '<b>x</b>' } catch (fault) { return fault.name } }"
    assert await window.page.evaluate(refused) == "TypeError"
    assert any("TrustedHTML" in fault for fault in window.faults)
    window.faults.clear()


# ---- faults


async def test_a_server_that_is_away_leaves_what_was_shown_and_comes_back(window: Window) -> None:
    window.expects_faults = True
    await window.open(f"/c/{DEMO}/sessions?s=1")
    await window.sees("You never answered on Friday")
    states = window.site.gateway.states
    states.away = True
    try:
        await window.page.locator(".opener").nth(1).click()
        await window.sees("Trying again in")
        assert await window.page.get_by_text("9 Nov 2025").count()
    finally:
        states.away = False
    await window.page.get_by_text("Trying again in").first.wait_for(state="detached")
    await window.page.locator(".segment").first.wait_for()


# ---- keyboard


async def test_all_is_reached_by_keyboard(window: Window) -> None:
    page = window.page
    await window.open(f"/c/{DEMO}/memories")
    await window.sees("28 memories")
    await page.get_by_role("tab", name="memories").focus()
    await page.keyboard.press("ArrowRight")
    await window.sees("No insights")
    await page.keyboard.press("ArrowLeft")
    await window.sees("28 memories")
    box = page.get_by_role("listbox", name="Memories")
    await box.focus()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await window.sees("It rests on")
    assert await box.evaluate("one => one === document.activeElement")
    await page.keyboard.press("Escape")
    await page.get_by_text("It rests on").wait_for(state="detached")


async def test_arrows_open_and_close_the_tree(window: Window) -> None:
    page = window.page
    await window.open(f"/c/{LARGE}/tree")
    await page.get_by_role("treeitem").first.wait_for()
    await page.get_by_role("tree").focus()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowRight")
    await page.locator("[aria-level='2']").first.wait_for()
    assert "open=node-1-0" in page.url
    await page.keyboard.press("ArrowLeft")
    await page.locator("[aria-level='2']").first.wait_for(state="detached")


async def test_arrows_go_along_a_lane(window: Window) -> None:
    page = window.page
    await window.open(f"/c/{LARGE}/timelines?t=00000001-0000-5000-8000-000000000000")
    await page.locator(".mem").first.wait_for()
    await page.locator(".mem").first.focus()
    for number in (11, 21):
        await page.keyboard.press("ArrowRight")
        await page.wait_for_function(
            "id => document.activeElement.dataset.id === id", arg=f"{number:08d}-0000-5000-8000-000000000000"
        )
    await page.keyboard.press("Enter")
    await window.sees("It rests on")


# ---- changes


async def test_what_is_open_refreshes_itself(window: Window) -> None:
    about = {"tenant": TENANT, "conversation_id": "fresh", "session_id": "s"}
    gateway = window.site.gateway

    async def tell(number: int, text: str) -> None:
        said = Utterance(**about, utterance_id=f"f{number}", speaker="Ann", text=text, at=START)
        await gateway.log.append([said, SessionEnded(**about, at=START)])

    await tell(1, "I moved to Lyon in March.")
    async with window.page.expect_response(lambda one: one.url.endswith("/fresh/remembered")):
        await window.open("/c/fresh/memories")
    await window.sees("1 session closed")
    await tell(2, "I bought a red boat in Marseille.")
    await window.sees("2 sessions closed")
    await window.sees("red boat")


async def test_what_was_said_meanwhile_is_shown_to_whoever_comes_back(window: Window) -> None:
    about = {"tenant": TENANT, "conversation_id": "meanwhile", "speaker": "Ann", "at": START}

    async def say(number: int) -> None:
        said = Utterance(**about, utterance_id=f"u{number}", text=f"I bought book {number}.")
        await window.site.gateway.log.append([said])

    await say(1)
    await window.open("/c/meanwhile/sessions")
    await window.sees("1 line in 1 open session")
    await say(2)
    await window.page.evaluate("dispatchEvent(new Event('focus'))")
    await window.sees("2 lines in 1 open session")
    await say(3)
    await window.page.get_by_role("tab", name="memories").click()
    await window.sees("3 lines in 1 open session")


async def test_what_is_remembered_before_the_feed_begins_is_shown(window: Window) -> None:
    about = {"tenant": TENANT, "conversation_id": "early", "session_id": "s"}
    page, gateway = window.page, window.site.gateway

    async def tell(number: int, text: str) -> None:
        said = Utterance(**about, utterance_id=f"b{number}", speaker="Ann", text=text, at=START)
        await gateway.log.append([said, SessionEnded(**about, at=START)])

    async def late(route: Route) -> None:
        await window.sees("1 session closed")  # read before the feed, which keeps the page from nothing
        await tell(2, "I bought a red boat in Marseille.")
        await route.continue_()

    await tell(1, "I moved to Lyon in March.")
    await page.route("**/early/remembered", late)
    await window.open("/c/early/memories")
    await window.sees("2 sessions closed")
    await window.sees("red boat")


async def test_a_page_whose_feed_begins_reads_once(window: Window) -> None:
    asked: list[str] = []
    window.page.on("request", lambda one: asked.append(one.url))
    async with window.page.expect_response(lambda one: one.url.endswith(f"/{DEMO}/remembered")):
        await window.open(f"/c/{DEMO}/memories")
    await window.sees("28 memories")
    assert sum(url.endswith(f"/{DEMO}") for url in asked) == 1


async def test_what_is_remembered_between_two_streams_is_shown_after_a_promotion(window: Window) -> None:
    about = {"tenant": TENANT, "conversation_id": "promoted", "session_id": "s"}
    page, gateway = window.page, window.site.gateway

    async def tell(number: int, text: str) -> None:
        said = Utterance(**about, utterance_id=f"m{number}", speaker="Ann", text=text, at=START)
        await gateway.log.append([said, SessionEnded(**about, at=START)])

    await tell(1, "I moved to Lyon in March.")
    async with page.expect_response(lambda one: one.url.endswith("/promoted/remembered")):
        await window.open("/c/promoted/memories")
    await window.sees("1 session closed")
    before = gateway.states.state
    try:
        async with page.expect_response(lambda one: one.url.endswith("/promoted")):
            gateway.states.state = replace(before, generation="v2")
        await tell(2, "I bought a red boat in Marseille.")  # the stream has ended, and the next has not begun
        await window.sees("2 sessions closed")
    finally:
        gateway.states.state = before


async def test_what_was_erased_leaves_the_open_page(window: Window) -> None:
    about = {"tenant": TENANT, "conversation_id": "erased", "session_id": "s"}
    gateway = window.site.gateway

    async def tell(number: int, text: str) -> None:
        said = Utterance(**about, utterance_id=f"e{number}", speaker="Ann", text=text, at=START)
        await gateway.log.append([said, SessionEnded(**about, at=START)])

    async def without_lyon(route: Route) -> None:
        answer = await route.fetch()
        page = await answer.json()
        page["memories"] = [one for one in page["memories"] if "Lyon" not in one["memory"]["text"]]
        await route.fulfill(response=answer, json=page)

    await tell(1, "I moved to Lyon in March.")
    async with window.page.expect_response(lambda one: one.url.endswith("/erased/remembered")):
        await window.open("/c/erased/memories")
    await window.sees("Lyon")
    await window.page.route("**/erased/memories?*", without_lyon)
    await tell(2, "I bought a red boat in Marseille.")
    await window.sees("red boat")
    await window.page.get_by_text("1 memory", exact=True).wait_for()
    assert await window.page.get_by_text("Lyon").count() == 0


@pytest.mark.parametrize(
    ("view", "label"), [("ask", "Question"), ("ask", "asked by"), ("ask", "budget"), ("why", "Reply")]
)
async def test_what_is_typed_stays_when_the_page_refreshes(window: Window, view: str, label: str) -> None:
    log, name = window.site.gateway.log, f"typed-{label[-2:]}"
    first, second = ({"tenant": TENANT, "conversation_id": name, "session_id": one} for one in ("first", "second"))
    for about, said in ((first, "I moved to Lyon in March."), (second, "I bought a red boat.")):
        await log.append([Utterance(**about, utterance_id=about["session_id"], speaker="Ann", text=said, at=START)])
        if about is first:
            await log.append([SessionEnded(**about, at=START)])
            async with window.page.expect_response(lambda one: one.url.endswith("/remembered")):
                await window.open(f"/c/{name}/{view}")
            await window.page.get_by_label(label).fill("700")
    await log.append([SessionEnded(**second, at=START)])
    await window.sees("2 sessions")
    assert await window.page.get_by_label(label).input_value() == "700"


async def test_an_erasure_alone_leaves_nothing_of_it_on_the_open_page(window: Window) -> None:
    about = {"tenant": TENANT, "conversation_id": "derived", "session_id": "s"}
    gateway, key = window.site.gateway, conversation_key(TENANT, "derived")
    said = Utterance(**about, utterance_id="d1", speaker="Ann", text="I moved to Lyon in March.", at=START)
    await gateway.log.append([said, SessionEnded(**about, at=START)])
    lyon = window.page.get_by_text("Lyon")

    async def without(route: Route) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, json={**(await answer.json()), "memories": []})

    async with window.page.expect_response(lambda one: one.url.endswith("/derived/remembered")):
        await window.open("/c/derived/memories")
    await lyon.first.wait_for()
    await window.page.route("**/derived/memories?*", without)
    await tell_followers(gateway.log, key, DerivedReason.ERASED)
    await window.sees("Nothing is remembered yet")
    assert await lyon.count() == 0
    await window.go("/c/derived/ask")
    await window.page.get_by_label("Question").fill("Where does Ann live?")
    await window.page.get_by_role("button", name="Recall only").click()
    await lyon.first.wait_for()
    await tell_followers(gateway.log, key, DerivedReason.ERASED)
    await window.sees("A question here leaves no trace.")
    assert await lyon.count() == 0


async def test_a_conversation_that_is_gone_is_not_shown_on(window: Window) -> None:
    window.expects_faults = True
    about = {"tenant": TENANT, "conversation_id": "gone", "session_id": "s"}
    await window.site.gateway.log.append(
        [Utterance(**about, utterance_id="g1", speaker="Ann", text="I moved to Lyon.", at=START)]
    )
    await window.site.gateway.log.append([SessionEnded(**about, at=START)])
    async with window.page.expect_response(lambda one: one.url.endswith("/gone/remembered")):
        await window.open("/c/gone/memories")
    await window.sees("Lyon")

    async def gone(route: Route) -> None:
        await route.fulfill(status=404, content_type="application/problem+json", json={"title": "Not Found"})

    await window.page.route("**/v1/conversations/gone*", gone)
    more = Utterance(**about, utterance_id="g2", speaker="Ann", text="I bought a red boat.", at=START)
    await window.site.gateway.log.append([more])
    await window.site.gateway.log.append([SessionEnded(**about, at=START)])
    await window.sees("Not Found")
    assert await window.page.get_by_text("Lyon").count() == 0


async def test_a_key_that_was_revoked_is_asked_for_again_and_refreshing_goes_on(window: Window) -> None:
    window.expects_faults = True
    about = {"tenant": TENANT, "conversation_id": "revoked", "session_id": "s"}
    gateway = window.site.gateway

    async def tell(number: int, text: str) -> None:
        said = Utterance(**about, utterance_id=f"r{number}", speaker="Ann", text=text, at=START)
        await gateway.log.append([said, SessionEnded(**about, at=START)])

    await tell(1, "I moved to Lyon in March.")
    key = gateway.key(TENANT)
    async with window.page.expect_response(lambda one: one.url.endswith("/revoked/remembered")):
        await window.open("/c/revoked/sessions", key)
    await window.sees("1 session closed")
    gateway.keys.revoke([key.split("_")[1]])
    await tell(2, "I bought a red boat in Marseille.")
    await window.sees("The gateway does not know this key.")
    await window.page.get_by_label("Key").fill(window.site.key)
    async with window.page.expect_response(lambda one: one.url.endswith("/revoked/remembered") and one.ok):
        await window.page.get_by_role("button", name="Open").click()
    await window.sees("2 sessions closed")
    await tell(3, "I sold the red boat in Marseille.")
    await window.sees("3 sessions closed")


async def test_a_phone_shows_the_tab_of_its_view_and_no_field_beyond_its_edge(window: Window) -> None:
    about = {"tenant": TENANT, "conversation_id": "long name", "session_id": "s"}
    said = Utterance(**about, utterance_id="n1", speaker="Wolfeschlegelstein" * 5, text="I moved to Lyon.", at=START)
    await window.site.gateway.log.append([said])
    await window.site.gateway.log.append([SessionEnded(**about, at=START)])
    await window.page.set_viewport_size({"width": 360, "height": 740})
    await window.open("/c/long%20name/memories")
    await window.sees("1 memory")
    assert await window.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    await window.open(f"/c/{DEMO}/generations")
    await window.page.get_by_role("tab", name="generations").wait_for()
    edges = "(tab) => { const box = tab.getBoundingClientRect(); return [box.left, box.right]; }"
    left, right = await window.page.get_by_role("tab", name="generations").evaluate(edges)
    assert 0 <= left < right <= 360


async def test_a_link_leads_to_its_session_and_a_short_list_leaves_no_empty_box(window: Window) -> None:
    await window.page.set_viewport_size({"width": 390, "height": 400})
    await window.open(f"/c/{DEMO}/sessions?s=1")
    await window.page.get_by_label("segment 1").wait_for()
    top = "opener => opener.getBoundingClientRect().top"
    assert 0 <= await window.page.locator("li.open .opener").evaluate(top) < 300
    await window.page.set_viewport_size({"width": 1280, "height": 800})
    await window.go(f"/c/{DEMO}/memories?q=surgery")
    await window.page.locator(".row").first.wait_for()
    heights = "box => [box.clientHeight, box.querySelector('.spacer').clientHeight]"
    box, rows = await window.page.locator(".rows").evaluate(heights)
    assert box == rows < 400


async def test_a_dead_letter_is_discarded_only_after_a_question(window: Window) -> None:
    page = window.page
    await window.open("/letters")
    await page.get_by_role("link", name="invalid at intake").click()
    await page.get_by_role("button", name="Discard …").click()
    await page.get_by_role("button", name="Cancel").click()
    await page.locator("dialog").wait_for(state="detached")
    assert await page.get_by_role("button", name="Discard …").is_enabled()
    await page.get_by_role("button", name="Discard …").click()
    await page.get_by_role("button", name="Discard", exact=True).click()
    await page.get_by_role("button", name="Discard …").wait_for(state="detached")
    await window.sees("discarded 20")


async def test_escape_closes_a_dead_letter_and_first_the_question_about_it(window: Window) -> None:
    page = window.page
    await window.open("/letters?closed=1")
    card, panel = page.locator("a.card").first, page.get_by_label("The dead letter")
    await card.press("Enter")
    await panel.wait_for()
    await card.press("Escape")
    await panel.wait_for(state="detached")
    assert await page.get_by_label("resolved ones too").is_checked()
    about = {"tenant": TENANT, "conversation_id": "escaped", "utterance_id": "w1", "speaker": "Ann", "at": START}
    await window.site.gateway.log.append([Utterance(**about, text=text) for text in ("I moved to Lyon.", "I stayed.")])
    await window.open("/letters")
    await page.get_by_role("link", name="conflict at intake").filter(has_text="escaped").click()
    await page.get_by_role("button", name="Discard …").click()
    await page.get_by_role("button", name="Cancel").press("Escape")
    await page.locator("dialog").wait_for(state="detached")
    await page.get_by_role("button", name="Discard …").press("Escape")
    await panel.wait_for(state="detached")


async def test_a_dead_letter_names_its_conversation_and_leads_there(window: Window) -> None:
    name = "what went/wrong"
    about = {"tenant": TENANT, "conversation_id": name, "utterance_id": "w1", "speaker": "Ann", "at": START}
    for text in ("I moved to Lyon.", "I moved to Nice."):  # one id for two texts
        await window.site.gateway.log.append([Utterance(**about, text=text)])
    await window.open("/letters?closed=1")
    card = window.page.get_by_role("link", name="conflict at intake").filter(has_text=name)
    await card.click()
    await window.page.get_by_role("link", name=name, exact=True).wait_for()
    await window.page.get_by_role("link", name="Close").click()
    assert await window.page.get_by_label("resolved ones too").is_checked()
    await card.click()
    await window.page.get_by_role("link", name=name, exact=True).click()
    await window.page.get_by_role("heading", name=name).wait_for()


async def test_of_an_erased_conversation_it_is_told_that_nothing_is_kept(window: Window) -> None:
    about = {"tenant": TENANT, "conversation_id": "emptied", "session_id": "s"}
    said = Utterance(**about, utterance_id="e1", speaker="Ann", text="I moved to Lyon.", at=START)
    await window.site.gateway.log.append([said, SessionEnded(**about, at=START)])

    async def without_segments(route: Route) -> None:
        answer = await route.fetch()
        found = await answer.json()
        nothing = {"segments": 0 if "sessions" in found else [], "lines": []}
        await route.fulfill(response=answer, json={**found, **nothing})

    await window.page.route("**/v1/conversations/emptied", without_segments)
    await window.page.route("**/v1/conversations/emptied/sessions/1", without_segments)
    await window.open("/c/emptied/sessions?s=1")
    await window.sees("1 session closed · nothing of them is kept")
    await window.sees("Nothing is kept of it: it was erased, or skipped")


# ---- a file of its own


async def test_a_conversation_is_read_from_a_file_without_a_server(window: Window, tmp_path: Path) -> None:
    page = window.page
    window.on_file = True
    for conversation in (DEMO, HOSTILE):
        snapshot = await read_snapshot(window.site.gateway.pipeline.store, conversation_key(TENANT, conversation))
        assert snapshot is not None
        file = tmp_path / "page.html"
        file.write_text(page_file(conversation, snapshot), encoding="utf-8")
        await page.goto("about:blank")
        await page.goto(file.as_uri())
        await page.locator(".row").first.click()
        await window.sees("It rests on")
        assert await page.get_by_role("tab").all_inner_texts() == [
            "sessions",
            "memories",
            "insights",
            "timelines",
            "tree",
        ]
        for tab in ("sessions", "timelines", "tree"):
            await page.get_by_role("tab", name=tab).click()
            await page.locator("[role=tabpanel] > *").first.wait_for()
        assert await page.get_by_role("alert").count() == 0
