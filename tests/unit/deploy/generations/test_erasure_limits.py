"""The places that a receipt names as not covered, and until when."""

import pytest

from eunoe.deploy.generations.erase.limits import not_covered
from eunoe.deploy.settings import Settings
from eunoe.streams.topics import TOPICS, Topic

KAFKA = {"kafka": "kafka:9092"}
EMBEDDED = KAFKA | {"broker": {"embedded": True}}


@pytest.mark.parametrize(
    ("servers", "days", "until"),
    [
        (KAFKA, 7, "topic `answers` is deleted, and those in Redis 7 days after they were put there"),
        (KAFKA, None, "topic `answers` is deleted, and those in Redis by hand: EUNOE_ANSWER_DAYS is not set"),
        (EMBEDDED, 7, "the next start of `eunoe up`, and those in Redis 7 days after they were put there"),
    ],
)
def test_recorded_answers_stay_as_long_as_their_topic(servers: dict[str, object], days: float | None, until: str):
    assert TOPICS[Topic.ANSWERS].compacted
    assert TOPICS[Topic.ANSWERS].retention_ms < 0
    found = not_covered(Settings.model_validate(servers | {"answer_days": days}), ())
    (answers,) = (one for one in found if one.place == "recorded answers of the language model")
    assert answers.until == until
