"""Every view on the demo's conversation and on a large one: what it shows, its looks, its accessibility."""

from datetime import datetime, timedelta, timezone
from urllib.parse import quote

import pytest
from _pytest.mark import ParameterSet

from eunoe.schemas.events import SessionEnded, Utterance
from tests.browser.chromium import AXE
from tests.browser.conftest import Window
from tests.support.page import ASKED, DEMO, HOSTILE, LARGE, LONG, QUESTION, TENANT

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

CHAIN = f"/c/{LARGE}/timelines?t=00000001-0000-5000-8000-000000000000"
ASK = f"/c/{DEMO}/ask?q={quote(QUESTION)}&by=Jonas"
VIEWS = {
    "conversations": ("/", "mina-and-jonas"),
    "sessions": (f"/c/{DEMO}/sessions?s=2", "Progress report: no surgery!"),
    "memories": (f"/c/{DEMO}/memories", "28 memories"),
    "timelines": (f"/c/{LARGE}/timelines", "3 timelines"),
    "lanes": (f"{CHAIN}&m=00000011-0000-5000-8000-000000000000", "1,000 memories, 9"),
    "table": (f"{CHAIN}&as=table", "Goes on from"),
    "insights": (f"/c/{LARGE}/insights", "Ben mentioned matter 9993"),
    "no-insights": (f"/c/{DEMO}/insights", "No insights"),
    "no-timelines": (f"/c/{DEMO}/timelines", "No memories are linked"),
    "tree": (f"/c/{LARGE}/tree?open=node-1-0,node-2-0,node-3-0", "Ann mentioned matter 0 of the garden."),
    "ask": (ASK, "A question here leaves no trace"),
    "why": (f"/c/{DEMO}/why", "Which reply?"),
    "progress": (f"/c/{DEMO}/progress", "No work is unfinished."),
    "generations": (f"/c/{DEMO}/generations", "They differ in"),
    "processes": ("/processes", "2 waiting for model.internal"),
    "dead-letters": ("/letters/intake:conversations:1:95", "Retry …"),
    "large-memories": (f"/c/{LARGE}/memories?m=00009993-0000-5000-8000-000000000000", "Ben mentioned matter 9993"),
    "large-sessions": (f"/c/{LARGE}/sessions", "sessions 951 and on"),
    "hostile": (f"/c/{quote(HOSTILE, safe='')}/sessions?s=1", "and my sister Eva works in Oslo."),
    "unknown": ("/c/nobody/memories", "there is no such conversation"),
}
TELLING = ("sessions", "memories", "lanes", "ask", "generations", "processes", "dead-letters")
SERIOUS = """async () => (await axe.run(document, {resultTypes: ['violations']})).violations
    .filter(one => ['serious', 'critical'].includes(one.impact))
    .map(one => `${one.id}: ${one.nodes.slice(0, 3).map(node => node.html.slice(0, 160)).join(' | ')}`)"""


def in_short(scheme: str) -> list[ParameterSet]:
    """All views in a scheme; but for the most telling ones they are left to the whole suite."""
    return [pytest.param(name, scheme, marks=() if name in TELLING else pytest.mark.slow) for name in VIEWS]


async def show(window: Window, name: str) -> None:
    where, text = VIEWS[name]
    window.expects_faults = name == "unknown"
    await window.open(where)
    await window.sees(text)


@pytest.mark.parametrize(("name", "scheme"), [*((name, "light") for name in VIEWS), *in_short("dark")])
async def test_a_view_is_shown_and_has_no_serious_fault(window: Window, name: str, scheme: str) -> None:
    await window.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    await window.page.add_init_script(path=AXE)
    await show(window, name)
    await window.page.wait_for_load_state("networkidle") if name == "conversations" else None
    await window.picture(f"{name}-{scheme}")
    assert await window.page.evaluate(SERIOUS) == []


@pytest.mark.parametrize(("name", "scheme"), in_short("light"))
async def test_a_view_fits_a_phone(window: Window, name: str, scheme: str) -> None:
    await window.page.emulate_media(color_scheme=scheme)
    await window.page.set_viewport_size({"width": 360, "height": 740})
    await show(window, name)
    await window.picture(f"{name}-phone")
    assert await window.page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("width", [360, 390, 430])
async def test_no_words_of_the_bar_and_the_search_are_broken_on_a_phone(window: Window, width: int) -> None:
    await window.page.set_viewport_size({"width": width, "height": 800})
    await show(window, "conversations")
    heights = "[...document.querySelectorAll('.bar nav > *')].map(one => one.getClientRects()[0].height)"
    assert max(await window.page.evaluate(heights)) < 30
    tops = "new Set([...document.querySelectorAll('.bar nav > *')].map(one => Math.round(one.offsetTop / 8))).size"
    assert await window.page.evaluate(tops) == 1
    search = window.page.get_by_role("searchbox")
    assert (await search.bounding_box() or {"width": 0})["width"] > 250


@pytest.mark.parametrize("name", ["large-memories", "large-sessions", "tree", "lanes", "timelines"])
async def test_a_large_conversation_draws_only_what_is_in_view(window: Window, name: str) -> None:
    await show(window, name)
    if name == "large-memories":
        await window.page.get_by_text("older ones are loading").wait_for(state="detached", timeout=120_000)
        await window.sees("8,573 memories")
    assert await window.page.evaluate("document.querySelectorAll('*').length") < 1_500
    rows = window.page.locator(".rows")
    if await rows.count():
        await rows.evaluate("box => { box.scrollTop = box.scrollHeight }")
        await window.page.wait_for_function("document.querySelector('.row:last-child').getAttribute('aria-setsize')")
        assert await window.page.evaluate("document.querySelectorAll('*').length") < 1_500


