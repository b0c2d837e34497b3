"""The aggregator that uses a language model."""

from collections.abc import Sequence
from dataclasses import replace

from eunoe.schemas.events import Provenance
from eunoe.schemas.model_ports import LanguageModel
from eunoe.workers.models.questions.items import ask_items
from eunoe.workers.tree.aggregates import Aggregate, AggregateTask
from eunoe.workers.tree.nodes import CODE
from eunoe.workers.tree.offline import OfflineAggregator
from eunoe.workers.tree.prompt import NAME, question, split_tasks
from eunoe.workers.tree.settings import TreeSettings


class ModelAggregator:
    """Asks about all changed nodes of a session, at most twelve in one question.

    A faulty summary is asked for again once; after that the offline aggregator writes it, marked as a fallback.
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
        found = await ask_items(self._model, question(limit), split_tasks(asked, limit, budget))
        made_by = Provenance(code=CODE, model=self._model.name, prompt=NAME)
        made = {
            task.node_id: Aggregate(" ".join(row.text.split()), made_by)
            for task, row in zip(asked, found.rows, strict=True)
            if row is not None
        }
        rest = [task for task in tasks if task.node_id not in made]
        for task, aggregate in zip(rest, await self._offline.aggregate(rest, names), strict=True):
            made[task.node_id] = _as_fallback(aggregate) if task.has_content else aggregate
        return [made[task.node_id] for task in tasks]


def _as_fallback(aggregate: Aggregate) -> Aggregate:
    made_by = aggregate.made_by.model_copy(update={"prompt": NAME, "fallback": True})
    return replace(aggregate, made_by=made_by)
