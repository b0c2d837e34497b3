"""The operator that uses a language model."""

from collections.abc import Sequence

from eunoe.schemas.events import Provenance
from eunoe.schemas.ports import LanguageModel
from eunoe.workers.models.asking import ask_checked
from eunoe.workers.models.offered import one_each
from eunoe.workers.update.offline import OfflineOperator
from eunoe.workers.update.operator import CODE, Operation, OperationJudgement, OperationPair, OperationVerdict
from eunoe.workers.update.prompt import NAME, OperationAnswer, OperationsAnswer, operations_prompt


class ModelOperator:
    """Asks one question for all pairs of a session.

    An answer is valid if it covers every pair exactly once. An invalid one is asked once more with the fault named;
    after that the offline operator decides the whole session.
    """

    reads_meaning = True

    def __init__(self, model: LanguageModel, offline: OfflineOperator) -> None:
        self._model = model
        self._offline = offline

    async def operate(self, pairs: Sequence[OperationPair]) -> OperationJudgement:
        """One verdict per pair; no call for no pairs. Raises `Unavailable` if the model endpoint is unavailable."""
        if not pairs:
            return await self._offline.operate(pairs)
        prompt = operations_prompt(pairs)
        form = one_each(OperationsAnswer, "pairs", "pair", len(pairs))
        asked = await ask_checked(self._model, prompt, form, lambda answer: answer.fault(len(pairs)))
        if asked.answer is None:
            found = await self._offline.operate(pairs)
            made_by = found.made_by.model_copy(update={"prompt": NAME, "fallback": True})
            return OperationJudgement(found.verdicts, made_by)
        answers = sorted(asked.answer.pairs, key=lambda answer: answer.pair)
        made_by = Provenance(code=CODE, model=self._model.name, prompt=NAME)
        return OperationJudgement(tuple(map(_verdict, answers)), made_by)


def _verdict(answer: OperationAnswer) -> OperationVerdict:
    operation = Operation(answer.operation)
    fused = " ".join(answer.fused.split()) if operation is Operation.FUSE else ""
    return OperationVerdict(operation, " ".join(answer.reason.split()), fused)
