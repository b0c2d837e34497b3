"""A conversation as a file of its own: it carries what the page asks for, and nothing in it becomes markup."""

import base64
import json
import re

import pytest

from eunoe.deploy.gateway.page.assets import assets
from eunoe.deploy.gateway.page.bundle import page_file
from eunoe.deploy.gateway.page.export import grouped, read_snapshot
from eunoe.schemas.events import Provenance
from eunoe.schemas.relations import Relation
from eunoe.workers.link.graph import Edge
from tests.support.gateway import LATER, TestGateway, make_gateway, told

C = "/v1/conversations/c"


@pytest.fixture
def gateway(tmp_path) -> TestGateway:
    return make_gateway(tmp_path)


async def snapshot_of(gateway: TestGateway) -> dict:
    found = await read_snapshot(gateway.pipeline.store, "acme/c")
    assert found is not None
    return json.loads(found)


async def test_it_carries_what_the_gateway_answers(gateway):
    async with gateway.client() as client:
        await told(client)
        await told(client, events=LATER)
        carried = await snapshot_of(gateway)
        assert carried["conversation"] == "c"
        answers = carried["answers"]
        whole = (await client.get(C)).json()
        assert answers["v1/conversations/c"] == {**whole, "position": None}
        listed = (await client.get(f"{C}/memories?status=all")).json()["memories"]
        assert carried["memories"] == listed
        for path, answer in answers.items():
            if path == "v1/conversations/c":
                continue
            given = (await client.get(f"/{path}")).json()
            found = answers[answer] if isinstance(answer, str) else answer
            if "/timelines/" in path:  # any memory names its group; which one stands for it does not matter
                assert (found["memories"], found["edges"]) == (given["memories"], given["edges"])
            elif "/sessions/" in path:
                assert found == {**given, "position": None}
            else:
                assert found == given, path


async def test_an_unknown_conversation_has_none(gateway):
    assert await read_snapshot(gateway.pipeline.store, "acme/nobody") is None


def test_the_file_is_whole_and_no_text_ends_its_element():
    text = "</script><script>alert(1)</script><!--"
    made = page_file("<i>c</i>", json.dumps({"conversation": text}).encode())
    assert "<title>&lt;i&gt;c&lt;/i&gt; – eunoe</title>" in made
    assert made.count("</script>") == 3
    (carried,) = re.findall(r'id="carried">(.*?)</script>', made)
    assert json.loads(carried) == {"conversation": text}
    assert not re.search(r"(?:src|href)=\"(?!data:)", made)
    (imports,) = re.findall(r'type="importmap">(.*?)</script>', made)
    modules = json.loads(imports)["imports"]
    assert len(modules) == sum(asset.name.endswith(("js", "mjs")) for asset in assets().values())
    for module in modules.values():
        source = base64.b64decode(module.partition("base64,")[2]).decode()
        assert 'from "./' not in source
        assert set(re.findall(r'from "(eunoe/[^"]+)"', source)) <= modules.keys()


def test_linked_memories_are_one_group():
    made_by = Provenance(code="drawn", model="drawn")
    pairs = [("a", "c"), ("c", "d"), ("b", "x")]
    edges = [Edge(older=older, relation=Relation.CAUSE, newer=newer, made_by=made_by) for older, newer in pairs]
    assert grouped(["a", "b", "c", "d"], edges) == [["a", "c", "d"], ["b"]]
