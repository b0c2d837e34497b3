"""The client of model endpoints: what it sends with each request, how it reads answers, and what faults become."""

import asyncio
import gzip
import socket
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx2
import pytest
from aiohttp import web
from openai import APIConnectionError, APIStatusError, AsyncOpenAI

from eunoe.schemas.errors import Unavailable
from eunoe.schemas.model_ports import Prompt
from eunoe.streams.gateway import GatewayConnection, GatewayRequest
from eunoe.workers.models.endpoint.client import Endpoint, EndpointRefused, fault_of
from eunoe.workers.models.endpoint.embedding_endpoint import EndpointEmbedder, EndpointEmbedderSettings
from eunoe.workers.models.endpoint.language_model import OpenAIModel, OpenAISettings
from eunoe.workers.models.endpoint.retrying import NoAnswerInTime
from eunoe.workers.models.questions.answer_forms import QuestionForm, answer_like

BODY = {"model": "m"}
CHAT = "/chat/completions"


@asynccontextmanager
async def served(
    status: int = 200, content: bytes = b"{}", headers: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[int, list[web.Request]]]:
    """The port of an endpoint that gives this answer, and the requests that it got."""
    seen: list[web.Request] = []

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        seen.append(request)
        return web.Response(status=status, body=content, headers=headers)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1], seen
    finally:
        await runner.cleanup()


@asynccontextmanager
async def opened(url: str, key: str | None = None) -> AsyncIterator[AsyncOpenAI]:
    client = Endpoint("m", url, key).open()
    try:
        yield client
    finally:
        await client.close()


async def post(client: AsyncOpenAI) -> httpx2.Response:
    return await client.post(CHAT, cast_to=httpx2.Response, body=BODY)


@pytest.mark.parametrize("slash", ["", "/"])
async def test_what_the_address_asks_for_goes_with_each_request(slash: str):
    async with served() as (port, seen), opened(f"http://127.0.0.1:{port}/v1{slash}?api-version=2&a=%26") as client:
        await post(client)
        await client.get("/models", cast_to=httpx2.Response)
    assert [(one.method, one.path, dict(one.query)) for one in seen] == [
        ("POST", "/v1/chat/completions", {"api-version": "2", "a": "&"}),
        ("GET", "/v1/models", {"api-version": "2", "a": "&"}),
    ]


async def test_a_key_and_its_account_go_with_each_request(monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    async with served() as (port, seen), opened(f"http://127.0.0.1:{port}/v1", "sk-1") as client:
        await post(client)
        assert await seen[0].json() == BODY
    sent = seen[0].headers
    assert sent["Content-Type"] == "application/json"
    assert sent["Authorization"] == "Bearer sk-1"
    assert (sent["OpenAI-Organization"], sent["OpenAI-Project"]) == ("org-1", "proj-1")


async def test_a_login_in_the_address_takes_the_place_of_the_key():
    async with served() as (port, seen), opened(f"http://ann:p%40ss@127.0.0.1:{port}/v1", "sk-1") as client:
        await post(client)
    assert seen[0].headers["Authorization"] == f"Basic {b64encode(b'ann:p@ss').decode()}"
    assert seen[0].host == f"127.0.0.1:{seen[0].url.port}"


def test_faults_name_the_address_without_its_secrets():
    assert Endpoint("m", "http://ann:p%40ss@models.test/v1?key=k-1").server == "m at http://models.test/v1"


async def test_a_packed_answer_is_handed_on_unpacked():
    packed = {"Content-Encoding": "gzip", "X-Request-Id": "r-1"}
    async with (
        served(200, gzip.compress(b'{"a": 1}'), packed) as (port, _),
        opened(f"http://127.0.0.1:{port}/v1") as client,
    ):
        answer = await post(client)
    assert (answer.json(), answer.headers["x-request-id"]) == ({"a": 1}, "r-1")


async def test_a_refusal_keeps_its_status_headers_and_document():
    document = b'{"error": {"code": "c", "param": "p", "message": "m"}}'
    async with (
        served(429, document, {"Retry-After": "7"}) as (port, seen),
        opened(f"http://127.0.0.1:{port}/v1") as client,
    ):
        with pytest.raises(APIStatusError) as caught:
            await post(client)
    error = caught.value
    assert (error.status_code, error.code, error.param) == (429, "c", "p")
    assert (error.response.headers["retry-after"], error.response.content) == ("7", document)
    assert len(seen) == 1, "the stages decide whether it is sent again"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirection_is_not_followed_and_says_what_to_set(status: int):
    async with served() as (elsewhere, seen):
        to = {"Location": f"http://ann:pw@localhost:{elsewhere}/v1{CHAT}?key=k-1"}
        async with served(status, b"<html>moved</html>", to) as (port, _):
            endpoint = Endpoint("m", f"http://127.0.0.1:{port}/v1", "sk-1")
            for fault in (await chat_fault(endpoint), await embedding_fault(endpoint)):
                assert isinstance(fault, EndpointRefused)
                assert str(fault) == (
                    f"m at http://127.0.0.1:{port}/v1 said {status} and redirects to http://localhost:{elsewhere}: "
                    "redirections are not followed; set OPENAI_BASE_URL to the address that answers by itself"
                )
    assert not seen, "what users said went to a place that nobody chose"


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("/v1/chat/completions/", "said 307 and redirects to another path of the same server: "),
        ("http://[", "said 307: "),
        ("mailto:ann@example.org", "said 307: "),
        (None, "said 307: "),
    ],
)
async def test_a_redirection_is_told_whatever_it_names(location: str | None, said: str):
    async with served(307, b"", None if location is None else {"Location": location}) as (port, seen):
        assert said in str(await chat_fault(Endpoint("m", f"http://127.0.0.1:{port}/v1")))
    assert len(seen) == 1, "sent again it would be redirected again"


