"""Spec of stage compress."""

from eunoe.schemas.events import SessionSegmented
from eunoe.workers.compress.restore import restore_points
from eunoe.workers.compress.segments import NAME, TABLES
from eunoe.workers.compress.settings import CompressSettings
from eunoe.workers.compress.stage import CompressStage
from eunoe.workers.stage import ApplyOrder, Dependencies, ModelKind, Stage, StageSpec, skip_session


def build(dependencies: Dependencies) -> Stage:
    """The stage over these ports."""
    settings = dependencies.settings.of(CompressSettings)
    return CompressStage(dependencies.store, dependencies.compressor, dependencies.embedder, settings)


SPEC = StageSpec(
    name=NAME,
    purpose="Denoise segments and make them findable (SeCom, section 2.3)",
    consumes=(SessionSegmented,),
    order=ApplyOrder.SESSION,
    build=build,
    settings={"compress": CompressSettings},
    models=(ModelKind.EMBEDDING, ModelKind.COMPRESSION),
    tables=TABLES,
    on_failure=skip_session(NAME),
    restore_points=restore_points,
)
