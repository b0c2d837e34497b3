"""Text derived from the specs of the stages: tables of the documents, services of ``compose.yaml``, an alert."""

from collections.abc import Iterable, Sequence

from eunoe.schemas.base import Contract
from eunoe.streams.topics import TOPICS, Topic, TopicSpec
from eunoe.workers.registry import STAGES, Stages
from eunoe.workers.stage import StageSpec
from tests.support.derived.blocks import markdown_marks, with_block, yaml_marks

STAGES_BLOCK = "stages"
TOPICS_BLOCK = "topics"
ABSENT_BLOCK = "absent"

GATEWAY_SERVICE = """\
  gateway:
    <<: *stage
    environment: *environment
    command: [gateway]
    ports:
      - 127.0.0.1:8700:8700
    # a key: docker compose --file deploy/compose.yaml run --rm gateway keys create
    volumes:
      - keys:/keys
      - erasures:/erasures
      - datakeys:/datakeys
      - cold:/cold"""

ABSENT_ALERT = """\
      - alert: EunoeStageAbsent
        expr: >-
          {}
        for: 5m
        labels: {{severity: critical}}
        annotations:
          summary: "no process of {{{{ $labels.stage }}}} answers: its records wait, and all that comes after it"
          action: "read the log and the exit code of its processes; mend what they name, start one"
          runbook_url: deploy/docs/runbook.md#eunoestageabsent"""

DAY_MS = 24 * 3600 * 1000


def stages_table(stages: Stages = STAGES) -> str:
    """A row per stage, in the order of the pipeline."""
    head = ("stage", "purpose", "consumes", "emits", "order", "reads tables of", "models", "settings")
    return _table(head, (_stage_cells(spec) for spec in stages.values()))


def _stage_cells(spec: StageSpec) -> list[str]:
    sections = (f"EUNOE_{name.upper()}__*" for name in (*spec.settings, *spec.reply_settings))
    return [
        f"`{spec.name}`",
        spec.purpose,
        _names(spec.consumes),
        _names(spec.emits),
        spec.order.value,
        _codes(spec.reads),
        ", ".join(spec.models) or "–",
        _codes(sections),
    ]


def topics_table(stages: Stages = STAGES) -> str:
    """A row per topic: its events, the stages that write and read it, and how long records are kept."""
    head = ("topic", "purpose", "carries", "written by", "read by", "kept")
    return _table(head, (_topic_cells(spec, stages) for spec in TOPICS.values()))


def _topic_cells(spec: TopicSpec, stages: Stages) -> list[str]:
    return [
        f"`{spec.topic}`",
        spec.purpose,
        _names(spec.carries),
        _codes(writers(spec.topic, stages)),
        _codes(readers(spec.topic, stages)),
        _kept(spec),
    ]


def writers(topic: Topic, stages: Stages = STAGES) -> list[str]:
    """The stages that write to a topic; every stage writes dead letters and recorded answers beside."""
    return [name for name, spec in stages.items() if topic in spec.outputs]


def readers(topic: Topic, stages: Stages = STAGES) -> list[str]:
    """The stages that consume a topic."""
    return [name for name, spec in stages.items() if topic in spec.inputs]


def _kept(spec: TopicSpec) -> str:
    if spec.compacted:
        return "the last record of each key"
    if spec.retention_ms >= 0:
        return f"{spec.retention_ms / DAY_MS:g} days"
    return "with its generation" if spec.derived else "forever"


def compose_services(stages: Stages = STAGES) -> str:
    """A service of ``compose.yaml`` per stage."""
    return "\n\n".join(f"  {name}:\n    <<: *stage\n    command: [worker, {name}]" for name in stages)


def with_stage_tables(page: str, stages: Stages = STAGES) -> str:
    """The page with both tables between their marks; raises ``ValueError`` where a mark is missing."""
    page = with_block(page, markdown_marks(STAGES_BLOCK), stages_table(stages))
    return with_block(page, markdown_marks(TOPICS_BLOCK), topics_table(stages))


def with_compose_services(text: str, stages: Stages = STAGES) -> str:
    """``compose.yaml`` with the services of these stages and the gateway; raises ``ValueError`` for a missing mark."""
    services = f"{compose_services(stages)}\n\n{GATEWAY_SERVICE}"
    return with_block(text, yaml_marks(STAGES_BLOCK), services)


def absent_alert(stages: Stages = STAGES) -> str:
    """The rule that fires for each stage of which nothing is scraped.

    A counter of the stage is there from the start of a process; ``eunoe_lag`` only once it has partitions.
    """
    return ABSENT_ALERT.format(
        "\n          or ".join(f'absent(eunoe_events_total{{stage="{name}"}})' for name in stages)
    )


def with_absent_alert(text: str, stages: Stages = STAGES) -> str:
    """``alerts.yaml`` with the rule about absent stages; raises ``ValueError`` for a missing mark."""
    return with_block(text, yaml_marks(ABSENT_BLOCK, 6), absent_alert(stages))


def _names(contracts: Iterable[type[Contract]]) -> str:
    return _codes(contract.__name__ for contract in contracts)


def _codes(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words) or "–"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
