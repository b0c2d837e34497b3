"""The operator that uses a language model."""

from collections.abc import Sequence

from eunoe.schemas.events import Provenance
from eunoe.schemas.model_ports import LanguageModel
from eunoe.workers.models.questions.answer_forms import OperationRow
from eunoe.workers.models.questions.items import ask_items
from eunoe.workers.update.offline import MODEL, OfflineOperator
from eunoe.workers.update.operator import (
    APPENDED,
    CODE,
    Operation,
    OperationJudgement,
    OperationPair,
    OperationVerdict,
)
from eunoe.workers.update.prompt import batches, question


class ModelOperator:
    """Asks about all pairs of a session, at most forty in one question.

    A pair without a valid answer is decided by the offline operator, outside English by APPEND.
    """

    reads_meaning = True

    def __init__(self, model: LanguageModel, offline: OfflineOperator) -> None:
        self._model = model
        self._offline = offline

    async def operate(self, pairs: Sequence[OperationPair]) -> OperationJudgement:
        """One verdict per pair; no call for no pairs. Raises `Unavailable` if the model endpoint is unavailable."""
        if not pairs:
            return await self._offline.operate(pairs)
        asked = batches(pairs)
        found = await ask_items(self._model, question(), asked)
        flat = [pair for batch in asked for pair in batch]
        verdicts = {pair.ids: _verdict(row) for pair, row in zip(flat, found.rows, strict=True) if row is not None}
        left = [pair for pair in pairs if pair.ids not in verdicts]
        offline = (await self._offline.operate(left)).verdicts
        verdicts |= {pair.ids: verdict for pair, verdict in zip(left, offline, strict=True)}
        made_by = found.provenance(Provenance(code=CODE, model=self._model.name), Provenance(code=CODE, model=MODEL))
        return OperationJudgement(tuple(verdicts.get(pair.ids, APPENDED) for pair in pairs), made_by)


def _verdict(row: OperationRow) -> OperationVerdict:
    operation = Operation(row.op)
    fused = " ".join(row.merged.split()) if operation is Operation.FUSE else ""
    return OperationVerdict(operation, " ".join(row.why.split()), fused)
