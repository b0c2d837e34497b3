"""Stage `wordcount` in one file: counts the words of each session, and of all sessions before it."""

from pydantic import Field

from eunoe.schemas.base import Value
from eunoe.schemas.decisions import Decision, Put, Work
from eunoe.schemas.events import SessionSegmented
from eunoe.schemas.ports import StateStore
from eunoe.workers.stage import ApplyOrder, Dependencies, Stage, StageSpec, skip_session
from eunoe.workers.tables import StageTables

NAME = "wordcount"
WORDS = "words"


class WordCountSettings(Value):
    """Which words count."""

    min_letters: int = Field(default=1, ge=1)
    """Letters of the shortest word that counts."""


class SessionWords(Value):
    """The words of one session."""

    session: int
    words: int
    total: int
    """With the sessions before it."""


class WordCountStage:
    """Owns the word counts of a conversation."""

    def __init__(self, store: StateStore, settings: WordCountSettings) -> None:
        self._store = store
        self._settings = settings

    async def decide(self, work: Work[SessionSegmented]) -> Decision:
        """The count of one session; raises `Unavailable` when the store is."""
        event = work.event
        (before,) = await self._store.fetch(NAME, work.key, WORDS, [str(event.session - 1)])
        found = [word for line in event.lines for word in line.text.split()]
        words = sum(len(word) >= self._settings.min_letters for word in found)
        total = words + (SessionWords.from_json(before).total if before else 0)
        row = SessionWords(session=event.session, words=words, total=total)
        return Decision(writes=(Put.of(WORDS, str(event.session), row),))


def build(dependencies: Dependencies) -> Stage:
    """The stage over these ports."""
    return WordCountStage(dependencies.store, dependencies.settings.of(WordCountSettings))


SPEC = StageSpec(
    name=NAME,
    purpose="Count the words of sessions",
    consumes=(SessionSegmented,),
    order=ApplyOrder.SESSION,
    build=build,
    settings={"wordcount": WordCountSettings},
    tables=StageTables(digested=(WORDS,)),
    on_failure=skip_session(NAME),
)
