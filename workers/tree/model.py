"""The aggregator that uses a language model."""

from collections.abc import Sequence
from dataclasses import replace

from eunoe.schemas.events import Provenance
from eunoe.schemas.ports import LanguageModel, Prompt
from eunoe.workers.models.asking import ask_checked
from eunoe.workers.models.offered import one_each
from eunoe.workers.models.recording import RecordedModel
from eunoe.workers.tree.aggregates import Aggregate, AggregateTask
from eunoe.workers.tree.nodes import CODE
from eunoe.workers.tree.offline import OfflineAggregator
from eunoe.workers.tree.prompt import (
    NAME,
    AggregateContext,
    SummariesAnswer,
    aggregate_prompt,
    fault_of,
    split_tasks,
    usable,
)
from eunoe.workers.tree.settings import TreeSettings


class ModelAggregator:
    """Asks one question for all nodes of a session; several only if they exceed the prompt budget.

    A faulty answer is asked again once. If both are faulty, the valid summaries of the better one are used; the offline
    aggregator writes the others, marked as a fallback.
    """

    def __init__(self, model: LanguageModel, offline: OfflineAggregator, settings: TreeSettings) -> None:
        self._model = model
        self._offline = offline
        self._settings = settings

    async def aggregate(self, tasks: Sequence[AggregateTask], names: Sequence[str]) -> list[Aggregate]:
        """One text per task, none empty; raises `Unavailable` if the endpoint is unavailable.

        Nodes below which all entries have ended are left to the offline aggregator.
        """
        asked = [task for task in tasks if task.has_content]
        limit, budget = self._settings.aggregate_tokens, self._settings.prompt_budget_tokens
        texts: dict[str, str] = {}
        for part in split_tasks(asked, limit, budget):
            texts |= await self._ask(part)
        rest = [task for task in tasks if task.node_id not in texts]
        made_by = Provenance(code=CODE, model=self._model.name, prompt=NAME)
        made = {id_: Aggregate(text, made_by) for id_, text in texts.items()}
        for task, aggregate in zip(rest, await self._offline.aggregate(rest, names), strict=True):
            made[task.node_id] = _as_fallback(aggregate) if task.has_content else aggregate
        return [made[task.node_id] for task in tasks]

    async def _ask(self, tasks: tuple[AggregateTask, ...]) -> dict[str, str]:
        """Node id → text, for the nodes with a valid summary."""
        limit, n = self._settings.aggregate_tokens, len(tasks)
        prompt = aggregate_prompt(AggregateContext(tasks, limit))
        form = one_each(SummariesAnswer, "summaries", "node", n)
        answers: list[SummariesAnswer] = await self._kept(prompt, form)
        if not answers:

            def check(answer: SummariesAnswer) -> str | None:
                answers.append(answer)
                return fault_of(answer, n, limit)

            asked = await ask_checked(self._model, prompt, form, check)
            answers.sort(key=lambda answer: len(usable(answer, n, limit)))
            await self._keep(prompt, form, answers if asked.answer is None else [])
        good = usable(answers[-1], n, limit) if answers else {}
        return {tasks[number - 1].node_id: text for number, text in good.items()}

    async def _kept(self, prompt: Prompt, form: type[SummariesAnswer]) -> list[SummariesAnswer]:
        """The recorded answer, which may be valid in part; empty if there is none."""
        kept = await self._model.recall(prompt, form) if isinstance(self._model, RecordedModel) else None
        return [] if kept is None or kept.answer is None else [kept.answer]

    async def _keep(self, prompt: Prompt, form: type[SummariesAnswer], answers: Sequence[SummariesAnswer]) -> None:
        """Record an answer that is valid in part, so that a replay uses the same part."""
        if answers and isinstance(self._model, RecordedModel):
            await self._model.record(prompt, form, answers[-1])


def _as_fallback(aggregate: Aggregate) -> Aggregate:
    made_by = aggregate.made_by.model_copy(update={"prompt": NAME, "fallback": True})
    return replace(aggregate, made_by=made_by)
