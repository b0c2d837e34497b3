"""Reads the conversations and questions of a file of evaluation data."""

from collections.abc import Sequence
from pathlib import Path

from eunoe.deploy.datasets import locomo
from eunoe.deploy.datasets.errata import corrected, read_errata
from eunoe.deploy.datasets.load import load_conversation, read_events
from eunoe.deploy.datasets.loaded import EvalQuestion, LoadedConversation
from eunoe.schemas.errors import Refused

UNANSWERABLE = "adversarial"


def read_corpus(path: Path, samples: Sequence[str] = ()) -> list[LoadedConversation]:
    """The conversations of a file in LoCoMo's format or of JSON lines of events: all, or those named ``samples``.

    Raises `Refused` for a file in another format, and for a sample that it does not hold.
    """
    names = samples or _names(path)
    return [load_conversation(path, name) for name in dict.fromkeys(names)]


def _names(path: Path) -> list[str]:
    document = locomo.samples_in(path.read_bytes(), path) if path.is_file() else None
    if document is not None:
        return [str(sample.get("sample_id", f"sample-{place}")) for place, sample in enumerate(document, 1)]
    return list(dict.fromkeys(event.conversation_id for event in read_events(path)))


def with_questions(path: Path, samples: Sequence[str] = (), errata: Path | None = None) -> list[LoadedConversation]:
    """The conversations of `read_corpus` that have questions with evidence; raises `Refused` where none has.

    ``errata``: a file of corrected evidence (`eunoe.deploy.datasets.errata`).
    """
    found = [loaded for loaded in read_corpus(path, samples) if answerable(loaded)]
    if errata is not None:
        corrections = read_errata(errata)
        found = [corrected(loaded, corrections) for loaded in found]
    if not found:
        raise Refused(
            f"{path}: no question names its evidence. A LoCoMo file holds questions under 'qa'; those of"
            " x-conversation.jsonl are in x-questions.jsonl beside it, one line each:"
            ' {"question": …, "evidence": ["utterance id", …]}'
        )
    return found


def answerable(loaded: LoadedConversation) -> list[EvalQuestion]:
    """The questions that name evidence, without those of category `UNANSWERABLE`."""
    return [one for one in loaded.questions if one.evidence and one.category != UNANSWERABLE]
