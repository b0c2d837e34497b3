"""Commands that erase beside a conversation that is written to all the time: receipts of the others, then code 69."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from typing import Any, cast

import pytest

from eunoe.deploy.cli import erase, retention, unsay
from eunoe.deploy.cli.main import _run, _run_called
from eunoe.deploy.exits import Exit
from eunoe.deploy.generations.erase import batch
from eunoe.deploy.generations.erase import retention as sweeps
from eunoe.deploy.generations.erase.finishing import Erased, Finished
from eunoe.deploy.generations.erase.receipt import Outcome, Receipt
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.generations.handled_log import StillWritten, Unhandled
from eunoe.deploy.inspect.differences import GenerationDiff
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import Erasure, ErasureDone, ErasureLevel, ErasureRequest
from eunoe.schemas.errors import ErasedAlready, Unavailable
from tests.support.memory.erasures import MemoryErasures

NOW = datetime(2026, 11, 1, tzinfo=UTC)
BUSY, ERASED, AHEAD, AWAY = "acme/busy", "acme/erased", "acme/ahead", "acme/away"
FINISHES = "`eunoe erase replay` finishes what has begun there"


def receipt_of(key: str) -> Receipt:
    return Receipt(
        request_id=key, level=ErasureLevel.TENANT, subject="s", requested=NOW, done=NOW, utterances=1, places=(),
        remains=(), not_covered=(),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Twin(Eraser):
    """An eraser of conversations of one tenant, of which one is written to all the time."""

    there: tuple[str, ...] = ()

    async def conversations(self, tenant_prefix: str) -> list[str]:
        return [key for key in self.there if key.startswith(tenant_prefix)]

    async def begin(self, request: ErasureRequest) -> Erasure:
        if request.key == ERASED:
            raise ErasedAlready(f"{ERASED}: already erased: nothing was said in it since")
        if request.key == AHEAD:
            raise Unhandled(f"{AHEAD}: intake has not handled 1 of the records that the log holds of it")
        return cast("Erasure", request)

    async def plan(self, request: ErasureRequest) -> Erasure:
        await self.begin(request)
        if request.key.startswith(AWAY):
            raise Unavailable("Qdrant does not answer", "Qdrant")
        return Erasure(request_id="r", key=request.key, level=ErasureLevel.TENANT, at=NOW, until=0, salt="s")

    async def erase(self, erasures: Sequence[Erasure]) -> Erased:
        if erasures[0].key == BUSY:
            raise StillWritten(f"{BUSY}: new records came in during each of 20 attempts to derive it; try again later")
        if erasures[0].key.startswith(AWAY):
            raise Unavailable("Qdrant does not answer", "Qdrant")
        return Erased(erasures, 0, (), Outcome({}, (), ()))

    async def finish(self, batch: Sequence[Erased]) -> Finished:
        for one in (each for erased in batch for each in erased.erasures):
            await self.ledger.finish(ErasureDone(request_id=one.request_id, key=one.key, at=NOW, receipt="{}"))
        return Finished([receipt_of(one.key) for one in batch])

    @asynccontextmanager
    async def planning(self) -> AsyncIterator[Any]:
        yield self

    async def check_generations(self) -> None:
        pass

    async def sessions(self, key: str) -> int:
        return 1

    async def unfinished(self, key: str | None = None) -> list[Erasure]:
        """Those of the ledger; where nothing is asked for, one in each conversation."""
        if not await self.ledger.requests():
            return [cast("Erasure", asked(key)) for key in self.there]
        return await self.ledger.erasures()


def asked(key: str) -> ErasureRequest:
    return ErasureRequest(request_id=key, key=key, at=NOW)


def code_of(
    monkeypatch: pytest.MonkeyPatch,
    there: Sequence[str],
    arguments: Sequence[str],
    opened_with: list[dict[str, bool]] | None = None,
    ledger: MemoryErasures | None = None,
) -> int:
    """The exit code of a command where the tenant has these conversations; how it opens its eraser is noted."""

    @asynccontextmanager
    async def opened(**how: bool) -> AsyncIterator[Eraser]:
        if opened_with is not None:
            opened_with.append(how)
        yield Twin(Settings(), ledger or MemoryErasures(), there=tuple(there))

    async def outdated(*_: object) -> list[ErasureRequest]:
        return [asked(key) for key in there]

    async def trusted_now(_: Settings) -> datetime:
        return NOW

    async def compared(eraser: Twin, request: ErasureRequest) -> Any:
        return await eraser.carry_out(await eraser.begin(request)), GenerationDiff()

    for module in (erase, retention, unsay):
        monkeypatch.setattr(module, "opened_eraser", opened)
    monkeypatch.setattr(sweeps, "outdated", outdated)
    monkeypatch.setattr(retention, "trusted_now", trusted_now)
    monkeypatch.setattr(unsay, "erase_and_compare", compared)
    monkeypatch.setattr(sys, "argv", ["eunoe", *arguments])
    return _run(_run_called)


@pytest.mark.parametrize(
    "command",
    [
        ["erase", "run", "--tenant", "acme", "--all-conversations"],
        ["erase", "replay"],
        ["retention", "run"],
    ],
    ids=" ".join,
)
def test_receipts_of_the_others_are_printed_and_the_busy_one_is_told(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
):
    code = code_of(monkeypatch, ["acme/a", BUSY, "acme/b"], [*command, "--json"])
    out, err = capfdbinary.readouterr()
    assert code == Exit.UNAVAILABLE
    assert [one["request_id"] for one in json.loads(out)] == ["acme/a", "acme/b"]
    assert BUSY in err.decode()
    assert "`eunoe erase replay`" in err.decode()


@pytest.mark.parametrize(
    "command",
    [
        ["erase", "run", "--tenant", "acme", "--all-conversations"],
        ["erase", "replay"],
        ["retention", "run"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize(
    ("there", "erased"),
    [
        (["acme/a", AWAY, "acme/b"], ["acme/a", "acme/b"]),
        (["acme/a", *(f"{AWAY}{number}" for number in range(batch.MAX_FAILED)), "acme/b"], ["acme/a"]),
    ],
    ids=["a fault of one conversation", "a server that went away"],
)
def test_receipts_of_what_was_erased_beside_a_fault_are_printed(
    command: list[str],
    there: list[str],
    erased: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
):
    monkeypatch.setattr(batch, "TOGETHER", 1)
    code = code_of(monkeypatch, there, [*command, "--json"])
    out, err = capfdbinary.readouterr()
    assert code == Exit.UNAVAILABLE
    assert [one["request_id"] for one in json.loads(out)] == erased
    assert "Qdrant does not answer" in err.decode()
    assert code_of(monkeypatch, [AWAY], [*command, "--json"]) == Exit.UNAVAILABLE
    assert capfdbinary.readouterr().out == b""


@pytest.mark.parametrize(
    ("there", "shown", "told"),
    [
        (["acme/a", AHEAD, ERASED, "acme/b"], ["acme/a", "acme/b"], f"{AHEAD}: intake has not handled 1"),
        (["acme/a", AWAY, "acme/b"], ["acme/a", "acme/b"], "Qdrant does not answer; 1 conversation not shown"),
        (["acme/a", *(f"{AWAY}{number}" for number in range(9)), "acme/b"], ["acme/a"], "Qdrant does not answer"),
    ],
    ids=["a conversation that is written to", "a fault of one conversation", "a server that went away"],
)
def test_what_would_be_erased_beside_a_fault_is_shown(
    there: list[str],
    shown: list[str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
):
    monkeypatch.setattr(erase, "TOGETHER", 1)
    command = ["erase", "plan", "--tenant", "acme", "--all-conversations", "--json"]
    code = code_of(monkeypatch, there, command)
    out, err = capfdbinary.readouterr()
    assert (code, [one["key"] for one in json.loads(out)]) == (Exit.UNAVAILABLE, shown)
    assert told in err.decode()
    assert code_of(monkeypatch, [AWAY], command) == Exit.UNAVAILABLE
    assert capfdbinary.readouterr().out == b"", "no list that looks like that of a tenant without conversations"


@pytest.mark.parametrize("command", [["erase", "busy"], ["unsay", "busy", "--utterance", "u1"]], ids=" ".join)
def test_a_busy_conversation_alone_has_no_receipt(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
):
    code = code_of(monkeypatch, [BUSY], [*command, "--tenant", "acme"])
    out, err = capfdbinary.readouterr()
    assert (code, out) == (Exit.UNAVAILABLE, b"")
    assert FINISHES in err.decode()


@pytest.mark.parametrize(
    ("arguments", "patient"),
    [
        (["erase", "run", "a"], True),
        (["unsay", "a", "--utterance", "u1"], True),
        (["erase", "run", "--all-conversations"], False),
    ],
    ids=["erase", "unsay", "tenant"],
)
def test_one_conversation_is_waited_for_until_a_dead_worker_is_replaced(
    arguments: list[str], patient: bool, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
):
    opened: list[dict[str, bool]] = []
    assert code_of(monkeypatch, ["acme/a"], [*arguments, "--tenant", "acme", "--json"], opened) == Exit.OK
    assert [how.get("patient", False) for how in opened] == [patient]


def test_a_tenant_is_erased_also_where_one_of_its_conversations_was_before(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
):
    command = ["erase", "run", "--tenant", "acme", "--all-conversations", "--json"]
    code = code_of(monkeypatch, ["acme/a", ERASED, "acme/f"], command)
    out, err = capfdbinary.readouterr()
    assert (code, err) == (Exit.OK, b"")
    assert [one["request_id"] for one in json.loads(out)] == ["acme/a", "acme/f"]
    assert code_of(monkeypatch, [], command) == Exit.USAGE
    assert b"tenant 'acme' has no conversation" in capfdbinary.readouterr().err
    assert code_of(monkeypatch, [ERASED], ["erase", "erased", "--tenant", "acme"]) == Exit.USAGE
    assert b"already erased" in capfdbinary.readouterr().err


def test_conversations_of_a_tenant_wait_for_none_of_which_intake_is_behind(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
):
    command = ["erase", "run", "--tenant", "acme", "--all-conversations", "--json"]
    code = code_of(monkeypatch, ["acme/a", AHEAD, "acme/f"], command)
    out, err = capfdbinary.readouterr()
    assert (code, [one["request_id"] for one in json.loads(out)]) == (Exit.UNAVAILABLE, ["acme/a", "acme/f"])
    assert f"{AHEAD}: intake has not handled 1" in err.decode()
    assert FINISHES not in err.decode(), "nothing has begun there"


async def test_all_of_a_tenant_is_asked_for_before_the_first_fault_and_finished_by_another_run(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
):
    ledger, there = MemoryErasures(), [f"{AWAY}1", f"{AWAY}2", f"{AWAY}3", "acme/a", "other/b"]
    command = ["erase", "run", "--tenant", "acme", "--all-conversations"]
    monkeypatch.setattr(batch, "TOGETHER", 1)
    code = await asyncio.to_thread(code_of, monkeypatch, there, command, None, ledger)
    err = capfdbinary.readouterr().err.decode()
    assert (code, [one.key for one in await ledger.requests()]) == (Exit.UNAVAILABLE, there[:4])
    assert "asked to erase 4 conversations" in err
    assert "4 conversations of tenant 'acme' to be erased yet: `eunoe erase replay` goes on" in err
    # those servers answer again; a killed run had taken one conversation out of the list before it was done
    gone = Erasure(request_id="killed", key="acme/gone", level=ErasureLevel.TENANT, at=NOW, until=1, salt="s")
    await ledger.begin(gone)
    monkeypatch.setattr(Twin, "erase", erased_at_once)
    assert await asyncio.to_thread(code_of, monkeypatch, ["acme/a"], command, None, ledger) == Exit.OK
    assert {one.key for one in await ledger.done()} == {*there[:4], "acme/gone"}


async def erased_at_once(_: Twin, erasures: Sequence[Erasure]) -> Erased:
    return Erased(erasures, 0, (), Outcome({}, (), ()))


@pytest.mark.parametrize(
    ("command", "answer", "asks", "code"),
    [
        (["erase", "a"], "n\n", True, Exit.FAILED),
        (["erase", "a"], "y\n", True, Exit.OK),
        (["erase", "--all-conversations"], "\n", True, Exit.FAILED),
        (["erase", "a", "--yes"], "", False, Exit.OK),
        (["erase", "a", "--utterance", "u1"], "", False, Exit.OK),
        (["erase", "a", "--session", "1"], "", False, Exit.OK),
    ],
)
def test_whole_conversations_go_after_a_question_at_a_terminal(
    command: list[str],
    answer: str,
    asks: bool,
    code: Exit,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    terminal = StringIO(answer)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    assert code_of(monkeypatch, ["acme/a"], [*command, "--tenant", "acme"]) == code
    out, err = capsys.readouterr()
    assert (not out.strip()) == (code != Exit.OK)
    assert ("for good?" in err) == asks


def test_a_script_is_not_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys, "stdin", StringIO())
    assert code_of(monkeypatch, ["acme/a"], ["erase", "a", "--tenant", "acme"]) == Exit.OK
    out, err = capsys.readouterr()
    assert json.loads(out)["request_id"] == "acme/a"
    assert err == ""
