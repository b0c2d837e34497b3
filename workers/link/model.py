"""The judge that uses a language model."""

from collections.abc import Sequence

from eunoe.schemas.events import Provenance
from eunoe.schemas.model_ports import LanguageModel
from eunoe.schemas.relations import Relation
from eunoe.workers.link.judge import CODE, RelationJudgement, RelationPair, RelationVerdict
from eunoe.workers.link.offline import OfflineJudge
from eunoe.workers.link.prompt import batches, question
from eunoe.workers.link.settings import LinkSettings
from eunoe.workers.models.questions.answer_forms import RelationRow
from eunoe.workers.models.questions.items import ask_items


class ModelJudge:
    """Asks about all pairs of a session, at most forty in one question.

    A pair without a valid answer is decided by the offline judge, outside English by no relation.
    """

    def __init__(self, model: LanguageModel, offline: OfflineJudge, settings: LinkSettings) -> None:
        self._model = model
        self._offline = offline
        self._settings = settings

    async def judge(self, pairs: Sequence[RelationPair]) -> RelationJudgement:
        """One verdict per pair; no call for no pairs. Raises `Unavailable` if the model endpoint is unavailable."""
        if not pairs:
            return await self._offline.judge(pairs)
        chars = self._settings.max_evidence_chars
        found = await ask_items(
            self._model, question(chars), batches(pairs, self._settings.prompt_budget_tokens, chars)
        )
        # the names of all pairs matter offline, so it judges all of them, and only the open ones are taken
        offline = await self._offline.judge(pairs) if found.open else None
        verdicts = tuple(
            _verdict(row) if row is not None or offline is None else offline.verdicts[place]
            for place, row in enumerate(found.rows)
        )
        made_by = Provenance(code=CODE, model=self._model.name)
        return RelationJudgement(verdicts, found.provenance(made_by, made_by if offline is None else offline.made_by))


def _verdict(row: RelationRow | None) -> RelationVerdict:
    if row is None or row.relation == "None":
        return RelationVerdict(None, "" if row is None else " ".join(row.why.split()))
    return RelationVerdict(Relation(row.relation), " ".join(row.why.split()))
