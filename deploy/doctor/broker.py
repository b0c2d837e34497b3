"""The check of the broker: topics, partitions, retention, replicas, codecs."""

from collections.abc import Mapping, Sequence

from aiokafka import codec

from eunoe.deploy.clients.connect import left_behind
from eunoe.deploy.doctor.findings import Findings
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.local.tansu.identity import refuse_ordinary_broker
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.streams.access import how_to_see_topics
from eunoe.streams.admin import check_partitions
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topic_settings import TopicDetail, describe_topics
from eunoe.streams.topics import TOPICS, Topic, TopicSpec

CODECS = {"gzip": codec.has_gzip, "snappy": codec.has_snappy, "lz4": codec.has_lz4, "zstd": codec.has_zstd}
"""Compression of clients → whether this installation can read it."""
FOREVER = "-1"


async def check_broker(settings: Settings, findings: Findings) -> None:
    """Add what of the topics is as it must be and what is not. Raises `Unavailable` when no broker answers."""
    kafka, names = settings.kafka_settings, settings.names
    details = {detail.name: detail for detail in await describe_topics(kafka)}
    findings.ok(f"{kafka.server} answers")
    if settings.broker.embedded:
        await _is_embedded(kafka, findings)
        if (advice := left_behind(settings, names.generation)) is not None:
            findings.warn(advice)
    findings.step("topics")
    _codecs(findings)
    specs = {names.name(topic): TOPICS[topic] for topic in names.topics}
    if not any(name in details for name in specs):
        findings.fault(f"no topic of prefix {settings.prefix!r} exists: {how_to_see_topics(kafka)}")
        return
    try:
        partitions = await check_partitions(kafka, names)
        findings.ok(f"all topics of generation {names.generation} exist, with {counted(partitions, 'partition')}")
    except Refused as fault:
        findings.fault(str(fault))
    check_replicas([details[name] for name in specs if name in details], settings, findings)
    findings.step("retention")
    for name, spec in specs.items():
        if name in details:
            check_limits(details[name], spec, findings, door_ms=names.door_ms)


async def _is_embedded(kafka: KafkaSettings, findings: Findings) -> None:
    try:
        await refuse_ordinary_broker(kafka)
    except Refused as fault:
        findings.fault(str(fault))


def _codecs(findings: Findings) -> None:
    missing = [name for name, is_there in CODECS.items() if not is_there()]
    if missing:
        findings.warn(f"records compressed with {', '.join(missing)} cannot be read: pip install 'aiokafka[all]'")
    else:
        findings.ok(f"reads records compressed with {', '.join(CODECS)}")


def check_replicas(details: Sequence[TopicDetail], settings: Settings, findings: Findings) -> None:
    """Look for partitions without a leader, and for topics of which there is one copy."""
    leaderless = [detail.name for detail in details if detail.without_leader]
    if leaderless:
        findings.fault(f"partitions without a leader in {', '.join(leaderless)}: look at the brokers")
    least = min(detail.replicas for detail in details)
    if least > 1:
        findings.ok(f"{least} replicas or more of each topic")
    elif not settings.broker.embedded:
        # no setting to copy: on one broker it would make no topic at all
        findings.warn(
            "one replica of each topic: a lost disk loses the log. On three brokers, make the topics with"
            " EUNOE_REPLICATION=3"
        )
    check_in_sync(details, findings)


def check_in_sync(details: Sequence[TopicDetail], findings: Findings) -> None:
    """Compare the copies that an acknowledged record must have, ``min.insync.replicas``, with those that there are."""
    least = [(one, int(told)) for one in details if (told := one.config.get("min.insync.replicas", "")).isdecimal()]
    if closed := [one.name for one, wanted in least if wanted > one.replicas]:
        findings.fault(
            f"no record is taken by {', '.join(closed)}: min.insync.replicas is more than their replicas; lower it, or"
            " give them more replicas"
        )
    if weak := [one.name for one, wanted in least if wanted == 1 < one.replicas]:
        findings.warn(
            f"min.insync.replicas is 1 of {', '.join(weak)}: a record is acknowledged that one broker alone has, and is"
            " lost with it; set 2"
        )


