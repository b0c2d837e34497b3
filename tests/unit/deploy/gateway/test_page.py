"""The page's files as the gateway serves them: types, headers, tags; and that they hold to their own policy."""

import hashlib
import re

import httpx
import pytest

from eunoe.deploy.gateway.page.assets import FILES_PATH, HEADERS, PAGE_PATH, POLICY, assets
from tests.support.gateway import TestGateway, make_gateway

OWN = {path: asset for path, asset in assets().items() if asset.name not in ("htm-preact.mjs", "VENDORED.txt")}
SCRIPTS = {path: asset.content.decode() for path, asset in OWN.items() if asset.name.endswith(".js")}


@pytest.fixture
def gateway(tmp_path) -> TestGateway:
    return make_gateway(tmp_path)


def stranger(gateway: TestGateway) -> httpx.AsyncClient:
    """A client without a key."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=gateway.app), base_url="http://gateway")


async def test_every_file_is_served_without_a_key_and_with_all_headers(gateway):
    async with stranger(gateway) as client:
        for path, asset in assets().items():
            found = await client.get(path)
            assert (found.status_code, found.content) == (200, asset.content), path
            assert {name: found.headers[name] for name in HEADERS} == HEADERS
            assert found.headers["Content-Type"] == asset.type
            assert "set-cookie" not in found.headers
            head = await client.head(path)
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers["Content-Length"] == str(len(asset.content))


async def test_a_known_file_is_not_sent_again(gateway):
    async with stranger(gateway) as client:
        tag = (await client.get(PAGE_PATH)).headers["ETag"]
        for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            again = await client.get(PAGE_PATH, headers={"If-None-Match": known})
            assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
            assert again.headers["Content-Security-Policy"] == POLICY
        assert (await client.get(PAGE_PATH, headers={"If-None-Match": '"other"'})).status_code == 200


@pytest.mark.parametrize("path", ["/page/", "/page/assets.py", "/page/../keys.json", "/page/main.js/x", "/favicon.ico"])
async def test_nothing_else_is_served(gateway, path):
    async with stranger(gateway) as client:
        assert (await client.get(path)).status_code == 404


async def test_the_page_takes_no_other_method(gateway):
    async with stranger(gateway) as client:
        refused = await client.post(PAGE_PATH)
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD")


def test_the_policy_lets_nothing_from_elsewhere_in():
    directives = dict(part.split(" ", 1) for part in POLICY.split("; "))
    assert directives["default-src"] == "'none'"
    assert directives["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in POLICY
    assert "http" not in POLICY
    assert "*" not in POLICY


@pytest.mark.parametrize("path", OWN)
def test_no_file_makes_markup_of_text_or_names_another_origin(path):
    text = OWN[path].content.decode()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function|javascript:", text)
    assert not re.search(r"dangerouslySetInnerHTML|document\.cookie|localStorage", text)
    assert not re.search(r"https?://", text)
    assert not re.search(r"<[a-z]+[^>`]*\sstyle=\"|\son[a-z]+=\"", text)


def test_every_import_is_there_and_every_module_is_reached():
    named = {path: set(re.findall(r'from "\./([^"]+)"', text)) for path, text in SCRIPTS.items()}
    for path, names in named.items():
        assert {FILES_PATH + name for name in names} <= assets().keys(), path
    reached, level = set[str](), {f"{FILES_PATH}main.js"}
    while level:
        reached |= level
        level = {FILES_PATH + name for path in level for name in named.get(path, ())} - reached
    assert SCRIPTS.keys() <= reached
    document = assets()[PAGE_PATH].content.decode()
    assert {f"/{name}" for name in re.findall(r'(?:href|src)="(page/[^"]+)"', document)} <= assets().keys()


def test_the_vendored_file_is_the_one_that_is_named():
    notice = assets()[f"{FILES_PATH}VENDORED.txt"].content.decode()
    digest = hashlib.sha256(assets()[f"{FILES_PATH}htm-preact.mjs"].content).hexdigest()
    assert digest in notice


def test_the_page_stays_small():
    sizes = {path: len(asset.content.splitlines()) for path, asset in OWN.items()}
    assert max(sizes.values()) <= 300
    assert sum(sizes.values()) <= 2_500
