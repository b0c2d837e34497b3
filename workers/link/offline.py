"""The judge that needs no language model."""

from collections.abc import Sequence

from eunoe.schemas.events import Provenance
from eunoe.workers.link.cues import judge_by_cues, names_in
from eunoe.workers.link.judge import CODE, RelationJudgement, RelationPair
from eunoe.workers.link.settings import LinkSettings


class OfflineJudge:
    """Decides by cues, preferring precision: Changed, Cause, SameTopic or none; deterministic."""

    def __init__(self, settings: LinkSettings) -> None:
        self._settings = settings

    async def judge(self, pairs: Sequence[RelationPair]) -> RelationJudgement:
        """One verdict per pair; never raises."""
        names = names_in(pairs)
        verdicts = tuple(judge_by_cues(pair, names, self._settings) for pair in pairs)
        return RelationJudgement(verdicts, Provenance(code=CODE, model="cues"))