def check_limits(detail: TopicDetail, spec: TopicSpec, findings: Findings, *, door_ms: int | None = None) -> None:
    """Compare the settings of a topic with the table of topics.

    ``door_ms``: milliseconds for which `conversations` is kept where `log` has its records; `None` where it has not.
    """
    config = detail.config
    if not config:
        if spec.topic is Topic.CONVERSATIONS:
            findings.note("the broker does not tell the settings of topics: retention cannot be checked")
        return
    if spec.topic in (Topic.CONVERSATIONS, Topic.LOG):
        is_door = spec.topic is Topic.CONVERSATIONS
        _check_log(detail.name, config, findings, door_ms=door_ms if is_door else None)
        if is_door:
            _check_times(detail.name, config, findings)
    else:
        _check_kept(detail.name, config, spec, findings)
    largest = config.get("max.message.bytes", "")
    if largest.isdecimal() and int(largest) < spec.max_bytes:
        findings.fault(f"{detail.name} takes records of {largest} bytes; set max.message.bytes to {spec.max_bytes}")


def _check_times(name: str, config: Mapping[str, str], findings: Findings) -> None:
    if config.get("message.timestamp.type") == "CreateTime":
        findings.warn(
            f"{name} takes the times of producers: a wrong clock of one ends sessions too early or too late, and"
            " expires asks. Set message.timestamp.type to LogAppendTime"
        )


def _check_log(name: str, config: Mapping[str, str], findings: Findings, *, door_ms: int | None) -> None:
    retention, policy = config.get("retention.ms", FOREVER), config.get("cleanup.policy", "delete")
    kept_bytes = config.get("retention.bytes", FOREVER)
    forever = (policy, retention, kept_bytes) == ("delete", FOREVER, FOREVER)
    if door_ms is not None and forever:
        findings.warn(f"{name} is kept for ever, in clear: `eunoe topics seal` moves what it holds into the sealed log")
    elif forever:
        findings.ok(f"{name} is kept for ever")
    elif door_ms is not None and (policy, kept_bytes) == ("delete", FOREVER):
        _check_door(name, int(retention), door_ms, findings)
    else:
        findings.fault(
            f"{name} is not kept for ever (cleanup.policy {policy}, retention.ms {retention},"
            f" retention.bytes {kept_bytes}): what it loses cannot be derived again. Set delete, -1 and -1"
        )


def _check_door(name: str, retention_ms: int, door_ms: int, findings: Findings) -> None:
    kept = f"{name} is kept for {retention_ms / _HOUR_MS:g} h"
    if retention_ms < door_ms:
        wanted = f"EUNOE_KEYS__DOOR_HOURS says {door_ms / _HOUR_MS:g}: set retention.ms to {door_ms}"
        findings.warn(f"{kept}, and what intake has not copied by then is lost; {wanted}")
    else:
        findings.ok(f"{kept}; intake must never be behind for so long")


def _check_kept(name: str, config: Mapping[str, str], spec: TopicSpec, findings: Findings) -> None:
    retention, policy = config.get("retention.ms", FOREVER), config.get("cleanup.policy", "delete")
    if spec.derived and (policy != "delete" or (retention != FOREVER and int(retention) < _DAY_MS)):
        findings.warn(f"{name} keeps records for {retention} ms ({policy}): a stage that is behind loses some")
    elif spec.derived and config.get("retention.bytes", FOREVER) != FOREVER:
        kept_bytes = config["retention.bytes"]
        findings.warn(f"{name} keeps {kept_bytes} bytes of a partition: a stage that is behind loses the others")
    elif spec.compacted and "compact" not in policy:
        findings.warn(f"{name} is not compacted: recorded answers grow, or are lost after {retention} ms")


_HOUR_MS = 3600 * 1000
_DAY_MS = 24 * 3600 * 1000
