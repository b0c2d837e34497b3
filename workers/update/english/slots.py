"""Facts of which a person has one value at a time: home, job, marital state, favourites. English cues."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from eunoe.workers.text.terms import terms
from eunoe.workers.update.english.holders import another_holder
from eunoe.workers.update.english.parsing import ParsedSentence, cached_by_sentence

_UNTIL = r"([^.,;!?]+?)(?=$|[.,;!?]| (?:with|because|since|for|and|but|after|when|while|so|to|last|on|in \d)\b)"


@dataclass(frozen=True, slots=True)
class Slot:
    """The value of a slot in a sentence."""

    name: str
    value: frozenset[str]
    changes: bool
    """Whether a verb of change states it."""


_STATES = (
    (
        "home",
        re.compile(
            r"\b(?:lives?|living|resides?|residing|is based|home is|stay(?:s|ing)?|"
            r"(?:has|have|rents?|shares?) an? (?:[\w-]+ )?(?:room|flat|apartment)) "
            r"(?:(?:alone|now|still) )?(?:in|at|near) " + _UNTIL
        ),
    ),
    (
        "job",
        re.compile(
            r"\b(?:works?|working|employed|(?:has|have) a job|job is) "
            r"(?:(?:nights|days|shifts|weekends|part[- ]time|full[- ]time|remotely|freelance) )?(?:as|at|for|in) "
            + _UNTIL
        ),
    ),
    (
        "job",
        re.compile(
            r"\b(?:is|am|i'm) an? (?:[\w-]{1,30} ){0,3}?(?!(?:custom|memb|us|strang|volunt)e{1,2}r\b|visitor\b)"
            r"(?:\w{2,20}(?:er|or|ist|ian|ant|ect)|nurse|chef|cook|judge|pilot|clerk|mechanic) (?:at|for) (?!heart\b)"
            + _UNTIL
        ),
    ),
)
_WHEN = (
    r"(?:spring|summer|autumn|fall|winter|january|february|march|april|may|june|july|august|september|october|november|"
    r"december)\b"
)
_CHANGES = (
    ("home", re.compile(r"\b(?:moved|relocated|settled down) (?:back )?"
                        r"(?:to|into|in(?! (?:with|together)\b)) (?!(?:part|full)[- ]time\b)" + _UNTIL)),
    ("home", re.compile(r"\bmoved in with (?:[\w'-]{1,30} ){1,4}?(?:in|near) "
                        rf"(?!the\b|an?\b|\d|{_WHEN})" + _UNTIL)),
    ("job", re.compile(r"\b(?:(?:got|found|took|landed|accepted) (?:an? |the )?(?:new )?(?:job|position) (?:as|at|in)|"
                       r"(?:started|began) (?:working|work|a (?:new )?job) (?:as|at|for|in)|became(?= (?:an?|the) )|"
                       r"was promoted to|"
                       r"(?:starts?|started|starting) (?:at|with)(?= [^.,;!?]{1,60} as an? )|"
                       r"now works? (?:as|at|for|in)|switched jobs? to|got hired (?:as|at|by)) " + _UNTIL)),
)  # fmt: skip
_LEFT_HOME = re.compile(r"\bmoved (?:out of|away from|from) " + _UNTIL)
_LOST_JOB = re.compile(r"\b(?:quit|left|lost|(?:resigned|retired) from) (?:(?:my|their|the) )?(?:job|work|position)\b|"
                       r"\b(?:got|was) (?:laid off|fired)\b|\bretired\b")  # fmt: skip
_QUIT = re.compile(r"\bquit(?=$| ?[.,;!(]| (?:last|this|yesterday|today)\b)")
"""Quitting without a word for what: it may be a job, or smoking."""
_FAVORITE = re.compile(r"\bfavou?rite ([a-z]+(?: [a-z]+)?) (?:is|are|has become|became|was) (?:now )?" + _UNTIL)
_FIGURE_OF = re.compile(
    r"\b(?P<whose>[\w'-]{1,60}) (?:(?:new|old|current|present|latest) )?"
    r"(?P<kind>(?:(?:tele|cell |mobile )?phone |mobile |work |home |office )?number|e-?mail(?: address)?|"
    r"blood pressure|dose of \w{1,30}|rent|salary) is (?:now )?"
    r"(?P<value>[^,;!?]{1,60})"
)
"""Something of the speaker's that has one figure at a time."""
_DIGITS = re.compile(r"\d+|[\w.+-]{1,60}@[\w.-]{1,60}")
_NO_PARTING = (
    r" (?:the|an?|into)\b| with (?:(?:my|our|his|her|their|the) )?(?:[\w-]{1,30} ){0,2}?"
    r"(?:band|group|team|choir|club|company|business|agency|label|publisher)\b"
)
"""The words behind "broke up" where no couple parts."""
_MARITAL = {
    "single": re.compile(r"\b(?:is|am|are|i'm|being|been|currently) single\b|\bunmarried\b|\bnot married\b"),
    "dating": re.compile(r"\bdating\b|\b(?:has|have|got) a (?:girlfriend|boyfriend)\b|\bin a relationship\b"),
    "engaged": re.compile(r"\b(?:is|got|are|am|i'm) engaged\b(?! (?:in|with))"),
    "married": re.compile(r"\b(?:is|got|are|am|i'm|just|newly|happily) married\b"),
    "apart": re.compile(r"\b(?:got|is|am|are|i'm) divorced\b|\bdivorced from\b|\bwidowed\b|"
                        rf"\b(?:broke|split) up\b(?!{_NO_PARTING})|"
                        r"\b(?:no longer|not) together(?= any ?more| now|$|[.,;!])|"
                        r"\bseparated from (?:my|his|her|their)\b"),
}  # fmt: skip
_FOLLOWS = {
    "single": {"dating", "engaged", "married"},
    "dating": {"engaged", "married", "apart"},
    "engaged": {"married", "apart"},
    "married": {"apart"},
    "apart": {"dating", "engaged", "married"},
}


