"""A small OpenAI-compatible endpoint whose limits and abilities can be set one by one."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from eunoe.workers.text.tokens import count_tokens


@dataclass
class ProbedEndpoint:
    """How the endpoint behaves; it answers as a model that does what it is asked."""

    models: tuple[Mapping[str, Any], ...] | None = ({"id": "m"},)
    """None: it has no list of models."""
    key: str | None = None
    cap: int | None = None
    context: int | None = None
    names_limits: bool = True
    cuts_beginning: bool = False
    """Longer prompts lose their beginning, without a word."""
    schema: str = "followed"
    """followed, ignored, unbounded (bounds are refused), refused."""
    length_field: str = "max_tokens"
    refuses: frozenset[str] = frozenset()
    thoughts: str = ""
    answers_as: str = ""
    """The model that answers name; empty: the one that was asked."""
    busy: int = 0
    """Answers 429 before the first good one."""
    slow_over: int | None = None
    """Prompts of more tokens take ``slow_s``."""
    slow_s: float = 0.0
    fails_at: str = ""
    """Prompts with these words are answered with 500."""
    vector: int = 8
    url: str = ""
    chats: int = 0
    asked: list[dict[str, Any]] = field(default_factory=list)

    @asynccontextmanager
    async def running(self, path: str = "/v1") -> AsyncIterator["ProbedEndpoint"]:
        """Listen on a free port."""
        app = web.Application(client_max_size=2**24)
        app.router.add_get(f"{path}/models", self._models)
        app.router.add_post(f"{path}/chat/completions", self._chat)
        app.router.add_post(f"{path}/embeddings", self._embed)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}{path}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _models(self, request: web.Request) -> web.Response:
        if self.models is None:
            return _refusal(404, "not found")
        return web.json_response({"object": "list", "data": list(self.models)})

    async def _embed(self, request: web.Request) -> web.Response:
        vector = [1.0] * self.vector
        return web.json_response({"data": [{"object": "embedding", "index": 0, "embedding": vector}], "model": "e"})

    async def _chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.chats += 1
        self.asked.append(body)
        if self.busy:
            self.busy -= 1
            return web.json_response({"error": {"message": "slow down"}}, status=429, headers={"Retry-After": "0"})
        if self.key is not None and request.headers.get("Authorization") != f"Bearer {self.key}":
            return _refusal(401, "Incorrect API key provided: sk-secret", "invalid_api_key")
        if self.models is not None and body["model"] not in [one["id"] for one in self.models]:
            return _refusal(404, "no such model", "model_not_found")
        if self.fails_at and self.fails_at in body["messages"][-1]["content"]:
            return web.json_response({"error": {"message": "out of order"}}, status=500)
        if self.slow_over is not None and _tokens(body) > self.slow_over:
            await asyncio.sleep(self.slow_s)
        return self._refused(body) or self._answered(body)

    def _refused(self, body: dict[str, Any]) -> web.Response | None:
        for name in (*self.refuses, *({"max_tokens"} - {self.length_field})):
            if name in body:
                told = "Use 'max_completion_tokens' instead." if name == "max_tokens" else ""
                return _refusal(400, f"Unsupported parameter: '{name}'. {told}", "unsupported_parameter")
        asked, prompt = body[self.length_field], _tokens(body)
        if self.cap is not None and asked > self.cap:
            told = f"This model supports at most {self.cap} completion tokens, whereas you provided {asked}."
            return _refusal(400, f"{self.length_field} is too large: {asked}. {told if self.names_limits else ''}")
        if self.context is not None and not self.cuts_beginning and prompt + (0 if self.cap else asked) > self.context:
            told = f"This model's maximum context length is {self.context} tokens, you requested {prompt + asked}."
            return _refusal(400, told if self.names_limits else "too long")
        form = json.dumps(body.get("response_format", {}))
        if "json_schema" in form and (self.schema == "refused" or (self.schema == "unbounded" and "maxLength" in form)):
            return _refusal(400, "response_format: not supported")
        return None

    def _answered(self, body: dict[str, Any]) -> web.Response:
        user, prompt = body["messages"][-1]["content"], _tokens(body)
        if self.cuts_beginning and self.context is not None and prompt > self.context:
            user, prompt = user[-self.context :], self.context
        text = self.thoughts + self._text(user, body)
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": prompt, "completion_tokens": count_tokens(text)}
        return web.json_response(
            {
                "model": self.answers_as or body["model"],
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                "usage": usage,
            }
        )

    def _text(self, user: str, body: dict[str, Any]) -> str:
        form = body.get("response_format")
        if form is not None:
            names = form["json_schema"]["schema"]["required"] if self.schema != "ignored" else ["colour"]
            return json.dumps(dict.fromkeys(names, "blue"))
        if "Count from" in user:
            return " ".join(map(str, range(1, 151)))
        return "marigold" if "marigold" in user else "ready"


def _tokens(body: Mapping[str, Any]) -> int:
    return sum(count_tokens(message["content"]) for message in body["messages"])


def _refusal(status: int, message: str, code: str | None = None) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return web.json_response({"error": error}, status=status)
