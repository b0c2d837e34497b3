"""Reads corrections of LoCoMo's evidence: a JSON list of {sample_id, question, correct_evidence}."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import orjson

from eunoe.deploy.datasets.loaded import EvalQuestion, LoadedConversation
from eunoe.deploy.datasets.locomo import evidence_ids
from eunoe.schemas.errors import Refused

Errata = Mapping[tuple[str, str], tuple[str, ...]]
"""(Conversation, question) → the corrected evidence, as strings of the file."""


def read_errata(path: Path) -> Errata:
    """The corrections in a file; raises `Refused` where it cannot be read or has another form."""
    try:
        rows = orjson.loads(path.read_bytes())
    except OSError as error:
        raise Refused(f"{path}: cannot be read: {error.strerror}") from None
    except orjson.JSONDecodeError as error:
        raise Refused(f"{path}, line {error.lineno}: not JSON: {error.msg}") from None
    try:
        return {(row["sample_id"], row["question"]): tuple(map(str, row["correct_evidence"])) for row in rows}
    except (KeyError, TypeError):
        raise Refused(
            f"{path}: is not a list of corrections: each has sample_id, question and correct_evidence"
        ) from None


def corrected(loaded: LoadedConversation, errata: Errata) -> LoadedConversation:
    """The conversation, its questions with corrected evidence; that of others counts as correct already."""
    known = {one.utterance_id for one in loaded.utterances}

    def of(question: EvalQuestion) -> EvalQuestion:
        rows = errata.get((loaded.conversation_id, question.question))
        evidence = question.evidence if rows is None else evidence_ids(rows, known)
        return question.model_copy(update={"corrected": evidence})

    return replace(loaded, questions=tuple(map(of, loaded.questions)))
