"""Comparison of decisions with gold; each function returns the differences, in words."""

from collections.abc import Mapping, Sequence

from eunoe.deploy.evaluate.prompts.inputs import (
    BlendGold,
    InsightGold,
    MemoryGold,
    OperationsGold,
    RelationsGold,
    ReplyGold,
    SegmentGold,
    SummaryGold,
    TextGold,
    TreeGold,
)
from eunoe.deploy.evaluate.prompts.matching import abstains, has, script_fault, word_faults
from eunoe.schemas.events import Insight
from eunoe.schemas.memory import MemoryDraft
from eunoe.workers.text.tokens import count_tokens
from eunoe.workers.update.operator import Operation, OperationVerdict

NEAR = 1
"""Rows by which a boundary may be off."""


def segment_faults(starts: Sequence[int], gold: SegmentGold) -> list[str]:
    """Compare the first rows of segments, the first segment's left out."""
    found = [start for start in starts if start > 1]
    missing = [want for want in gold.starts if not any(abs(want - start) <= NEAR for start in found)]
    allowed = (*gold.starts, *gold.also)
    strange = [start for start in found if not any(abs(start - one) <= NEAR for one in allowed)]
    return [f"no segment begins at row {row}" for row in missing] + [
        f"a segment begins at row {row}" for row in strange
    ]


def summary_faults(drafts: Sequence[MemoryDraft], gold: SummaryGold) -> list[str]:
    """Compare the memories of a session."""
    faults = [fault for want in gold.memories if (fault := _missing_memory(want, drafts)) is not None]
    whole = "\n".join(draft.text for draft in drafts)
    faults += word_faults(whole, (), gold.banned)
    if gold.most is not None and len(drafts) > gold.most:
        faults.append(f"{len(drafts)} memories, at most {gold.most} are worth it")
    return faults + script_fault([draft.text for draft in drafts], gold.script)


def _missing_memory(want: MemoryGold, drafts: Sequence[MemoryDraft]) -> str | None:
    told = [draft for draft in drafts if all(has(draft.text, words) for words in want.words)]
    if not told:
        return f"no memory with {', '.join(want.words)}"
    said = [draft for draft in told if want.speaker in (None, draft.speaker)]
    if not said:
        return f"the memory with {', '.join(want.words)} is {told[0].speaker}'s, not {want.speaker}'s"
    wanted = {f"u{number}" for number in want.cites}
    if wanted and not any(wanted & {line.utterance_id for line in draft.evidence} for draft in said):
        return f"the memory with {', '.join(want.words)} cites none of the lines {list(want.cites)}"
    return None


def operation_faults(verdicts: Sequence[OperationVerdict], gold: OperationsGold) -> list[str]:
    """Compare the operations, and the fused sentence where there is one."""
    given = [verdict.operation.value for verdict in verdicts]
    faults = _not_allowed(given, gold.operations)
    fused = " ".join(verdict.fused for verdict in verdicts if verdict.operation is Operation.FUSE)
    return faults + (word_faults(fused, gold.fused, ()) if fused else [])


def relation_faults(given: Sequence[str], gold: RelationsGold) -> list[str]:
    """Compare the relations."""
    return _not_allowed(given, gold.relations)


def _not_allowed(given: Sequence[str], allowed: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"pair {number}: {one}, not {' or '.join(wanted)}"
        for number, (one, wanted) in enumerate(zip(given, allowed, strict=True), 1)
        if one not in wanted
    ]


def text_faults(text: str, gold: TextGold) -> list[str]:
    """Compare one text."""
    faults = word_faults(text, gold.words, gold.banned) + script_fault([text], gold.script)
    length = count_tokens(text)
    return faults + ([f"has {length} words, at most {gold.most} may be"] if gold.most and length > gold.most else [])


def tree_faults(texts: Sequence[str], gold: TreeGold) -> list[str]:
    """Compare the texts of nodes."""
    return [
        f"node {number} {fault}"
        for number, (text, want) in enumerate(zip(texts, gold.nodes, strict=True), 1)
        for fault in text_faults(text, want)
    ]


def blend_faults(insights: Sequence[Insight], places: Mapping[str, int], gold: BlendGold) -> list[str]:
    """Compare the insights of a turn; ``places``: memory id → number."""
    faults = [fault for want in gold.insights if (fault := _missing_insight(want, insights, places)) is not None]
    texts = [insight.text for insight in insights]
    faults += word_faults("\n".join(texts), (), gold.banned)
    if gold.most is not None and len(insights) > gold.most:
        faults.append(f"{len(insights)} insights, at most {gold.most} are in these lines")
    return faults + script_fault(texts, gold.script)


def _missing_insight(want: InsightGold, insights: Sequence[Insight], places: Mapping[str, int]) -> str | None:
    told = [insight for insight in insights if all(has(insight.text, words) for words in want.words)]
    if not told:
        return f"no insight with {', '.join(want.words)}"
    kind = told[0].kind.value
    if kind not in want.kinds:
        return f"the insight with {', '.join(want.words)} is {kind}, not {' or '.join(want.kinds)}"
    replaced = tuple(sorted(places[id_] for id_ in told[0].replaces))
    if want.replaces and replaced != want.replaces:
        return f"the insight with {', '.join(want.words)} replaces {list(replaced)}, not {list(want.replaces)}"
    return None


def reply_faults(text: str, cited: Sequence[int], gold: ReplyGold) -> list[str]:
    """Compare a reply."""
    faults = text_faults(text, gold)
    if gold.abstains and not abstains(text):
        faults.append("does not say that it does not remember")
    if gold.cites and not set(gold.cites) & set(cited):
        faults.append(f"cites none of the rows {list(gold.cites)}")
    return faults
