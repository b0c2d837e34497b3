"""Questions for a day alone: "What did I say yesterday?", "What happened in May?". English only.

They have no topic by which an answer could be found: whatever was said on that day, or tells of it, answers them.
"""

from collections.abc import Sequence, Set

from eunoe.workers.respond.breadth import topic_of
from eunoe.workers.respond.context import Row
from eunoe.workers.respond.hints import QuestionHints
from eunoe.workers.respond.offline.whose import asks_of_self
from eunoe.workers.respond.times import is_among, names_days, without_days
from eunoe.workers.text.terms import terms

_SAYING = frozenset(
    terms(
        "say said saying tell told telling talk talked talking speak spoke spoken mention mentioned discuss discussed "
        "chat chatted conversation write wrote message messages"
    )
)
"""Terms that ask for what was said."""
_ASKING = _SAYING.union(
    terms(
        "happen happened happening event events do did done go going went gone thing things anything something "
        "everything else new plan plans planned planning schedule scheduled calendar agenda remember recall know show "
        "list please again"
    )
)
"""Terms that ask for whatever there is."""
_ASKING_BACK = _ASKING.union(
    terms(
        "suggest suggested suggestion suggestions recommend recommended recommendation recommendations advise advised "
        "advice propose proposed promise promised explain explained give gave given answer answers reply replies list "
        "listed"
    )
)
"""Terms that ask for whatever the one spoken to said."""


def asks_for_days(question: str, hints: QuestionHints, speakers: Sequence[str]) -> bool:
    """Whether a question names days and nothing else that an answer could be found by."""
    if not hints.days:
        return False
    topic = topic_of(without_days(question, hints.days), hints.breadth)
    return (_ASKING_BACK if hints.replies else _ASKING).issuperset(terms(topic, drop=speakers))


def rows_of_days(rows: Sequence[Row], question: str, hints: QuestionHints) -> list[int]:
    """The places of the rows that answer such a question, of those who are asked about.

    They were said on one of the days; or they tell of one, where the question is not for what was said. A memory of
    an utterance that is among them is left out.
    """
    people = _people_asked(question, hints)
    days = () if hints.said and not _SAYING.isdisjoint(terms(question)) else hints.days
    found = [
        place
        for place, row in enumerate(rows)
        if (not people or row.speaker in people)
        and (is_among(hints.said, row.at.date()) or names_days(row.text, row.at.date(), days))
    ]
    said = {id_ for place in found if not rows[place].is_memory for id_ in rows[place].cites}
    return [place for place in found if not (rows[place].is_memory and said.issuperset(rows[place].cites))]


def _people_asked(question: str, hints: QuestionHints) -> Set[str]:
    """The participants whose words are asked for; empty for those of all. "What did Ben tell me?" is about Ben."""
    if hints.asker and asks_of_self(question):
        return {hints.asker}
    return hints.named or hints.speakers