async def chat_fault(endpoint: Endpoint) -> Exception:
    model = OpenAIModel(OpenAISettings(endpoint))
    prompt = Prompt(name="question/9", system=answer_like(QuestionForm), user="Where is Rex?", max_tokens=256)
    try:
        with pytest.raises(Unavailable) as caught:
            await model.answer(prompt, QuestionForm)
    finally:
        await model.aclose()
    return caught.value


async def embedding_fault(endpoint: Endpoint) -> Exception:
    embedder = EndpointEmbedder(EndpointEmbedderSettings(endpoint, 2))
    try:
        with pytest.raises(Unavailable) as caught:
            await embedder.embed(["Where is Rex?"])
    finally:
        await embedder.aclose()
    return caught.value


async def test_the_authorities_are_read_once_in_a_process(monkeypatch: pytest.MonkeyPatch):
    async with opened("https://127.0.0.1:9/v1"):
        # it takes 40 ms, in which nobody else is served
        monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", None)
        async with opened("https://127.0.0.1:9/v1") as client:
            with pytest.raises(APIConnectionError):
                await post(client)
        async with GatewayConnection("https://127.0.0.1:9", "eu_1", patient=False) as gateway:
            with pytest.raises(Unavailable):
                await gateway.request(GatewayRequest("GET", "/v1/usage"), timeout=5)


async def test_an_endpoint_that_is_away_cannot_be_reached():
    async with opened("http://127.0.0.1:9/v1") as client:
        with pytest.raises(APIConnectionError):
            await post(client)


@pytest.mark.parametrize("cut", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"])
async def test_an_answer_that_is_cut_off_is_none(cut: bytes):
    async with connected(cut) as port, opened(f"http://127.0.0.1:{port}/v1") as client:
        with pytest.raises(APIConnectionError):
            await post(client)


@asynccontextmanager
async def connected(said: bytes) -> AsyncIterator[int]:
    """The port of a server that says this to each request, and closes the connection."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def fault_at(port: int, timeout: float | httpx2.Timeout) -> Exception:
    url = f"http://127.0.0.1:{port}/v1"
    async with opened(url) as client:
        with pytest.raises(APIConnectionError) as caught:
            await post(client.with_options(timeout=timeout))
    return fault_of(caught.value, Endpoint("m", url), 0.0)


async def test_a_server_that_is_slow_is_not_one_that_cannot_be_reached():
    with socket.create_server(("127.0.0.1", 0)) as silent:  # its connections are made, and nobody reads them
        fault = await fault_at(silent.getsockname()[1], 0.1)
    assert isinstance(fault, NoAnswerInTime)
    assert str(fault).endswith("did not answer in 60 s")


async def test_a_server_that_hangs_up_did_not_run_out_of_time():
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        fault = await fault_at(server.sockets[0].getsockname()[1], 5)
    assert not isinstance(fault, NoAnswerInTime)
    assert "cannot be reached" in str(fault)


async def test_a_server_that_takes_no_connection_in_time_cannot_be_reached():
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.create_connection(full.getsockname()):
        # its queue is full: what is sent to it gets no answer
        fault = await fault_at(full.getsockname()[1], httpx2.Timeout(5, connect=0.1))
    assert "cannot be reached: ConnectionTimeoutError" in str(fault)
