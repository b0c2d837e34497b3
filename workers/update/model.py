"""The operator that asks a language model."""

from collections.abc import Sequence

from eunoe.schemas.events import Provenance
from eunoe.schemas.ports import LanguageModel
from eunoe.workers.models.asking import ask_checked
from eunoe.workers.models.offered import one_each
from eunoe.workers.update.offline import OfflineOperator
from eunoe.workers.update.operator import CODE, Operation, OperationJudgement, OperationPair, OperationVerdict
from eunoe.workers.update.prompt import NAME, OperationAnswer, OperationsAnswer, operations_prompt


class ModelOperator:
    """One question for all pairs of a session.

    An answer is believed when it tells of every pair once. What fails is asked once more with the fault named;
    then the offline operator decides the whole session.
    """

    reads_meaning = True

    def __init__(self, model: LanguageModel, offline: OfflineOperator) -> None:
        self._model = model
        self._offline = offline

    async def operate(self, pairs: Sequence[OperationPair]) -> OperationJudgement:
        """A verdict for every pair; nobody is asked where there is none. Raises `Unavailable` when the endpoint is."""
        if not pairs:
            return await self._offline.operate(pairs)
        prompt = operations_prompt(pairs)
        form = one_each(OperationsAnswer, "pairs", "pair", len(pairs))
        asked = await ask_checked(self._model, prompt, form, lambda answer: answer.fault(len(pairs)))
        if asked.answer is None:
            found = await self._offline.operate(pairs)
            made_by = found.made_by.model_copy(update={"prompt": NAME, "fallback": True})
            return OperationJudgement(found.verdicts, made_by)
        told = sorted(asked.answer.pairs, key=lambda answer: answer.pair)
        made_by = Provenance(code=CODE, model=self._model.name, prompt=NAME)
        return OperationJudgement(tuple(map(_verdict, told)), made_by)


def _verdict(answer: OperationAnswer) -> OperationVerdict:
    operation = Operation(answer.operation)
    fused = " ".join(answer.fused.split()) if operation is Operation.FUSE else ""
    return OperationVerdict(operation, " ".join(answer.reason.split()), fused)
