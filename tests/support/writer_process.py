"""One client for the tests of many: waits for a line on standard input, then says what it has to say.

Arguments: `KafkaSettings` as JSON, the prefix, the conversation, the writer's name, how many utterances.
"""

import asyncio
import sys

from eunoe.streams.client import MemoryClient
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import TopicNames

EACH_SESSION = 8
"""Utterances after which a writer ends the session that is open then, whoever opened it."""


async def main(kafka: str, prefix: str, conversation_id: str, name: str, count: int) -> None:
    settings, names = KafkaSettings.from_json(kafka.encode()), TopicNames(prefix=prefix)
    async with MemoryClient(settings, conversation_id=conversation_id, names=names) as memory:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for number in range(count):
            await memory.utter(f"I have been to place {number}.", speaker=name, utterance_id=f"{name}-{number}")
            if number % EACH_SESSION == EACH_SESSION - 1:
                await memory.end_session()


if __name__ == "__main__":
    broker, topics, conversation, speaker, lines = sys.argv[1:]
    asyncio.run(main(broker, topics, conversation, speaker, int(lines)))