async def test_a_timeline_of_10_000_is_whole_and_drawn_in_parts(window: Window) -> None:
    page = window.page
    await window.open(f"/c/{LONG}/timelines?t=00000001-0000-5000-8000-000000000000")
    await page.locator(".mem").first.wait_for()
    await page.get_by_role("status").filter(has_text="10,000 memories, 9,99").wait_for(timeout=60_000)
    await window.picture("long-timeline-light")
    assert await page.evaluate("document.querySelectorAll('*').length") < 1_500
    box = page.locator(".lanes")
    await box.evaluate("box => { box.scrollLeft = box.scrollWidth }")
    await page.locator("[data-id='00009999-0000-5000-8000-000000000000']").wait_for()
    assert await page.evaluate("document.querySelectorAll('*').length") < 1_500
    await page.locator(".overview").click(position={"x": 5, "y": 20})
    await page.locator("[data-id='00000041-0000-5000-8000-000000000000']").wait_for()


async def test_the_slider_goes_back_to_what_was_known(window: Window) -> None:
    await show(window, "memories")
    slider = window.page.get_by_label("As known")
    await slider.focus()
    await slider.press("Home")
    await window.sees("before the first session")
    await slider.press("ArrowRight")
    await window.sees("after session 1")
    await window.page.wait_for_url("**at=1**")
    assert 0 < await window.page.get_by_role("option").count() < 26


async def test_a_memory_says_until_when_it_holds(window: Window) -> None:
    await window.open(f"/c/{ASKED}/memories?q=porto")
    plan = window.page.get_by_role("option").filter(has_text="Porto in October")
    assert "until 31 Oct 2025" in await plan.inner_text()
    await plan.click()
    await window.page.locator("aside").get_by_text("until 31 Oct 2025").wait_for()


async def test_days_and_hours_are_those_of_the_speakers_clock(window: Window) -> None:
    at = datetime(2026, 6, 1, 20, tzinfo=timezone(-timedelta(hours=7)))
    who = {"tenant": TENANT, "conversation_id": "los-angeles"}
    text = "I will meet Bob at the lake tomorrow."
    said = Utterance(**who, utterance_id="u1", speaker="Ann", text=text, at=at)
    await window.site.gateway.pipeline.produce(said, SessionEnded(**who, at=at))
    await window.open("/c/los-angeles/memories")
    plan = window.page.get_by_role("option").filter(has_text="tomorrow (2 June 2026)")
    assert "1 Jun 2026" in await plan.inner_text()
    assert "until 2 Jun 2026" in await plan.inner_text()
    await window.open("/c/los-angeles/sessions?s=1")
    await window.sees("20:00")


async def test_a_reply_in_a_transcript_leads_to_its_reasons(window: Window) -> None:
    await window.open(f"/c/{ASKED}/sessions?s=6")
    await window.page.get_by_role("link", name="why this reply?").click()
    await window.sees("It cites")
    assert "/why?reply=" in window.page.url
    for folded in ("Shown, but not cited", "Memories that rest on these", "The memory as it stood in the prompt"):
        await window.page.get_by_text(folded).click()
    await window.page.locator(".context .marked").first.wait_for()
    await window.picture("why-light")


async def test_a_reply_without_reasons_says_where_else_it_may_come_from(window: Window) -> None:
    window.expects_faults = True  # the browser tells of the answer 404
    await window.open(f"/c/{ASKED}/why?reply=imported-1")
    await window.sees("No reasons are kept for this reply")
    await window.sees("imported replies, and those of another assistant, have none")


async def test_someone_new_finds_out_why_a_reply_is_what_it_is(window: Window) -> None:
    """From the list to the utterance behind a reply, in six clicks."""
    page = window.page
    await window.open()
    await page.get_by_role("link", name=DEMO).click()
    await page.get_by_role("tab", name="ask").click()
    await page.get_by_label("Question").fill("Where does Jonas work since August?")
    await page.get_by_role("button", name="Ask", exact=True).click()
    await window.sees("It cites")
    await window.picture("asked-light")
    await page.emulate_media(color_scheme="dark")
    await window.picture("asked-dark")
    await page.locator(".because a").first.click()
    await window.sees("It rests on")
    await window.sees("known since")
    await window.picture("memory-light")
    await page.locator(".panel blockquote a").first.click()
    await page.locator(".lines .cited").wait_for()


async def test_where_mina_lives_is_quoted_and_what_was_left_out_is_named(window: Window) -> None:
    """Four clicks to the utterance; no memory was formed of it, and the page says so."""
    page = window.page
    await window.open()
    await page.get_by_role("link", name=DEMO).click()
    await page.get_by_role("tab", name="ask").click()
    await page.get_by_label("Question").fill(QUESTION)
    await page.get_by_role("button", name="Ask", exact=True).click()
    await window.sees("five minutes from the beach in Matosinhos")
    await window.sees("No memory rests on these lines")
    await page.get_by_text("Found, but left out").click()
    await page.get_by_text("ranked below all that is shown").first.wait_for()
    await page.locator("blockquote a").first.click()
    await page.locator(".lines .cited").wait_for()
    await window.sees("known since")


async def test_recall_only_shows_memory_and_asks_no_model(window: Window) -> None:
    await show(window, "ask")
    await window.page.get_by_role("button", name="Recall only").click()
    await window.sees("What memory gives for a prompt")
