"""States that end in a known way: learning and having passed, owning and having sold, searching and having found.

Each rule needs a cue in both sentences, and the same object wherever a person may have several.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from eunoe.workers.text.terms import terms
from eunoe.workers.text.words import weight
from eunoe.workers.update.english.parsing import ParsedSentence, cached_by_sentence

_WORDS = r"[\w'-]{1,30}"
_OBJECT = rf"({_WORDS}(?: {_WORDS}){{0,4}} ?)"
MIN_WEIGHT = 3
"""Weight of a word that names an object."""


class Same(Enum):
    """Ways in which the objects of two sentences agree."""

    HEAD = "head"
    """Their heads are one noun."""
    ANY = "any"
    """The head of one is anywhere in the other."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A state and the end of it."""

    state: re.Pattern[str]
    end: re.Pattern[str]
    because: str
    object: Same | None = None
    """The agreement of the captured objects; `None` where a person has one such state at a time."""


_CHANGES = (
    Transition(
        re.compile(r"\bpregnant\b|\bexpect(?:s|ing) (?:an? |(?:my|his|her|their) )?(?:first |second |third )?"
                   r"(?:baby|child|twins)\b"),
        re.compile(r"\b(?:gave|given) birth\b|\bhad (?:an?|(?:my|her|his|their)) (?:baby|babies|son|daughter|twins)\b|"
                   r"\bbaby (?:was|is) born\b|\bmiscarriage\b"),
        "the child is born",
    ),
    Transition(
        re.compile(r"\b(?:getting married|is engaged|am engaged|(?:will|'ll|going to) (?:get married|marry))\b"),
        re.compile(r"\b(?:wedding|engagement) (?:is|was|has been) (?:off|cancell?ed|called off)\b|"
                   r"\bcancell?ed (?:the|my|our|his|her|their) wedding\b|"
                   r"\b(?:called|broke) off (?:the|my|our|his|her|their) (?:wedding|engagement)\b"),
        "the wedding is off",
    ),
    Transition(
        re.compile(r"\b(?:learn(?:s|ing)? (?:how )?to drive|taking driving lessons|takes driving lessons|"
                   r"(?:has|have) a learner)\b"),
        re.compile(r"\bpassed (?:\w+ )?(?:driving |road )?test\b|\bdriv(?:ing|er's) licen[cs]e\b"),
        "the driving test is passed",
    ),
    Transition(
        re.compile(r"\bstud(?:y|ies|ying)\b|\b(?:at|in) (?:university|college|law school|med(?:ical)? school)\b|"
                   r"\b(?:is|am|'m) (?:an? )?(?:\w+ )?student\b"),
        re.compile(r"\bgraduated\b|\bdropped out of (?:university|college|\w+ school)\b|"
                   r"\b(?:finished|completed|got|earned) (?:my|her|his|their|an?) (?:\w+ ){0,2}degree\b"),
        "the studies are over",
    ),
    Transition(
        re.compile(r"\bvegetarian\b|\bvegan\b"),
        re.compile(r"\b(?:eat(?:s|ing)?|started eating|went back to eating) (?:\w+ )?"
                   r"(?:meat|chicken|beef|pork|bacon|steak)\b"),
        "meat is eaten again",
    ),
    Transition(
        re.compile(r"\b(?:unemployed|out of work|jobless|between jobs|(?:looking|searching|hunting) for "
                   r"(?:an? )?(?:new )?(?:\w+ )?(?:job|work|position))\b"),
        re.compile(r"\b(?:started|began) (?:working|work|(?:an? |my|her|his|their) ?(?:new )?job|at)\b|"
                   r"\b(?:got|found|landed|took|accepted) (?:an? |the )?(?:new )?(?:\w+ ){0,2}(?:job|position)\b|"
                   r"\b(?:got|was) hired\b"),
        "there is a job",
    ),
    Transition(
        re.compile(r"\b(?:lives?|living|stay(?:s|ing)?) with (?:my|his|her|their|[a-z]+'s) (?:parents|mother|father|"
                   r"mom|mum|dad|family|sister|brother|grandmother|grandparents|flatmates?|roommates?)\b"),
        re.compile(r"\bmoved out\b|\bmoved in (?:together|with)\b|"
                   r"\bmoved into (?:my|his|her|their|an?) own\b|\b(?:got|found|rented|bought) "
                   r"(?:my|his|her|their|an?) (?:own )?(?:place|flat|apartment|house|home)\b"),
        "another home",
    ),
    Transition(
        re.compile(r"\b(?:lives?|living|stay(?:s|ing)?) (?:alone|with|in|at)\b"),
        re.compile(r"\b(?:went|moved|has gone) (?:in|into|to) (?:an? |the )?"
                   r"(?:nursing|care|retirement|old people's) home\b"),
        "another home",
    ),
    Transition(
        re.compile(r"\b(?:lives? alone|living alone|rents?|renting|"
                   r"(?:has|have) a room|shares? an? (?:flat|apartment)|(?:lives?|living) in an? "
                   r"(?:[\w-]+ ){0,2}(?:room|flat|apartment|studio|dorm|house))\b"),
        re.compile(r"\bbought (?:an?|my|his|her|their) (?:[\w-]+ ){0,3}(?:house|flat|apartment|condo|home|place)\b|"
                   r"\bmoved (?:out|in (?:together|with)|"
                   r"into (?:an?|my|his|her|their) (?:[\w-]+ ){0,3}(?:house|flat|apartment|place|home))"
                   r"\b"),
        "another home",
    ),
    Transition(
        re.compile(r"\b(?:look|search|hunt|apply|wait)ing for " + _OBJECT),
        re.compile(r"\b(?:found|got|bought|landed|adopted|rented|chose|picked) " + _OBJECT),
        "what was looked for is found",
        Same.HEAD,
    ),
    Transition(
        re.compile(r"\b(?:owns?|drives?|rides?|(?:has|have)|keeps?|bought|got) " + _OBJECT),
        re.compile(r"\b(?:sold|gave away|given away|got rid of|scrapped|traded in) " + _OBJECT),
        "it is not owned any more",
        Same.HEAD,
    ),
    Transition(
        re.compile(r"\b(?:car|van|truck|motorbike|motorcycle|scooter|bike|boat|camper) is an? " + _OBJECT),
        re.compile(r"\b(?:sold|gave away|given away|got rid of|scrapped|traded in) (?:my|the|our|his|her|their) "
                   + _OBJECT),
        "it is not owned any more",
        Same.ANY,
    ),
    Transition(
        re.compile(r"\b(?:works?|working|employed|(?:has|have) a job|(?:is|am|'m) an? (?:[\w-]{1,30} ){0,2}"
                   r"[\w-]{1,30}) (?:as (?:[\w-]{1,30} ){1,4}?(?=(?:at|for|in|with) ))?(?:as|at|for|in|with) "
                   + _OBJECT),
        re.compile(r"\b(?:quit|quitting|left|leaving|resigned from|retired from|"
                   # not for the day
                   r"(?:was|got) (?:fired|laid off|let go) (?:from|by)) (?![^.,;!?]{1,40} (?:now|soon|early|late|today|"
                   r"tonight|tomorrow|at (?:noon|night|\d|one|two|three|four|five|six|seven|eight|nine|ten)|"
                   r"in an? \w{1,20}|to|without)\b)" + _OBJECT),
        "the job is over",
        Same.HEAD,
    ),
    Transition(
        re.compile(r"\b(?:takes?|taking|is on|are on|put (?:[\w'-]{1,30} ){1,3}on|(?:was|were|has been) prescribed|"
                   r"prescribed) "
                   r"(?:\d[\d.,]{0,6} ?(?:mg|mcg|ml|g) (?:of )?)?" + _OBJECT),
        re.compile(r"\b(?:stopped|quit|came off|(?:took|taken|weaned) (?:[\w'-]{1,30} ){1,3}off|"
                   r"no longer takes?) (?:taking )?" + _OBJECT),
        "it is not taken any more",
        Same.HEAD,
    ),
    Transition(
        re.compile(r"\bplan(?:s|ned|ning)? (?:to|on|for|an?) " + _OBJECT + r"|\b(?:going|wants|hopes) to " + _OBJECT
                   + r"|\b(?:will|'ll) (?:go|fly|travel|move|drive) to " + _OBJECT),
        re.compile(r"\b(?:cancell?ed|called off|postponed|gave up on|decided against|dropped) " + _OBJECT
                   + r"|\b(?:trip|journey|flights?|holiday|vacation|visit|move) to " + _OBJECT
                   + r"(?:is|are|was|were|has been) (?:off|cancell?ed|called off|postponed)\b"),
        "the plan is off",
        Same.ANY,
    ),
)  # fmt: skip
_SETTLED = (
    Transition(
        re.compile(r"\b(?:lost|misplaced|can't find|cannot find|is missing) " + _OBJECT + r"|\b" + _OBJECT
                   + r"(?:is|are|has gone|went|got) (?:missing|lost)\b"),
        re.compile(r"\b(?:found|got back|recovered|tracked down) " + _OBJECT + r"|\b" + _OBJECT
                   + r"(?:turned up|was found|were found|is back|came back|has been found)\b"),
        "what was lost is back",
        Same.HEAD,
    ),
    Transition(
        re.compile(r"\b(?:waiting|waits) (?:for|on) " + _OBJECT),
        re.compile(r"\b" + _OBJECT + r"(?:(?:finally|has|have|been|was|were) ){0,3}(?:arrived|came|come|delivered)\b"
                   r"|\b(?:received|got|heard back about) " + _OBJECT),
        "the wait is over",
        Same.HEAD,
    ),
    Transition(
        re.compile(r"\b(?:preparing|studying|revising|cramming|practising|practicing|training) for " + _OBJECT),
        re.compile(r"\b(?:passed|failed|aced|finished|sat|took|completed) " + _OBJECT),
        "it is behind them",
        Same.HEAD,
    ),
    Transition(
        re.compile(r"\bin (?:the )?(?:hospital|intensive care|rehab)\b|\bhospitali[sz]ed\b"),
        re.compile(r"\b(?:home|back|released|discharged|out|sent home) (?:again )?(?:from|of) (?:the )?"
                   r"(?:hospital|intensive care|rehab)\b|\bdischarged\b"),
        "the stay is over",
    ),
)  # fmt: skip


