"""Self-test of a stage: a known-good conversation, through the whole pipeline in memory."""

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from eunoe.schemas.events import Ask, SessionEnded, Utterance
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.topics import Topic
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.failure_limit import FailureLimit
from eunoe.workers.stage import Dependencies

log = logging.getLogger(__name__)

_SAID = (
    ("Ann", "I moved to Lyon in March because I found a job at the hospital."),
    ("Ben", "How do you like it there?"),
    ("Ann", "I like it. My sister Marta visits me every second weekend."),
)
_SAID_LATER = (("Ann", "I do not work at the hospital any more. I teach at the nursing school now."),)


def self_test(dependencies: Dependencies, stage: str) -> Callable[[], Awaitable[bool]]:
    """A test of a stage over in-memory stores, with the settings and the embedder of its process and no model."""

    async def passes() -> bool:
        pipeline = InMemoryPipeline(
            dependencies.embedder,
            dependencies.settings,
            compressor=dependencies.compressor,
            runner_settings=RunnerSettings(attempts=1, failures=FailureLimit(share=1.0)),
        )
        try:
            await pipeline.play(_conversation())
        except Exception:
            log.exception("%s: the self-test raised", stage)
            return False
        letters = [read_dead_letter(record)[0] for record in pipeline.log.records(Topic.DEAD_LETTERS)]
        failed = [letter for letter in letters if letter.stage == stage]
        for letter in failed:
            log.error("%s: the self-test failed: %s", stage, letter.error)
        return not failed

    return passes


def _conversation() -> list[Utterance | SessionEnded]:
    at = datetime.now(UTC)
    events: list[Utterance | SessionEnded] = []
    for number, said in enumerate((_SAID, _SAID_LATER), 1):
        for place, (speaker, text) in enumerate(said):
            at += timedelta(minutes=1)
            id_ = f"{number}.{place}"
            events.append(Utterance(conversation_id="self-test", utterance_id=id_, speaker=speaker, text=text, at=at))
        events.append(SessionEnded(conversation_id="self-test", at=at))
    question = Ask(request_id="self-test")
    asked = Utterance(
        conversation_id="self-test", utterance_id="3.0", speaker="Ben", text="Where does Ann live?", at=at, ask=question
    )
    return [*events, asked]
