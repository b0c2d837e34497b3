"""Dependencies between stages: what must be made again when a stage or a setting changes."""

from collections.abc import Iterable, Mapping

from eunoe.schemas.base import Contract
from eunoe.schemas.events import ConversationEvent, ReplyRequested, SessionEvent, SessionSkipped
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES, Stages
from eunoe.workers.stage import ApplyOrder, ModelKind, StageSpec

MODEL_SETTINGS: Mapping[str, ModelKind] = {
    "compression": ModelKind.COMPRESSION,
    "embedding": ModelKind.EMBEDDING,
    "language": ModelKind.LANGUAGE,
    "model": ModelKind.LANGUAGE,
    "model_context_window": ModelKind.LANGUAGE,
    "model_language": ModelKind.LANGUAGE,
    "model_max_output": ModelKind.LANGUAGE,
    "model_reasoning_effort": ModelKind.LANGUAGE,
    "model_seed": ModelKind.LANGUAGE,
    "model_temperature": ModelKind.LANGUAGE,
    "model_thinking_tokens": ModelKind.LANGUAGE,
    "models": ModelKind.LANGUAGE,
}
"""Settings of the models → the model that they choose."""


def dependents(stage: str, stages: Stages = STAGES) -> frozenset[str]:
    """The stage, and all that must be made again when it decides otherwise.

    A stage depends on those that emit what it consumes, and on those whose state it reads; and so on.
    """
    found: set[str] = set()
    waiting = {stage}
    while waiting:
        found |= waiting
        waiting = {name for name, spec in stages.items() if any(_follows(spec, stages[one]) for one in waiting)} - found
    return frozenset(found)


def _follows(spec: StageSpec, before: StageSpec) -> bool:
    return before.name in spec.reads or bool(set(spec.consumes) & set(before.emits))


def made_again(stage: str, stages: Stages = STAGES) -> tuple[str, ...]:
    """`dependents` among the stages that make memory, in the order of the pipeline."""
    wanted = dependents(stage, stages)
    return tuple(name for name, spec in stages.items() if spec.makes_memory and name in wanted)


def first_stages(stages: Stages = STAGES) -> Mapping[str, str | None]:
    """Section of the settings, or setting of a model → the first stage that it changes.

    `None` means that it only changes what replies find in the same memory.
    """
    found: dict[str, str | None] = {}
    for name, spec in stages.items():
        found |= dict.fromkeys(spec.settings, name if spec.makes_memory else None)
        found |= dict.fromkeys(spec.reply_settings, None)
    return found | {name: _first_that_asks(model, stages) for name, model in MODEL_SETTINGS.items()}


def _first_that_asks(model: ModelKind, stages: Stages) -> str | None:
    """The latest stage with which all are made again that ask the model; `None` where none does."""
    asking = {name for name, spec in stages.items() if model in spec.models and spec.makes_memory}
    again = {name: made_again(name, stages) for name, spec in stages.items() if spec.makes_memory}
    enough = [name for name, made in again.items() if asking <= set(made)]
    return min(enough, key=lambda name: len(again[name])) if asking else None


FIRST_STAGES = first_stages()


def changed_stages(changes: Iterable[str]) -> frozenset[str]:
    """The first stages that changed settings concern, by their names (``link.associative``)."""
    found = (FIRST_STAGES.get(name.partition(".")[0]) for name in changes)
    return frozenset(stage for stage in found if stage is not None)


def producer_of(topic: Topic, event: Contract) -> str | None:
    """The stage that wrote an event of a derived topic; `None` where no stage writes such."""
    for spec in STAGES.values():
        passes_on = isinstance(event, SessionSkipped) and spec.order is ApplyOrder.SESSION
        if topic in spec.outputs and (type(event) in spec.emits or passes_on):
            return spec.name
    return None


def number_of(event: ConversationEvent) -> int | None:
    """The number by which its producer counts an event: a request's turn, else the session; `None` without a number."""
    if isinstance(event, ReplyRequested):
        return event.turn
    return event.session if isinstance(event, SessionEvent) else None
