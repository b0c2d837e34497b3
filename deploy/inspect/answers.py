"""Reads the recorded answers of language models from their topic."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from pydantic import ValidationError

from eunoe.deploy.settings import Settings
from eunoe.schemas.keys import KeyStore
from eunoe.schemas.records import RecordedAnswer
from eunoe.schemas.versions import ContractError
from eunoe.streams.reader import read_all
from eunoe.streams.sealed.answers import split_request
from eunoe.streams.sealed.records import open_record
from eunoe.streams.topics import Topic


async def read_answers(settings: Settings, keys: KeyStore | None) -> AsyncGenerator[tuple[RecordedAnswer, str]]:
    """All recorded answers with the conversation that each was given in ('' for a plain one), in the topic's order.

    Erased ones and those that are no answers are left out. Raises `Unavailable` when the broker or the key store does
    not answer, a key is missing, or answers are sealed and no key store is set; `Refused` where there is no topic.
    """
    async with aclosing(read_all(settings.kafka_settings, settings.names, Topic.ANSWERS)) as records:
        async for record in records:
            try:
                opened = await open_record(record, keys)
                if opened is None:
                    continue
                answer = RecordedAnswer.from_json(opened.value)
            except (ContractError, ValidationError):
                continue
            found = None if opened.stored is None else split_request(record.key)
            yield answer, "" if found is None else found[0]