def state_changed(old: ParsedSentence, new: ParsedSentence) -> str:
    """The reason why the new sentence says what holds instead of the old one; empty if none is known."""
    return _ended(_states_changed(new), old)


def matter_settled(old: ParsedSentence, new: ParsedSentence) -> str:
    """The reason why the matter of the old sentence is over with the new one; empty if none is known."""
    return _ended(_matters_settled(new), old)


_Ends = tuple[tuple[Transition, tuple[str, ...]], ...]
"""Transitions whose end a sentence tells, each with the objects of the matches."""


# a new sentence is compared with many old ones, and most tell the end of nothing
@cached_by_sentence
def _matters_settled(new: ParsedSentence) -> _Ends:
    return _told(_SETTLED, new)


@cached_by_sentence
def _states_changed(new: ParsedSentence) -> _Ends:
    return _told(_CHANGES, new)


def _told(transitions: Iterable[Transition], new: ParsedSentence) -> _Ends:
    return tuple((one, ends) for one in transitions if (ends := tuple(_objects(one.end, new))))


def _ended(told: _Ends, old: ParsedSentence) -> str:
    return next((one.because for one, ends in told if _applies(one, old, ends)), "")


def _applies(one: Transition, old: ParsedSentence, ends: Sequence[str]) -> bool:
    states = _objects(one.state, old)
    if one.object is None:
        return bool(states)
    return any(_agree(state, end, one.object) for state in states for end in ends)


