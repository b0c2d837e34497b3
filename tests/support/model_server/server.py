"""An OpenAI-compatible server for tests and benchmarks: answers that fit the schema, and faults on purpose.

``python -m tests.support.model_server.server --port 8099 --delay 0.2 --faults mixed``; ``GET /stats`` counts,
``POST /reset`` forgets.
"""

import argparse
import asyncio
import hashlib
import json
import sys
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

from eunoe.workers.models.questions.answer_forms import FORMS
from eunoe.workers.models.questions.asking import REFUSED_NOTE
from eunoe.workers.models.questions.forms import strict_schema
from eunoe.workers.text.tokens import count_tokens
from tests.support.model_server import plausible
from tests.support.model_server.behaviour import (
    Behaviour,
    Formats,
    Wrap,
    answered,
    pause_s,
    refusal,
    shown,
    with_item_fault,
)
from tests.support.model_server.faults import (
    ANSWER_FAULTS,
    Fault,
    FaultRequest,
    Plan,
    by_rate,
    no_faults,
    parse_rates,
)
from tests.support.model_server.schema_answers import SchemaAnswers, is_strict, wrong_ids


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat completion request."""

    system: str
    user: str
    schema: Mapping[str, Any] | None
    form: str
    """The name of the schema; empty where none was sent."""
    body: Mapping[str, Any]

    @property
    def correcting(self) -> bool:
        """True: it tells what was wrong with an earlier answer."""
        return REFUSED_NOTE in self.user


_MANY = 100_000
"""Answers at once of a server without a limit."""
Script = Callable[[ChatRequest], Any]
"""Gives the answer: a text as it is, or anything else as JSON."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How the server behaves."""

    delay_s: float = 0.0
    slots: int | None = None
    """Answers at once; others wait, and one that its client gives up meanwhile is dropped. None: no limit."""
    faults: Plan = no_faults
    scripts: Mapping[str, Script] = field(default_factory=dict)
    """By the form's name; ``*`` for all others."""
    key: str | None = None
    model: str | None = None
    """The only model it knows; None: it knows all."""
    knows_schema: bool = True
    refuses: frozenset[str] = frozenset()
    """Fields of a request, or words of a schema, that it answers with 400."""
    dimensions: int = 64
    retry_after: str = "0"
    hang_s: float = 30.0
    behaviour: Behaviour = field(default_factory=Behaviour)


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.param = status, code, message, param

    def response(self, headers: Mapping[str, str] | None = None) -> web.Response:
        """As OpenAI words it."""
        error = {"message": self.message, "type": "invalid_request_error", "param": self.param, "code": self.code}
        return web.json_response({"error": error}, status=self.status, headers=headers)


