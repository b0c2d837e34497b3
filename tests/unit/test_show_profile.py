"""The profile that `eunoe show` prints is of somebody of whom something holds."""

from datetime import UTC, datetime

import pytest

from eunoe.deploy.cli.show_profile import profile_of
from eunoe.deploy.datasets.load import load_conversation
from eunoe.deploy.demo.bundled import CONVERSATION
from eunoe.schemas.errors import Refused
from tests.support.in_memory import make_pipeline

LATE = datetime(2100, 1, 1, tzinfo=UTC)


async def test_an_unknown_person_is_refused_with_the_names_of_the_known() -> None:
    pipeline, events = make_pipeline(), load_conversation(CONVERSATION).events
    for event in events:
        await pipeline.produce(event)
    key = events[0].key
    everybody = await profile_of(pipeline.store, key, at=LATE, person=None, budget_tokens=500)
    names = sorted({item.speaker for item in everybody.items})
    of_one = await profile_of(pipeline.store, key, at=LATE, person=names[0], budget_tokens=500)
    assert {item.speaker for item in of_one.items} == {names[0]}
    with pytest.raises(Refused, match=f"no current memories of 'Nobody'; speakers: {', '.join(names)}"):
        await profile_of(pipeline.store, key, at=LATE, person="Nobody", budget_tokens=500)
