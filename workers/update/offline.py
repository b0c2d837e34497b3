"""The operator that needs no language model."""

from collections.abc import Sequence

from eunoe.schemas.events import Provenance
from eunoe.workers.update.english.rules import judge_by_rules
from eunoe.workers.update.operator import CODE, OperationJudgement, OperationPair

MODEL = "rules/11"


class OfflineOperator:
    """Decides by strict rules, APPEND in doubt and for what is not English; deterministic."""

    reads_meaning = False

    async def operate(self, pairs: Sequence[OperationPair]) -> OperationJudgement:
        """One verdict per pair; never raises."""
        verdicts = tuple(judge_by_rules(pair) for pair in pairs)
        return OperationJudgement(verdicts, Provenance(code=CODE, model=MODEL))