def _objects(pattern: re.Pattern[str], text: ParsedSentence) -> list[str]:
    """The captured object of each affirmed match; empty where the pattern captures none."""
    return [
        next((group for group in found.groups() if group), "")
        for found in pattern.finditer(text.plain)
        if not _DENIED.search(text.plain[max(0, found.start() - 16) : found.start()])
    ]


_DENIED = re.compile(r"\b(?:not|never|no longer|n't|almost|nearly|without)(?: \w+)?\s*$|n't(?: \w+)?\s*$")


def _agree(state: str, end: str, how: Same) -> bool:
    if how is Same.HEAD:
        return bool(_head(state) & _head(end))
    return bool(_head(state) & _telling(end) or _telling(state) & _head(end))


_STOP = re.compile(r"\b(?:and|but|with|at|in|on|for|from|to|because|so|since|after|by|near|of|who|which|that|when)\b")


def _head(phrase: str) -> frozenset[str]:
    """The stem of the last telling word before a preposition or conjunction."""
    words = _telling_words(_STOP.split(f"{phrase} ")[0])
    return frozenset(terms(words[-1])) if words else frozenset()


def _telling(phrase: str) -> frozenset[str]:
    return frozenset(stem for word in _telling_words(phrase) for stem in terms(word))


def _telling_words(phrase: str) -> list[str]:
    return [word for word in phrase.split() if weight(word.strip("'-")) >= MIN_WEIGHT and terms(word)]


_STOPPED = re.compile(r"\b(?:stopped|quit|quits|gave up|given up) (\w+ing)\b([^.,;!?]*)")
_FIRST = re.compile(r"\bfirst\b|\bfinally\b|\bfor the first time\b")
_NEVER = re.compile(r"\bnever\b")


def last_word(text: ParsedSentence) -> str:
    """The stem of the last telling word; empty if there is none."""
    return next((word.stem for word in reversed(text.words) if word.stem), "")


def _stems_of(word: str) -> frozenset[str]:
    return frozenset(terms(word))


def habit_ended(old: ParsedSentence, new: ParsedSentence) -> str:
    """The reason, where somebody has stopped doing what the old sentence says they do."""
    stopped = _stops(new)
    if not stopped or not old.words or old.negated:
        return ""
    verb = next((word.stem for word in old.words if word.stem), "")
    for found in stopped:
        of = frozenset(terms(found[2])) & new.stems
        if verb and _stems_of(found[1]) == {verb} and (of & old.stems or not of or new.dated or old.stems == {verb}):
            return f"no {found[1]} any more"
    return ""


@cached_by_sentence
def _stops(text: ParsedSentence) -> Sequence[re.Match[str]]:
    return list(_STOPPED.finditer(text.plain))


def first_time(old: ParsedSentence, new: ParsedSentence) -> str:
    """The reason, where something never done has been done."""
    noun = last_word(old) if _is_first(new) else ""
    if noun and noun in new.stems - new.negated and _NEVER.search(old.plain):
        return f"the first {noun}"
    return ""


@cached_by_sentence
def _is_first(text: ParsedSentence) -> bool:
    return _FIRST.search(text.plain) is not None
