"""The judge that uses a language model."""

from collections.abc import Sequence

from eunoe.schemas.events import Provenance
from eunoe.schemas.ports import LanguageModel
from eunoe.workers.link.judge import CODE, RelationJudgement, RelationPair, RelationVerdict
from eunoe.workers.link.offline import OfflineJudge
from eunoe.workers.link.prompt import NAME, RelationsAnswer, batches, relations_prompt
from eunoe.workers.link.settings import LinkSettings
from eunoe.workers.models.asking import ask_checked
from eunoe.workers.models.offered import one_each


class ModelJudge:
    """Asks one question for all pairs of a session; several only if they exceed the prompt budget.

    An answer is valid if it covers every pair exactly once. An invalid one is asked once more with the fault named;
    after that the offline judge decides the whole session.
    """

    def __init__(self, model: LanguageModel, offline: OfflineJudge, settings: LinkSettings) -> None:
        self._model = model
        self._offline = offline
        self._settings = settings

    async def judge(self, pairs: Sequence[RelationPair]) -> RelationJudgement:
        """One verdict per pair; no call for no pairs. Raises `Unavailable` if the model endpoint is unavailable."""
        verdicts: list[RelationVerdict] = []
        for batch in batches(pairs, self._settings.prompt_budget_tokens, self._settings.max_evidence_chars):
            answers = await self._ask(batch)
            if answers is None:
                return await self._fall_back(pairs)
            verdicts.extend(answers)
        return RelationJudgement(tuple(verdicts), Provenance(code=CODE, model=self._model.name, prompt=NAME))

    async def _ask(self, batch: Sequence[RelationPair]) -> list[RelationVerdict] | None:
        prompt = relations_prompt(batch, self._settings.max_evidence_chars)
        form = one_each(RelationsAnswer, "pairs", "pair", len(batch))
        asked = await ask_checked(self._model, prompt, form, lambda answer: answer.fault(len(batch)))
        if asked.answer is None:
            return None
        answers = sorted(asked.answer.pairs, key=lambda answer: answer.pair)
        return [RelationVerdict(answer.related, answer.explanation) for answer in answers]

    async def _fall_back(self, pairs: Sequence[RelationPair]) -> RelationJudgement:
        found = await self._offline.judge(pairs)
        made_by = found.made_by.model_copy(update={"prompt": NAME, "fallback": True})
        return RelationJudgement(found.verdicts, made_by)
