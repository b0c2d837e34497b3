"""Plans erasures in a process of its own: a plan reads the log, which would hold up the streams of a gateway."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import orjson

from eunoe.deploy.exits import Exit
from eunoe.deploy.gateway.erasures import ErasurePlan
from eunoe.deploy.gateway.problems import Problem
from eunoe.deploy.local.children import dies_with_parent
from eunoe.schemas.erasure import ErasureRequest
from eunoe.schemas.errors import Refused, Unavailable

PLAN_S: Final = 60.0
"""Seconds for a plan, without the wait for those before it."""


@dataclass(frozen=True, slots=True)
class PlanCommand:
    """Runs `eunoe erase plan`, one at a time; the command finds the servers as this process did.

    Of each tenant one plan is made or waits: those of one tenant do not stand before those of all others.
    """

    command: Sequence[str] = (sys.executable, "-m", "eunoe.deploy.cli")
    seconds: float = PLAN_S
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)
    _tenants: set[str] = field(default_factory=set)
    """Those of which a plan is made or waits."""

    async def plan(self, tenant: str, conversation_id: str, request: ErasureRequest) -> ErasurePlan:
        """The extent of the request.

        Raises `Problem`: 409 where it cannot be carried out, 429; `Refused` where the deployment is at fault, as by a
        server that refuses the login, and `Unavailable`.
        """
        words = ["erase", "plan", "--json", f"--tenant={tenant}", *_named(request), "--", conversation_id]
        if tenant in self._tenants:
            raise Problem(429, "a plan of this tenant is being made; wait for it", headers={"Retry-After": "5"})
        self._tenants.add(tenant)
        try:
            code, out, message = await self._made(words)
        finally:
            self._tenants.discard(tenant)
        if code == Exit.USAGE:
            raise _refusal(out, message)
        if code != Exit.OK:
            raise Unavailable(f"`eunoe erase plan` ended with {code}: {message}", "the planner")
        (found,) = orjson.loads(out)
        return ErasurePlan(level=found["level"], utterances=found["utterances"], places=found["places"])

    async def _made(self, words: Sequence[str]) -> tuple[int, bytes, str]:
        try:
            async with self._one, asyncio.timeout(self.seconds):
                return await _run(dies_with_parent([*self.command, *words]))
        except TimeoutError:
            raise Unavailable(f"no plan within {self.seconds:g} s", "the planner") from None


def _refusal(out: bytes, message: str) -> Exception:
    """The fault of the request, which the output names, or of the deployment, whose details are for its operator."""
    with suppress(ValueError, KeyError, TypeError):
        return Problem(409, str(orjson.loads(out)["refused"]))
    return Refused(f"`eunoe erase plan`: {message}")


def _named(request: ErasureRequest) -> list[str]:
    if request.session is not None:
        return [f"--session={request.session}"]
    return [f"--utterance={id_}" for id_ in request.utterance_ids]


async def _run(command: Sequence[str]) -> tuple[int, bytes, str]:
    """The exit code, the output, and the last line on standard error; the process ends when the caller is cancelled."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    try:
        out, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = said.decode(errors="replace").strip().splitlines()
    return process.returncode or 0, out, lines[-1] if lines else ""
