"""The registry: the specs of all stages, and what is derived from them.

A new stage is a package with a ``spec.py``, and its spec in `STAGES`.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import create_model

from eunoe.schemas.base import Value
from eunoe.workers.blend.spec import SPEC as BLEND
from eunoe.workers.compress.spec import SPEC as COMPRESS
from eunoe.workers.intake.spec import SPEC as INTAKE
from eunoe.workers.link.spec import SPEC as LINK
from eunoe.workers.respond.spec import SPEC as RESPOND
from eunoe.workers.segment.spec import SPEC as SEGMENT
from eunoe.workers.stage import StageSettingsBase, StageSpec
from eunoe.workers.summarize.spec import SPEC as SUMMARIZE
from eunoe.workers.tree.spec import SPEC as TREE
from eunoe.workers.update.spec import SPEC as UPDATE

Stages = Mapping[str, StageSpec]
"""Name → spec, in the order of the pipeline."""


def stages_of(specs: Iterable[StageSpec]) -> Stages:
    """The stages by name, in this order.

    Raises ``ValueError`` where two have one name, where two declare one section of the settings, or where one reads a
    stage that is not there.
    """
    specs = tuple(specs)
    stages = {spec.name: spec for spec in specs}
    sections = [name for spec in specs for name in (*spec.settings, *spec.reply_settings)]
    for what, names in (("stages", [spec.name for spec in specs]), ("sections of the settings", sections)):
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{what} declared twice: {', '.join(twice)}")
    if missing := sorted({name for spec in specs for name in spec.reads} - stages.keys()):
        raise ValueError(f"stages are read that are not there: {', '.join(missing)}")
    return stages


STAGES: Stages = stages_of((INTAKE, BLEND, SEGMENT, COMPRESS, SUMMARIZE, UPDATE, LINK, TREE, RESPOND))


def load_stages() -> None:
    """Import what all stages are built of: a worker derives conversations again with stages that it does not run."""
    for spec in STAGES.values():
        spec.load()


def groups_of(stages: Stages) -> Mapping[str, tuple[str, ...]]:
    """Stages that one process may run together: all, those that a client waits for, and the others.

    Replies from a process of their own do not wait while another one imports sessions.
    """
    return {
        "all": tuple(stages),
        "replies": tuple(name for name, spec in stages.items() if spec.answers),
        "memory": tuple(name for name, spec in stages.items() if not spec.answers),
    }


GROUPS = groups_of(STAGES)

MEMORY_STAGES = tuple(name for name, spec in STAGES.items() if spec.makes_memory)
"""The stages that a rebuild runs."""


def settings_class(stages: Stages) -> type[StageSettingsBase]:
    """The settings of these stages: a section for each that a spec declares, in their order."""
    declared = [{**spec.settings, **spec.reply_settings} for spec in stages.values()]
    sections: dict[str, type[Value]] = {name: kind for kinds in declared for name, kind in kinds.items()}
    fields: dict[str, Any] = {name: (kind, kind()) for name, kind in sections.items()}
    return create_model(
        "StageSettings",
        __base__=StageSettingsBase,
        __doc__="The settings of all stages.",
        __module__=__name__,
        **fields,
    )


if TYPE_CHECKING:  # type checkers do not follow `create_model`; `StageSettingsBase.of` gives a section with its type
    StageSettings = StageSettingsBase
else:
    StageSettings = settings_class(STAGES)
