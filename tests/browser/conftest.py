"""One browser and one gateway for all tests, and for each a window that must stay without faults."""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, async_playwright

from eunoe.deploy.gateway.server import serving
from tests.browser.chromium import AXE, FLAGS, HOW, find_chromium
from tests.support.gateway import ALL, TestGateway
from tests.support.page import NOW, TENANT, make_page_gateway

REPORTS = Path(__file__).parents[2] / "reports" / "page"


@dataclass
class Site:
    """The gateway, its address and a key for everything."""

    gateway: TestGateway
    url: str
    key: str


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    found = find_chromium()
    if found is None or not AXE.exists():
        if os.environ.get("EUNOE_BROWSER_REQUIRED"):
            pytest.fail(HOW)
        pytest.skip(HOW)
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(
            executable_path=found.path,
            args=list(FLAGS),
            env=found.environment or None,
            ignore_default_args=["--disable-ipc-flooding-protection"],  # a reader's browser has it
        )
        yield started
        await started.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    gateway = await make_page_gateway(tmp_path_factory.mktemp("page"))
    async with serving(gateway.app, "127.0.0.1:0") as url:
        yield Site(gateway, url, gateway.key(TENANT))


@dataclass
class Window:
    """A window of the page, and all that went wrong in it."""

    page: Page
    site: Site
    expects_faults: bool = False
    """Whether requests may fail: the browser notes these as errors."""
    on_file: bool = False
    """Whether the page is a file, which is all that may be read."""
    faults: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.on("pageerror", lambda fault: self.faults.append(f"error: {fault}"))
        self.page.on("console", self._console)
        self.page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        failed = message.text.startswith("Failed to load resource")
        if message.type in ("error", "warning") and not (failed and self.expects_faults):
            self.faults.append(f"{message.type}: {message.text}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith(("data:", "file:" if self.on_file else self.site.url)):
            self.faults.append(f"a request to {request.url}")

    async def open(self, where: str = "/", key: str | None = None) -> None:
        """Open the page with a key, at a place like ``/c/large/tree``."""
        await self.page.goto("about:blank")
        await self.page.goto(f"{self.site.url}/#key={key or self.site.key}&view={quote(where)}")

    async def go(self, where: str) -> None:
        """Change to another place, as a link would."""
        await self.page.evaluate("where => { location.hash = where }", f"#{where}")

    async def sees(self, text: str, timeout_s: float = 20) -> None:
        await self.page.get_by_text(text).first.wait_for(timeout=timeout_s * 1000)

    async def picture(self, name: str) -> None:
        REPORTS.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=REPORTS / f"{name}.png")


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    made = await browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB", timezone_id="UTC")
    made.set_default_timeout(20_000)
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="session")
async def window(context: BrowserContext, site: Site) -> AsyncIterator[Window]:
    made = Window(await context.new_page(), site)
    await made.page.clock.set_fixed_time(NOW)
    made.watch()
    yield made
    assert made.faults == []


__all__ = ["ALL", "Site", "Window"]
