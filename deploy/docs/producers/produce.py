"""Say a small session: python produce.py localhost:9092 eunoe.conversations mina-and-jonas"""

import json
import sys
from datetime import UTC, datetime
from urllib.parse import quote
from uuid import uuid4

from confluent_kafka import KafkaError, KafkaException, Message, Producer

if len(sys.argv) != 4:
    sys.stderr.write("usage: python produce.py BOOTSTRAP TOPIC CONVERSATION\n")
    sys.exit(2)
bootstrap, topic, conversation_id = sys.argv[1:]
producer = Producer(
    {
        "bootstrap.servers": bootstrap,
        "partitioner": "murmur2_random",  # the default of librdkafka is another one
        "enable.idempotence": True,  # a repeated request is written once; acks=all comes with it
    }
)
key = f"default/{quote(conversation_id, safe='')}".encode()


def delivered(error: KafkaError | None, _record: Message) -> None:
    """Called once for each event, when the broker has it or will not have it."""
    if error is not None:
        raise KafkaException(error)


def send(**event: str) -> None:
    """Append an event to the conversation; the broker sets the time of the record."""
    value = json.dumps({"conversation_id": conversation_id, "at": datetime.now(UTC).isoformat(), **event})
    producer.produce(topic, key=key, value=value.encode(), on_delivery=delivered)


session_id = str(uuid4())
for speaker, text in [
    ("Mina", "Did you survive the football match? ⚽"),
    ("Jonas", "Barely. I twisted my knee and see a doctor on Monday."),
    ("Mina", "빨리 나아!"),
]:
    send(type="utterance", utterance_id=str(uuid4()), session_id=session_id, speaker=speaker, text=text)
send(type="session_ended", session_id=session_id)
producer.flush()  # raises what `delivered` raises