_DWELLINGS = frozenset(
    terms("flat apartment house home room place big bigger small smaller large larger new another own nice old little")
)
"""Words of a home that do not say where it is."""
_AT_WORK = frozenset(
    terms(
        "desk office team department role position project seat table group class squad marketing sales finance "
        "management shift day night"
    )
)
"""Words for places, people and hours somebody moves to without leaving home."""
_NAMED = re.compile(r"(?:home|job) is\b")
"""Words by which a sentence about a thing states the home or the job of its owner."""


def changed_slot(old: ParsedSentence, new: ParsedSentence) -> str:
    """Describes the slot of the old sentence to which the new one gives another value; empty if there is none."""
    about_things = _favorite(old, new) or _figure(old, new) or another_holder(old, new)
    if about_things or new.subject.is_thing:  # an office that moves ends no home
        return about_things
    return _marital(old, new) or _filled(old, new) or _home_left(old, new) or _job_lost(old, new)


@cached_by_sentence
def slots(text: ParsedSentence) -> tuple[Slot, ...]:
    """The homes and jobs that a sentence states."""
    return tuple(_slots(text))


def _slots(text: ParsedSentence) -> Iterator[Slot]:
    for changes, patterns in ((False, _STATES), (True, _CHANGES)):
        for name, pattern in patterns:
            for found in pattern.finditer(text.plain):
                value = frozenset(terms(found[1]))
                if text.subject.is_thing and not _NAMED.match(found[0]):
                    continue  # a company that is in Berlin is nobody's home, and a wedding that moved to June neither
                if value and not (name == "home" and changes and value & _AT_WORK):
                    yield Slot(name, value, changes)


@cached_by_sentence
def favorites(text: ParsedSentence) -> Mapping[str, frozenset[str]]:
    """Kind → the terms of the favourite of that kind."""
    return {found[1]: frozenset(terms(found[2])) for found in _FAVORITE.finditer(text.plain)}


@cached_by_sentence
def marital(text: ParsedSentence) -> str:
    """The marital state that a sentence states; empty if none."""
    return next((state for state, pattern in _MARITAL.items() if pattern.search(text.plain)), "")


def _filled(old: ParsedSentence, new: ParsedSentence) -> str:
    found = [slot for slot in slots(new) if slot.changes]
    for before in slots(old) if found else ():
        for after in found:
            if before.name == after.name and _differ(before.value, after.value):
                return f"another {before.name}: {' '.join(sorted(after.value))}"
    return ""


def _differ(before: frozenset[str], after: frozenset[str]) -> bool:
    """Whether a value is another one: a smaller flat may be in the same town."""
    return not before & after and (bool(after - _DWELLINGS) or not before - _DWELLINGS)


def _home_left(old: ParsedSentence, new: ParsedSentence) -> str:
    left = _homes_left(new)
    is_left = bool(left) and any(one.name == "home" and one.value & left for one in slots(old))
    return "the home is given up" if is_left else ""


@cached_by_sentence
def _homes_left(text: ParsedSentence) -> frozenset[str]:
    return frozenset(stem for found in _LEFT_HOME.finditer(text.plain) for stem in terms(found[1]))


def _job_lost(old: ParsedSentence, new: ParsedSentence) -> str:
    named = _behind_lost_job(new)
    jobs = [] if named is None else [slot for slot in slots(old) if slot.name == "job"]
    is_over = any(not named or slot.value & named for slot in jobs)
    return "the job is over" if is_over else ""


@cached_by_sentence
def _behind_lost_job(text: ParsedSentence) -> frozenset[str] | None:
    """The terms behind the loss of a job that a sentence tells; `None` if it tells none."""
    lost = _LOST_JOB.search(text.plain)
    return None if lost is None else frozenset(terms(text.plain[lost.end() :]))


def quit_something(old: ParsedSentence, new: ParsedSentence) -> str:
    """Describes that somebody with a job has quit, where the new sentence does not say what; else empty."""
    has_job = _quits(new) and any(slot.name == "job" for slot in slots(old))
    return "the job may be over" if has_job else ""


@cached_by_sentence
def _quits(text: ParsedSentence) -> bool:
    return _QUIT.search(text.plain) is not None


def _favorite(old: ParsedSentence, new: ParsedSentence) -> str:
    now = favorites(new)
    for kind, value in favorites(old).items() if now else ():
        if kind in now and not now[kind] & value:
            return f"another favourite {kind}"
    return ""


def _figure(old: ParsedSentence, new: ParsedSentence) -> str:
    now = _figures_of(new)
    for kind, value in _figures_of(old).items() if now else ():
        if now.get(kind, value) != value:
            return f"another {kind}"
    return ""


@cached_by_sentence
def _figures_of(text: ParsedSentence) -> Mapping[str, tuple[str, ...]]:
    """Figures of the speaker, of which each kind has one at a time, by the kind."""
    owners = {"my", "our", *(f"{part}'s" for part in text.speaker.lower().split())}
    found = ((one, tuple(_DIGITS.findall(one["value"]))) for one in _FIGURE_OF.finditer(text.plain))
    return {one["kind"].replace("tele", ""): value for one, value in found if value and one["whose"] in owners}


def _marital(old: ParsedSentence, new: ParsedSentence) -> str:
    after = marital(new)
    before = marital(old) if after else ""
    return f"from {before} to {after}" if after in _FOLLOWS.get(before, ()) else ""
