"""Benchmark of erasures: the time of one utterance, one session and all of a long conversation."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import SecretStr

from eunoe.deploy.clients.erasures import open_erasures
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.local.kept import make_kek
from eunoe.deploy.progress import ReportProgress
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.sections import KeySettings
from eunoe.schemas.erasure import ErasureRequest
from tests.bench.load import LoadPlan, session_events
from tests.bench.pipeline import play, warm_up
from tests.bench.rig import RigPlan, open_rig
from tests.bench.watch import Watch


@dataclass(frozen=True, slots=True)
class ErasePlan:
    """The options of the benchmark: one conversation, of which more and more is erased."""

    sessions: int = 100
    turns: int = 10
    seed: int = 1
    sealed: bool = True
    """Whether there is a key store, so that keys are destroyed, too."""
    rig: RigPlan = field(default_factory=lambda: RigPlan(delay_s=None))


async def bench_erase(plan: ErasePlan, settings: Settings, report: ReportProgress = lambda *_: None) -> dict[str, Any]:
    """Part that is erased → seconds until the receipt, and processor seconds of the command."""
    load = LoadPlan(1, plan.sessions, plan.turns, plan.seed, name="erased")
    (key,) = load.keys
    requests: dict[str, dict[str, Any]] = {
        "one utterance": {"utterance_ids": (_said_in(load, plan.sessions // 2),)},
        "one more utterance": {"utterance_ids": (_said_in(load, plan.sessions // 4),)},
        "one session": {"session": str(plan.sessions // 3)},
        "the conversation": {},
    }
    found: dict[str, Any] = {}
    with _stores(settings, sealed=plan.sealed) as own:
        async with open_rig(plan.rig, own) as rig, open_erasures(rig.settings) as ledger:
            await warm_up(rig)
            await play(rig, load, Watch(rig.redis, rig.names, load.keys), report)
            eraser = Eraser(await live_settings(rig.settings), ledger)
            for number, (what, wanted) in enumerate(requests.items()):
                request = ErasureRequest(request_id=f"bench-{number}", key=key, at=datetime.now(UTC), **wanted)
                found[what] = await _timed(eraser, request)
                report("erased", number + 1, len(requests))
    return {"sessions": plan.sessions, "erased": found}


async def _timed(eraser: Eraser, request: ErasureRequest) -> Mapping[str, float]:
    started, cpu = time.monotonic(), time.process_time()
    receipt = await eraser.carry_out(await eraser.begin(request))
    return {
        "utterances": receipt.utterances,
        "seconds": round(time.monotonic() - started, 2),
        "cpu_s": round(time.process_time() - cpu, 2),
    }


def _said_in(load: LoadPlan, session: int) -> str:
    event = next(iter(session_events(load, 0, session)))
    utterance_id = getattr(event, "utterance_id", None)
    assert isinstance(utterance_id, str)
    return utterance_id


@contextmanager
def _stores(settings: Settings, *, sealed: bool) -> Iterator[Settings]:
    """The settings with a ledger of erasures, and with a key store where ``sealed``, in a temporary directory."""
    with TemporaryDirectory(prefix="eunoe-bench-") as place:
        kek, store = Path(place) / "kek", Path(place) / "keys.sqlite"
        make_kek(kek, store)
        keys = KeySettings(store=SecretStr(str(store)), kek_file=kek) if sealed else KeySettings()
        yield settings.model_copy(update={"keys": keys, "erasures": SecretStr(str(Path(place) / "erasures.sqlite"))})
