"""The TypeScript example: its types are generated from the OpenAPI document, it is compiled, and talks to a gateway."""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.applications import Starlette

from eunoe.deploy.gateway.server import serving
from tests.support.endpoint import asgi_served
from tests.support.gateway import make_gateway, told

pytestmark = [pytest.mark.slow, pytest.mark.needs("node"), pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
FILES = ROOT / "deploy" / "docs" / "typescript"
DOCUMENT = ROOT / "deploy" / "contracts" / "openapi.json"
GENERATE = ("npx", "openapi-typescript", str(DOCUMENT), "--default-non-nullable", "false", "-o", "schema.d.ts")


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-3000:]} {done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the compiled example."""
    folder = tmp_path_factory.mktemp("typescript") / "files"
    shutil.copytree(FILES, folder)
    run("npm", "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", cwd=folder)
    run(*GENERATE, cwd=folder)
    run("npx", "tsc", "-p", ".", cwd=folder)
    return folder


async def test_the_compiled_client_adds_an_utterance_and_recalls_it(built: Path, tmp_path: Path):
    gateway = make_gateway(tmp_path)
    async with gateway.served() as http:
        key = http.headers["authorization"].split()[1]
        words = ("node", "built/client.js", str(http.base_url).rstrip("/"))
        shown = json.loads(await asyncio.to_thread(run, *words, key, "지민 & Ann/1", cwd=built))
        again = json.loads(await asyncio.to_thread(run, *words, key, "지민 & Ann/1", cwd=built))
    assert again["position"] != shown["position"]
    assert shown["position"]["topic"] == "conversations"
    assert [line["text"] for line in shown["dialogue"]] == ["I moved to Lyon last week."]


async def test_the_compiled_follower_goes_on_where_its_stream_broke(built: Path, tmp_path: Path):
    gateway = make_gateway(tmp_path)
    key = gateway.key()
    async with serving(gateway.app, "127.0.0.1:0") as url:
        words = ("built/follow.js", url, key, "지민 & Ann/1")
        following = await asyncio.create_subprocess_exec("node", *words, cwd=built, stdout=asyncio.subprocess.PIPE)
        assert following.stdout is not None
        assert (await following.stdout.readline()).startswith(b"ready ")
    async with gateway.client() as client:  # while it is cut off
        await told(client, quote("지민 & Ann/1", safe=""))
    gateway.app.gateway.closing.clear()
    async with serving(gateway.app, url.removeprefix("http://")):
        rest, _ = await following.communicate()
    assert following.returncode == 0
    *_, last = rest.decode().splitlines()
    assert last.startswith("remembered ")
    assert json.loads(last.partition(" ")[2])["session"] == 1


@pytest.mark.parametrize("program", ["client", "follow"])
async def test_a_compiled_program_says_in_one_line_why_it_is_refused(program: str, built: Path, tmp_path: Path):
    async with serving(make_gateway(tmp_path).app, "127.0.0.1:0") as url:
        words = ("node", f"built/{program}.js", url, "eu_none", "c")
        done = await asyncio.to_thread(subprocess.run, words, cwd=built, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    (said,) = done.stderr.splitlines()
    assert said.startswith("401: the key is unknown, revoked or expired")


@pytest.mark.parametrize(
    ("program", "address", "key", "why"),
    [
        ("client", None, "eu_x", "404: no answer of a gateway: check the address"),
        ("follow", None, "eu_x", "404: no answer of a gateway: check the address"),
        ("follow", "localhost:1", "eu_x", "localhost:1/v1/conversations/c/remembered: no http:// or https:// address"),
        ("follow", "http://localhost:1", "eu_지", "Cannot convert argument to a ByteString"),
    ],
)
async def test_a_compiled_program_ends_where_it_can_never_be_answered(
    program: str, address: str | None, key: str, why: str, built: Path
):
    async with asgi_served(Starlette()) as elsewhere:
        words = ("node", f"built/{program}.js", address or elsewhere, key, "c")
        done = await asyncio.to_thread(subprocess.run, words, cwd=built, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    (said,) = done.stderr.splitlines()
    assert said.startswith(why)


@pytest.mark.parametrize("program", ["client", "follow"])
def test_a_compiled_program_without_its_arguments_says_which(program: str, built: Path):
    words = ("node", f"built/{program}.js")
    done = subprocess.run(words, cwd=built, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == f"usage: node built/{program}.js ADDRESS KEY CONVERSATION\n"
    assert done.returncode == 2


def test_a_body_of_another_type_does_not_compile(built: Path):
    text = (built / "client.ts").read_text()
    wrong = text.replace("budget_tokens: 800", 'budget_tokens: "800"')
    assert wrong != text
    (built / "wrong.ts").write_text(wrong)
    config = json.loads((built / "tsconfig.json").read_text()) | {"files": ["wrong.ts"]}
    (built / "wrong.json").write_text(json.dumps(config))
    done = subprocess.run(
        ("npx", "tsc", "-p", "wrong.json"),
        cwd=built,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert done.returncode != 0
    assert "Type 'string' is not assignable to type 'number'" in done.stdout
