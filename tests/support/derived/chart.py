"""Parts of the Helm chart that are derived from the code: its stages, the names of settings, alerts and dashboard."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, get_args

import orjson
from pydantic import BaseModel, SecretStr

from eunoe.deploy.settings import Settings
from eunoe.streams.topics import TOPICS
from eunoe.workers.registry import STAGES, Stages

DEPLOY: Final = Path(__file__).resolve().parents[3] / "deploy"
OWN_VALUES: Final = frozenset(
    "EUNOE_" + name
    for name in (
        "KAFKA", "QDRANT_URL", "PREFIX", "PARTITIONS", "REPLICATION", "GENERATION", "LOG", "SHUTDOWN_SECONDS", "HEALTH",
        "GATEWAY__ADDRESS", "GATEWAY__KEYS", "GATEWAY__SHUTDOWN_SECONDS",
    )
)  # fmt: skip
"""Settings that the chart gives from values of their own."""
_ELSEWHERE: Final = ("EUNOE_BROKER__EMBEDDED", "EUNOE_BROKER__BOOTSTRAP", "EUNOE_METER_FILE", "EUNOE_MCP__")
"""Beginnings of settings that mean nothing in a pod."""
_OF_LIBRARIES: Final = ("OPENAI_BASE_URL", "SSL_CERT_FILE")


def chart_stages(_: str = "", stages: Stages = STAGES) -> str:
    """``files/stages.yaml``: a line for each stage with the topic that it consumes.

    ``derived``: whether each generation has a topic of its own; ``answers``: whether clients wait for the stage.
    """
    return "\n".join(["# The stages: written by `make contracts`", *_stage_lines(stages), ""])


def _stage_lines(stages: Stages) -> Iterator[str]:
    for name, spec in stages.items():
        (topic,) = spec.inputs
        derived, answers = str(TOPICS[topic].derived).lower(), str(spec.answers).lower()
        yield f"- {{name: {name}, topic: {topic.value}, derived: {derived}, answers: {answers}}}"


def with_names(schema: str, stages: Stages = STAGES) -> str:
    """``values.schema.json`` with the settings and stages that there are."""
    document = orjson.loads(schema)
    document["definitions"]["setting"]["enum"] = chart_settings()
    kinds = {name: "replyStage" if spec.answers else "memoryStage" for name, spec in stages.items()}
    document["properties"]["stages"]["properties"] = {
        name: {"$ref": f"#/definitions/{kind}"} for name, kind in kinds.items()
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def chart_settings() -> list[str]:
    """The settings that the value ``settings`` may have: no secret, and none that has a value of its own."""
    plain = {name for name, secret in _settings(Settings, "EUNOE_") if not secret} - OWN_VALUES
    return [*sorted(name for name in plain if not name.startswith(_ELSEWHERE)), *_OF_LIBRARIES]


def secret_settings() -> list[str]:
    """The settings that belong into the Secret."""
    return [*(name for name, secret in _settings(Settings, "EUNOE_") if secret), "OPENAI_API_KEY"]


def _settings(form: type[BaseModel], prefix: str) -> Iterator[tuple[str, bool]]:
    """(environment variable, whether it is a secret) of each setting."""
    for name, field in form.model_fields.items():
        kind, variable = field.annotation, f"{prefix}{name.upper()}"
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _settings(kind, f"{variable}__")
        else:
            yield variable, SecretStr in (kind, *get_args(kind))


def copy_of(name: str) -> Callable[[str], str]:
    """Make a writer that copies a file of ``deploy``: a chart cannot read files outside its folder."""

    def content(_: str) -> str:
        return (DEPLOY / name).read_text()

    return content


CHART_FILES: Final[dict[str, Callable[[str], str]]] = {
    "deploy/chart/files/stages.yaml": chart_stages,
    "deploy/chart/files/alerts.yaml": copy_of("observability/alerts.yaml"),
    "deploy/chart/files/dashboard.json": copy_of("observability/dashboard.json"),
    "deploy/chart/values.schema.json": with_names,
}
"""File of a checkout → what brings it up to date."""
