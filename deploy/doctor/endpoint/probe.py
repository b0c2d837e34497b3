"""One probing request to an endpoint, and its answer."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
import orjson

from eunoe.workers.models.endpoint.client import Endpoint, fault_of, refusal_of, retry_after_of
from eunoe.workers.models.endpoint.refusals import RefusalKind, RefusalReading

CHAT = "/chat/completions"
SHORT_TOKENS = 1024
"""The longest bound of an answer that counts as short."""
_MAX_PAUSE_S = 5.0
_THROTTLED = 429


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """The answer to one probe: a completion, or a fault."""

    seconds: float
    fault: Exception | None = None
    """The fault as the pipeline names it; `None` for a completion."""
    status: int = 200
    """HTTP status; 0 without a response."""
    refusal: RefusalReading | None = None
    """The meaning of a refused request."""
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The content of the first choice; empty where there is none."""
        content = self._message.get("content")
        return content if isinstance(content, str) else ""

    @property
    def thought(self) -> bool:
        """Whether the model thought before it answered."""
        message = self._message
        told = any(isinstance(message.get(name), str) and message[name] for name in ("reasoning_content", "reasoning"))
        details = self._usage.get("completion_tokens_details")
        counted = isinstance(details, dict) and bool(details.get("reasoning_tokens"))
        return told or counted or self.text.lstrip().startswith(("<think", "<reason"))

    @property
    def cut(self) -> bool:
        """Whether the answer ended at the limit of its tokens."""
        return self._choice.get("finish_reason") == "length"

    @property
    def prompt_tokens(self) -> int | None:
        """Tokens of the prompt as the endpoint counts them."""
        return _count(self._usage.get("prompt_tokens"))

    @property
    def completion_tokens(self) -> int | None:
        """Tokens of the answer as the endpoint counts them, thoughts included."""
        return _count(self._usage.get("completion_tokens"))

    def refuses(self, *parameters: str) -> bool:
        """Whether the endpoint does not understand one of these parameters."""
        reading = self.refusal
        understood = reading is None or reading.kind is not RefusalKind.NOT_UNDERSTOOD
        return not understood and reading is not None and bool(reading.parameters & set(parameters))

    @property
    def is_refused(self) -> bool:
        """Whether the request, not the key or the model, was refused."""
        refusal = self.refusal
        return self.status in {400, 413, 422} and refusal is not None and refusal.kind is not RefusalKind.DEPLOYMENT

    @property
    def is_completion(self) -> bool:
        """Whether the body is that of a chat completion."""
        return bool(self._choice)

    @property
    def _choice(self) -> Mapping[str, Any]:
        choices = self.body.get("choices")
        return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}

    @property
    def _message(self) -> Mapping[str, Any]:
        message = self._choice.get("message")
        return message if isinstance(message, dict) else {}

    @property
    def _usage(self) -> Mapping[str, Any]:
        usage = self.body.get("usage")
        return usage if isinstance(usage, dict) else {}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


class Prober:
    """Asks an endpoint small questions, without the retries and bounds of the pipeline's client."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.length_field = "max_tokens"
        """The name of the bound of an answer; changed by the first refusal that names another."""
        self.room = 0
        """Tokens added to the bound of a short answer, for thoughts before it."""
        self.throttled = 0
        """Answers 429."""
        self._client = endpoint.open()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def chat(self, user: str, max_tokens: int, **parameters: object) -> ProbeAnswer:
        """Ask one question; ``parameters`` are further fields of the request."""
        messages = [{"role": "system", "content": "You answer briefly."}, {"role": "user", "content": user}]
        asked = {"model": self.endpoint.model, "messages": messages, **parameters}
        max_tokens += self.room if max_tokens <= SHORT_TOKENS else 0
        answer = await self._post(CHAT, {**asked, self.length_field: max_tokens})
        if self.length_field == "max_tokens" and answer.refuses("max_tokens", "max_completion_tokens"):
            self.length_field = "max_completion_tokens"
            answer = await self._post(CHAT, {**asked, self.length_field: max_tokens})
        return answer

    async def embed(self, text: str, model: str) -> ProbeAnswer:
        """Embed one text."""
        return await self._post("/embeddings", {"model": model, "input": [text], "encoding_format": "float"})

    async def models(self) -> list[Mapping[str, Any]] | None:
        """The models that the endpoint lists; `None` where it lists none."""
        answer = await self._send("GET", "/models", None)
        listed = answer.body.get("data")
        return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else None

    async def _post(self, path: str, body: Mapping[str, Any]) -> ProbeAnswer:
        answer = await self._send("POST", path, body)
        for _ in range(2):
            if answer.status != _THROTTLED:
                break
            self.throttled += 1
            await asyncio.sleep(_pause_of(answer))
            answer = await self._send("POST", path, body)
        return answer

    async def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> ProbeAnswer:
        from openai import APIStatusError, OpenAIError  # noqa: PLC0415 - see eunoe.workers.models.endpoint.client

        started = time.monotonic()
        try:
            if method == "GET":
                response = await self._client.get(path, cast_to=httpx2.Response)
            else:
                response = await self._client.post(path, cast_to=httpx2.Response, body=body)
            content = orjson.loads(response.content)
        except APIStatusError as error:
            fault, seconds = fault_of(error, self.endpoint, time.time()), time.monotonic() - started
            headers = dict(error.response.headers)
            return ProbeAnswer(seconds, fault, error.status_code, refusal_of(error), headers=headers)
        except (OpenAIError, ValueError) as error:
            return ProbeAnswer(time.monotonic() - started, fault_of(error, self.endpoint, time.time()), status=0)
        told = content if isinstance(content, dict) else {}
        return ProbeAnswer(time.monotonic() - started, body=told, headers=dict(response.headers))


def _pause_of(answer: ProbeAnswer) -> float:
    """Seconds to wait after a 429."""
    asked = retry_after_of(answer.headers, time.time())
    return 1.0 if asked is None else min(_MAX_PAUSE_S, asked)
