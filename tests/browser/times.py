"""Measures the page: time to the first content, and frames while it moves: ``python -m tests.browser.times``."""

import asyncio
import tempfile
from pathlib import Path
from typing import Final

from playwright.async_api import Browser, async_playwright

from eunoe.deploy.gateway.server import serving
from tests.browser.chromium import FLAGS, HOW, find_chromium
from tests.support.page import LONG, TENANT, make_page_gateway

SIZES: Final = (60, 1_000, 10_000)
VIEWS: Final = {
    "memories": ("memories?status=all", ".row", ".rows", "scrollTop", 58),
    "timeline": ("timelines?t=00000001-0000-5000-8000-000000000000", ".mem", ".lanes", "scrollLeft", 40),
    "tree": ("tree?open=node-1-0,node-2-0,node-3-0", ".row", ".rows", "scrollTop", 40),
}
"""View → its place, a mark, the box that scrolls, along which way, pixels a frame."""
FRAMES: Final = 60
FIRST: Final = """mark => {
    const seen = () => document.querySelector(mark) && (window.firstAt ??= performance.now());
    new MutationObserver(seen).observe(document, { childList: true, subtree: true });
}"""
WHOLE: Final = "() => !/are loading| of [0-9,]+ memories|Loading/.test(document.body.innerText)"
LAST: Final = "performance.getEntriesByType('resource').reduce((last, one) => Math.max(last, one.responseEnd), 0)"
MOVE: Final = """async ([box, way, step, frames]) => {
    const moving = document.querySelector(box);
    const times = [];
    let before = await new Promise(requestAnimationFrame);
    for (let frame = 0; frame < frames; frame += 1) {
        moving[way] += step;
        const now = await new Promise(requestAnimationFrame);
        times.push(now - before);
        before = now;
    }
    times.sort((one, other) => one - other);
    return [times[frames >> 1], times[Math.floor(frames * 0.95)]];
}"""


async def measure() -> None:
    """Print a row for each view and size: first content in seconds, frames in milliseconds, nodes of the document."""
    found = find_chromium()
    if found is None:
        raise SystemExit(HOW)
    print("view, memories: first content s, whole s, frame ms (median, 95 %), nodes")
    async with async_playwright() as playwright:
        environment = dict(found.environment) or None
        browser = await playwright.chromium.launch(executable_path=found.path, args=list(FLAGS), env=environment)
        for size in SIZES:
            with tempfile.TemporaryDirectory() as folder:
                await _measure_size(browser, Path(folder), size)
        await browser.close()


async def _measure_size(browser: Browser, folder: Path, size: int) -> None:
    gateway = await make_page_gateway(folder, size)
    async with serving(gateway.app, "127.0.0.1:0") as url:
        address = f"{url}/#key={gateway.key(TENANT)}"
        for view in VIEWS:
            print(f"{view}, {size:,}: {await _measure_view(browser, address, view)}", flush=True)


async def _measure_view(browser: Browser, address: str, view: str) -> str:
    place, mark, box, way, step = VIEWS[view]
    page = await browser.new_page(viewport={"width": 1280, "height": 800})
    await page.add_init_script(f"({FIRST})({mark!r})")
    await page.goto(f"{address}&view=/c/{LONG}/{place}")
    await page.locator(mark).first.wait_for()
    first = await page.evaluate("window.firstAt")
    await page.wait_for_function(WHOLE, timeout=120_000)
    whole = await page.evaluate(LAST)
    half, most = await page.evaluate(MOVE, [box, way, step, FRAMES])
    nodes = await page.evaluate("document.querySelectorAll('*').length")
    await page.close()
    return f"{first / 1000:.2f} s, {whole / 1000:.2f} s, {half:.0f} and {most:.0f} ms, {nodes} nodes"


if __name__ == "__main__":
    asyncio.run(measure())
