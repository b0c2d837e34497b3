"""The topics as one AsyncAPI 3.0 document, for clients in any language."""

from collections.abc import Mapping
from typing import Any, Final

from eunoe.deploy.contracts.json_schemas import WRITTEN, ZONED
from eunoe.schemas.base import Contract
from eunoe.schemas.records import DeadLetter
from eunoe.streams.dead_letters import DEAD_LETTER_HEADER
from eunoe.streams.position import COPIED_HEADER, LOG_TIME_HEADER, POSITION_HEADER
from eunoe.streams.topics import TOPICS, Topic, TopicNames, TopicSpec

Document = dict[str, Any]

API_VERSION: Final = "1.0.0"
BINDING_VERSION: Final = "0.5.0"
PARTITIONER: Final = "murmur2"
KEY_PATTERN: Final = r"^([A-Za-z0-9_.~-]|%[0-9A-F]{2})+/([A-Za-z0-9_.~-]|%[0-9A-F]{2})+$"

INTRODUCTION: Final = """\
A long-term memory for chats. Clients produce utterances and session ends to `conversations` and read answers from
`replies`; the other topics are the stages' own.

**Key.** Every record's key is `<tenant>/<conversation_id>`, each part percent-encoded (UTF-8; only letters, digits
and `-._~` stay as they are) and the tenant `default` where the body names none. A key that disagrees with the body
makes a dead letter.

**Partitioner.** The partition is `(murmur2(key) & 0x7fffffff) mod partitions`: the default of the Java client and of
kafkajs. librdkafka clients (C, Go, .NET, Python, Ruby, PHP, Rust …) must set `partitioner=murmur2_random`, since their
own default is another one; for any other client choose its murmur2, also called Java-compatible, partitioner. A record
in another partition than its key's becomes a dead letter.

**Value.** One JSON object in UTF-8. Give `type` and, from version 2 of a schema on, `schema_version`; unknown fields
are refused. The time of a record is the broker's business: do not set it.

**Asking.** An utterance with an `ask` gets a `Reply` with the same `request_id` in `replies`, in the partition of the
same key there (both topics have the same number of partitions). Take your position in that partition before you ask.
"""

# Which way the records of a topic go, seen from eunoe; a topic that is not named goes from stage to stage
_ACTIONS: Mapping[Topic, tuple[str, ...]] = {
    Topic.CONVERSATIONS: ("receive", "send"),
    Topic.LOG: ("send",),
    Topic.REPLIES: ("send",),
    Topic.DEAD_LETTERS: ("send",),
}


def asyncapi_document(payloads: Mapping[type[Contract], str]) -> Document:
    """The document; ``payloads`` says where the JSON Schema of each contract stands (a relative URL)."""
    return {
        "asyncapi": "3.0.0",
        "info": _info(),
        "defaultContentType": "application/json",
        "servers": {"kafka": _server()},
        "channels": {topic.value: _channel(spec) for topic, spec in TOPICS.items()},
        "operations": _operations(),
        "components": {"messages": {_name(contract): _message(contract, payloads[contract]) for contract in payloads}},
    }


def _info() -> Document:
    return {
        "title": "eunoe",
        "version": API_VERSION,
        "description": INTRODUCTION,
        "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        "x-comment": WRITTEN,
    }


def _server() -> Document:
    return {
        "host": "{host}:{port}",
        "protocol": "kafka",
        "description": "Any broker of the cluster (EUNOE_KAFKA). A trusted zone: `replies` can be read whole.",
        "variables": {
            "host": {"default": "localhost", "description": "A bootstrap broker."},
            "port": {"default": "9092", "description": "Its port."},
        },
        "bindings": {"kafka": {"bindingVersion": BINDING_VERSION}},
    }


def _channel(spec: TopicSpec) -> Document:
    configuration = {
        "cleanup.policy": ["compact" if spec.compacted else "delete"],
        "retention.ms": spec.retention_ms,
        "max.message.bytes": spec.max_bytes,
    }
    return {
        "address": TopicNames(prefix="{prefix}", generation="{generation}").name(spec.topic),
        "title": spec.topic.value,
        "summary": f"{spec.purpose}.",
        "parameters": _parameters(spec),
        "servers": [{"$ref": "#/servers/kafka"}],
        "messages": {_name(contract): _ref("components", "messages", _name(contract)) for contract in spec.carries},
        "bindings": {"kafka": {"topicConfiguration": configuration, "bindingVersion": BINDING_VERSION}},
        "x-partitioner": PARTITIONER,
    }


def _parameters(spec: TopicSpec) -> Document:
    names = TopicNames()
    prefix = {"default": names.prefix, "description": "What the names of a deployment's topics begin with."}
    generation = {"default": names.generation, "description": "Which generation of the memory the topic belongs to."}
    return {"prefix": prefix, "generation": generation} if spec.derived else {"prefix": prefix}


def _operations() -> Document:
    made = {}
    for topic, spec in TOPICS.items():
        for action in _ACTIONS.get(topic, ("send", "receive")):
            carried = [_ref("channels", topic.value, "messages", _name(contract)) for contract in spec.carries]
            made[f"{action}-{topic.value}"] = {
                "action": action,
                "channel": _ref("channels", topic.value),
                "messages": carried,
            }
    return made


def _message(contract: type[Contract], payload: str) -> Document:
    key = {"type": "string", "pattern": KEY_PATTERN, "description": "`<tenant>/<conversation_id>`, percent-encoded."}
    shared = {
        "name": contract.type_tag(),
        "title": contract.__name__,
        "summary": str(contract.__doc__).splitlines()[0],
        "bindings": {"kafka": {"key": key, "bindingVersion": BINDING_VERSION}},
    }
    if contract is DeadLetter:
        return {**shared, **_raw_with_header(payload)}
    return {**shared, "headers": _copy_headers(), "payload": {"$ref": payload}}


def _raw_with_header(letter: str) -> Document:
    header = {
        "type": "string",
        "contentMediaType": "application/json",
        "description": f"What is known of the record, as the JSON of `{letter}`.",
    }
    return {
        "description": "The value is the raw value of the dead-lettered record; its own key and headers stay.",
        "contentType": "application/octet-stream",
        "headers": {"type": "object", "required": [DEAD_LETTER_HEADER], "properties": {DEAD_LETTER_HEADER: header}},
        "payload": {"description": "Any bytes.", "x-letter": {"$ref": letter}},
    }


def _copy_headers() -> Document:
    position = {
        "type": "string",
        "pattern": r"^\d{1,7}:\d{1,13}$",
        "description": "Only on copies of records: `<epoch>:<offset>`, where the record stood first.",
    }
    log_time = {
        "type": "string",
        "pattern": ZONED,
        "description": "Only on copies of records: when the log took the record first (RFC 3339).",
    }
    source = {
        "type": "string",
        "pattern": r"^\d{1,9}:\d{1,9}:\d{1,13}$",
        "description": "Only in a log that `eunoe topics repartition` made: `<log>:<partition>:<offset>` it came from.",
    }
    headers = {POSITION_HEADER: position, LOG_TIME_HEADER: log_time, COPIED_HEADER: source}
    return {"type": "object", "properties": headers}


def _name(contract: type[Contract]) -> str:
    return contract.__name__


def _ref(*path: str) -> Document:
    return {"$ref": "#/" + "/".join(path)}