class ModelServer:
    """The server; ``async with ModelServer(settings) as server`` runs it on a free port."""

    def __init__(self, settings: ServerSettings | None = None, port: int = 0) -> None:
        self.settings = settings or ServerSettings()
        self.counts: Counter[str] = Counter()
        self.questions: deque[ChatRequest] = deque(maxlen=10_000)
        """The last ten thousand questions, the oldest first."""
        self.embedded: deque[str] = deque(maxlen=10_000)
        """The last ten thousand texts that were embedded, the oldest first."""
        self._seen: Counter[str] = Counter()
        self._schemas: Counter[str] = Counter()
        self._requests = 0
        self._slots = asyncio.Semaphore(self.settings.slots or _MANY)
        self._port = port
        self._runner: web.AppRunner | None = None

    @property
    def base_url(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def stats(self) -> dict[str, int]:
        """Counts since the start or the last reset; faults as ``fault.<name>``."""
        return {"chat": 0, "embeddings": 0, "corrections": 0, "peak_in_flight": 0, **self.counts}

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 2**20)
        app.add_routes(
            [
                web.post("/v1/chat/completions", self._chat),
                web.post("/v1/embeddings", self._embeddings),
                web.get("/v1/models", self._models),
                web.get("/stats", self._stats),
                web.post("/reset", self._reset),
            ]
        )
        self._runner = web.AppRunner(app, shutdown_timeout=0.2, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=1024)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _stats(self, request: web.Request) -> web.Response:
        return web.json_response(self.stats)

    async def _reset(self, request: web.Request) -> web.Response:
        self.counts.clear()
        self._seen.clear()
        self.questions.clear()
        self._requests = 0
        return web.json_response(self.stats)

    async def _models(self, request: web.Request) -> web.Response:
        """The only model it knows; a server that knows all lists none."""
        if self.settings.model is None:
            return web.Response(status=404)
        return web.json_response({"object": "list", "data": [{"id": self.settings.model, "object": "model"}]})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, "chat", self._answer)

    async def _embeddings(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, "embeddings", self._embed)

    async def _serve(
        self,
        request: web.Request,
        kind: str,
        answer: Callable[[dict[str, Any], Fault | None], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        raw = await request.read()
        fault = self._fault(raw)
        self.counts[kind] += 1
        self.counts["in_flight"] += 1
        self.counts["peak_in_flight"] = max(self.counts["peak_in_flight"], self.counts["in_flight"])
        try:
            async with self._slots:
                if request.transport is not None:
                    await asyncio.sleep(self.settings.delay_s)
            body = json.loads(raw)
            self._admit(request, body)
            failed = await self._fail(request, fault)
            answer_ = await answer(body, fault) if failed is None else failed
        except Refusal as refused:
            return refused.response()
        finally:
            self.counts["in_flight"] -= 1
        truncates = self.settings.behaviour.truncates and kind == "chat"
        return await _truncated(request, answer_) if truncates else answer_

    def _fault(self, raw: bytes) -> Fault | None:
        digest = hashlib.sha256(raw).hexdigest()
        fault = self.settings.faults(FaultRequest(digest, self._seen[digest], self._requests))
        self._seen[digest] += 1
        self._requests += 1
        if fault is not None:
            self.counts[f"fault.{fault}"] += 1
        return fault

    def _admit(self, request: web.Request, body: Mapping[str, Any]) -> None:
        settings = self.settings
        if settings.key is not None and request.headers.get("Authorization") != f"Bearer {settings.key}":
            raise Refusal(401, "invalid_api_key", f"Incorrect API key provided: {request.headers.get('Authorization')}")
        if settings.model is not None and body.get("model") != settings.model:
            raise Refusal(404, "model_not_found", f"The model {body.get('model')} does not exist")

    async def _fail(self, request: web.Request, fault: Fault | None) -> web.StreamResponse | None:
        if fault is Fault.TOO_MANY:
            busy = Refusal(429, "rate_limit_exceeded", "Rate limit reached")
            return busy.response({"Retry-After": self.settings.retry_after})
        if fault is Fault.ERROR:
            return Refusal(500, "server_error", "The server had an error").response()
        if fault is Fault.HANG:
            await asyncio.sleep(self.settings.hang_s)
        if fault is Fault.DROP and request.transport is not None:
            request.transport.abort()
            return web.Response()
        return None

    async def _answer(self, body: dict[str, Any], fault: Fault | None) -> web.StreamResponse:
        behaviour = self.settings.behaviour
        refused = refusal(behaviour, body) if self.counts["refused"] < behaviour.refusals else None
        if refused is not None:
            self.counts["refused"] += 1
            headers = {"Retry-After": self.settings.retry_after} if refused.status == 429 else None
            return web.json_response(refused.body, status=refused.status, headers=headers)
        question = self._read(body)
        self.counts["corrections"] += question.correcting
        self.questions.append(question)
        text = spoil(self._text(question, fault), fault)
        await asyncio.sleep(pause_s(behaviour, body, text) + self._first_use_s(body))
        prompt_tokens = count_tokens(question.system) + count_tokens(question.user)
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": count_tokens(text)}
        self.counts.update(usage)
        choice = answered(behaviour, text, body)
        if fault is Fault.CUT:
            choice["finish_reason"] = "length"
        return web.json_response(
            {
                "id": f"chatcmpl-{self._requests}",
                "object": "chat.completion",
                "created": 0,
                "model": body["model"],
                "choices": [choice],
                "usage": {**usage, "total_tokens": sum(usage.values())},
            }
        )

    def _first_use_s(self, body: Mapping[str, Any]) -> float:
        """Seconds that the schema of a request takes, which it does once."""
        key = shown(body)
        self._schemas[key] += 1
        return self.settings.behaviour.first_use_s if self._schemas[key] == 1 else 0.0

    @property
    def schemas(self) -> int:
        """The number of different schemas that were asked for."""
        return len(self._schemas)

    def _read(self, body: dict[str, Any]) -> ChatRequest:
        texts = {message["role"]: message["content"] for message in body["messages"]}
        wanted = body.get("response_format") or {}
        asked = wanted.get("json_schema") or {}
        self._check_format(body, wanted)
        system, schema, form = texts.get("system", ""), asked.get("schema"), asked.get("name", "")
        if schema is None or self.settings.behaviour.formats is Formats.IGNORED:
            schema, form = told_form(system)
        return ChatRequest(system, texts.get("user", ""), schema, form, body)

    def _check_format(self, body: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
        for word in sorted(self.settings.refuses & body.keys()):
            told = "Use 'max_completion_tokens' instead." if word == "max_tokens" else "It is not supported here."
            raise Refusal(400, "unsupported_parameter", f"Unsupported parameter: '{word}'. {told}", word)
        if wanted.get("type") == "json_schema":
            if not self.settings.knows_schema:
                raise Refusal(
                    400, "invalid_request", "response_format type json_schema is unavailable", "response_format"
                )
            if not is_strict(wanted["json_schema"]["schema"]):
                raise Refusal(400, "invalid_json_schema", "additionalProperties must be false", "response_format")
            written = json.dumps(wanted)
            for word in sorted(word for word in self.settings.refuses if f'"{word}"' in written):
                raise Refusal(400, "invalid_json_schema", f"'{word}' is not permitted", "response_format")
        elif wanted.get("type") == "json_object" and "json" not in json.dumps(body["messages"]).lower():
            raise Refusal(400, "invalid_request", "the messages must contain the word json", "messages")

    def _text(self, question: ChatRequest, fault: Fault | None) -> str:
        script = self.settings.scripts.get(question.form) or self.settings.scripts.get("*")
        if question.schema is None:
            return "OK, but what shall I answer with?"
        made = SchemaAnswers(question.schema, question.user)
        answer = made.make() if script is None else script(question)
        answer = with_item_fault(self.settings.behaviour.items, answer)
        if fault is Fault.WRONG_IDS:
            answer = wrong_ids(answer)
        return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)

    async def _embed(self, body: dict[str, Any], fault: Fault | None) -> web.StreamResponse:
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        if not texts or not all(texts):
            raise Refusal(400, "invalid_request", "input must not be empty", "input")
        self.counts["embedded_texts"] += len(texts)
        self.embedded.extend(texts)
        dimensions = body.get("dimensions") or self.settings.dimensions
        data = [
            {"object": "embedding", "index": index, "embedding": word_vector(text, dimensions)}
            for index, text in enumerate(texts)
        ]
        tokens = sum(map(count_tokens, texts))
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return web.json_response({"object": "list", "model": body["model"], "data": data[::-1], "usage": usage})


def told_form(system: str) -> tuple[Mapping[str, Any] | None, str]:
    """The schema and the form's name that a system text tells: by an example, or by the schema itself."""
    for spec in FORMS:
        if system.endswith(spec.example):
            return strict_schema(spec.form), spec.name
    start = system.rfind("\n{")
    try:
        return (json.loads(system[start:]), "") if start >= 0 else (None, "")
    except ValueError:
        return None, ""


async def _truncated(request: web.Request, whole: web.StreamResponse) -> web.StreamResponse:
    """Half of the answer, and then the connection is cut."""
    assert isinstance(whole, web.Response)
    assert isinstance(whole.body, bytes)
    part = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(whole.body))})
    await part.prepare(request)
    await part.write(whole.body[: len(whole.body) // 2])
    if request.transport is not None:
        request.transport.abort()
    return part


def spoil(text: str, fault: Fault | None) -> str:
    """The answer as the fault leaves it."""
    if fault is Fault.INVALID_JSON:
        return text.rstrip("}] ") + ',, "'
    if fault is Fault.PROSE:
        return "Certainly! Here is what I found in the conversation."
    if fault is Fault.CUT:
        return text[: len(text) // 2]
    return text


def word_vector(text: str, dimensions: int) -> list[float]:
    """Words hashed to signed axes: texts that share words are near. Not of unit length."""
    row = [0.0] * dimensions
    for word in text.lower().split():
        drawn = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
        row[drawn % dimensions] += 1.0 if drawn >> 63 else -1.0
    return row


PLAUSIBLE: Mapping[str, Script] = {
    "Starts": lambda question: plausible.segments(question.user),
    "Memories": lambda question: plausible.memories(question.user),
    "TrickyPair": lambda question: plausible.tricky(question.user),
    "MadeSession": lambda question: plausible.made_session(question.user),
}
"""For forms whose schema leaves room for answers that fail their checks."""


async def _run(settings: ServerSettings, port: int) -> None:
    async with ModelServer(settings, port) as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    """Run until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before every answer")
    parser.add_argument("--faults", default="none", help="none, mixed, or cut=0.1,500=0.05")
    parser.add_argument("--key", help="the only key that is let in")
    parser.add_argument("--dimensions", type=int, default=64)
    parser.add_argument("--cap", type=int, help="the most tokens of an answer")
    parser.add_argument("--context", type=int, help="the most tokens of prompt and answer")
    parser.add_argument("--words", default="openai", help="whose words refusals are in: openai, vllm, tgi …")
    parser.add_argument("--wrap", type=Wrap, default=Wrap.NONE, help=f"around the JSON: {', '.join(Wrap)}")
    parser.add_argument("--formats", type=Formats, default=Formats.HONOURED, help=", ".join(Formats))
    asked = parser.parse_args()
    settings = ServerSettings(
        delay_s=asked.delay,
        faults=by_rate(parse_rates(asked.faults)),
        scripts=PLAUSIBLE,
        key=asked.key,
        dimensions=asked.dimensions,
        behaviour=Behaviour(
            words=asked.words,
            output_cap=asked.cap,
            context=asked.context,
            wrap=asked.wrap,
            formats=asked.formats,
        ),
    )
    try:
        asyncio.run(_run(settings, asked.port))
    except KeyboardInterrupt:
        return


__all__ = ["ANSWER_FAULTS", "ChatRequest", "Fault", "ModelServer", "ServerSettings", "main"]

if __name__ == "__main__":
    main()
