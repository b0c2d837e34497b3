"""Reads whose thing a question asks about: the name of somebody's dog, or the job of the asker. English only."""

import re
from collections.abc import Callable, Collection, Sequence, Set

from eunoe.workers.respond.offline.others import KIN
from eunoe.workers.text.capitals import CAPITAL
from eunoe.workers.text.guarded import GuardedPattern
from eunoe.workers.text.lasting import (
    tells_address,
    tells_age,
    tells_former_work,
    tells_home,
    tells_no_work,
    tells_origin,
    tells_work,
    tells_workplace,
)
from eunoe.workers.text.terms import terms

_WHOSE = r"(?:my|our|his|her|their|the|\w{1,30}['’]s)"
_NAMED_THING = GuardedPattern(
    rf"\b{_WHOSE} (?:[\w'’-]{{1,30}} ){{0,2}}?(?P<before>[a-z][\w-]{{1,30}})"
    r"(?:['’]s? names?\b| (?:is |are |was )?(?:called|named)\b)|"
    rf"\bnames? of {_WHOSE} (?:[\w'’-]{{1,30}} ){{0,2}}?(?P<after>[a-z][\w-]{{1,30}})(?=\W*$)",
    re.IGNORECASE,
)
_NAMING = re.compile(r"\b(?:names?(?:['’]s| is| are| was)|named|called)\b", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_NAME_BEHIND = re.compile(rf"(?:,|:| is| are)? (?!I\b){CAPITAL}\w")
_NAMED_BEFORE = re.compile(
    r"\b(?:call(?:ed|ing)? (?:it|him|her|them|the baby)|(?:his|her|their) names? (?:is|was|are)|"
    r"(?:he|she|they)(?:['’](?:s|re)| is| are) (?:called|named))\b|"
    r"(?:\A|[.!?] )(?P<thing>(?:its name (?:is|was)|it(?:['’]s| is) (?:called|named)))\b",
    re.IGNORECASE,
)
_KNOWN_THINGS = frozenset(
    terms(
        "dog puppy cat kitten rabbit hamster parrot horse son daughter kid child baby wife husband partner girlfriend"
        " boyfriend sister brother mother mom mum father dad aunt uncle cousin friend boss manager teacher coach"
    )
)
"""Stems of things that a name in the same text more likely names."""
_CHILDREN = frozenset(
    terms("son daughter kid child children baby boy girl grandson granddaughter grandchild grandchildren niece nephew")
)
"""Stems of those who were born not long ago."""
_NEWBORN = frozenset(terms("girl boy baby born twins"))
_WHO_IS = GuardedPattern(
    r"\bwho(?:['’]s| is| are| was| were) (?:(?:Dr|Mrs?|Ms|Herr|Frau|Madame|Monsieur|Prof)\b\.? )?"
    r"(?P<name>(?!(?:my|our|his|her|their|your|the|an?|it|this|that|he|she|they|we|you|I)\b)\w{2,30})(?=\W*\Z)",
    re.IGNORECASE,
)
_NAME_WORDS = re.compile(r"\b(?:names?|call|called|named)\b", re.IGNORECASE)
_OF_SELF = re.compile(
    r"\b(?:am|was|do|did|have|had|can|could|should|must|may|will|would)(?:n['’]t)? I\b|"
    r"\bwith (?:me|us)\b",
    re.IGNORECASE,
)
_OWN = re.compile(r"\b(?:I|me|my|mine|we|us|our|ours)\b", re.IGNORECASE)
_ADVICE_ASKED = re.compile(
    r"\b(?:should|shall|can|could|would|may|must|might|need|have to|how (?:do|to))\b", re.IGNORECASE
)
_SUBJECT = re.compile(
    r"\b(?:am|is|are|was|were|do|does|did|have|has|had|can|could|should|must|may|will|would)(?:n['’]t)? "
    r"(?P<name>\w{1,30})\b(?!['’]s)",
    re.IGNORECASE,
)
_WHETHER = r"\b(?:do|does|am|is)(?:n['’]t)? (?:\w{1,30} ){1,2}?"
"""The beginning of a question whether something is so."""
_PLACE = rf"(?:in|at|near|for) (?:the )?(?-i:{CAPITAL})"
_WORK_ASKED = GuardedPattern(
    r"\b(?:where|for whom|who|as what|what) \w{1,10} (?:\w{1,30} ){1,2}?(?:work\b|do for (?:a living|work))|"
    r"\b(?:job|employer|profession|occupation)\b|"
    rf"{_WHETHER}(?:still (?:work|working|employed)(?: (?:as|at|for|in)\b|(?=\W*\Z))|"
    rf"(?:work|working|employed) {_PLACE})",
    re.IGNORECASE,
)
_HOME_ASKED = GuardedPattern(
    r"\bwhere \w{1,10} (?:\w{1,30} ){1,2}?(?:live|living|based|from)\b|"
    r"\b(?:city|town|country) \w{1,10} (?:\w{1,30} ){1,2}?(?:live|living|from)\b|\bhome ?town\b|"
    rf"{_WHETHER}(?:still (?:live|living|reside|based) (?:in|at|near)\b|(?:live|living|reside|based) {_PLACE})",
    re.IGNORECASE,
)
_MOVED_THING = GuardedPattern(
    r"\b(?:moved|moving|move) (?:the|our|my|his|her|their|this|that|it|him|them|everything)\b",
    re.IGNORECASE,
)
_WHERE_ASKED = GuardedPattern(r"\bwhere\b|\bfor whom\b|\bemployer\b", re.IGNORECASE)
_HOLDER_ASKED = GuardedPattern(
    r"\bwho(?:['’]s| is) (?:now )?(?:(?P<own>my|our)|\w{1,30}['’]s) (?:new |current )?(?P<role>[a-z]{2,20})(?=\W*\Z)",
    re.IGNORECASE,
)
_SEVERAL = KIN - frozenset(terms("boss manager wife husband partner girlfriend boyfriend mother mom mum father dad"))
"""Stems of those of whom one may have several."""
_AGE_ASKED = GuardedPattern(r"\bhow old\b|\bage\b", re.IGNORECASE)
_DID = re.compile(r"\b(?:did|was|were|used to)\b", re.IGNORECASE)
_ORIGIN_ASKED = re.compile(r"\bfrom\W*\Z", re.IGNORECASE)
_ADDRESS_ASKED = GuardedPattern(
    r"\b(?:my|our|home|postal|new|current|['’]s) address\b|\bwhat (?:street|address)\b", re.IGNORECASE
)
_OWN_STATE = GuardedPattern(
    r"\b(?:my|our) (?:new |old |current |present |home |postal )?"
    r"(?:job|employer|profession|occupation|home ?town|age|address)\b|\b(?:do|did|are|were|have) we\b",
    re.IGNORECASE,
)
_OF_SOMEBODY = re.compile(
    r"\b(?:my|our|his|her|their|\w{1,30}['’]s) (?!job\b|employer\b|age\b|home|address\b)\w", re.IGNORECASE
)


def named_thing(question: str) -> str | None:
    """The thing or person whose name is asked for, in lower case: "dog" of "What is my dog called?"."""
    found = _NAMED_THING.search(question)
    return (found["before"] or found["after"]).lower() if found else None


def is_of_the_living(thing: str) -> bool:
    """Whether a word is one for a relative, somebody one knows or an animal."""
    return not (KIN | _KNOWN_THINGS).isdisjoint(terms(thing))


def without_name_words(text: str) -> str:
    """The text without "name", "call" and "called"."""
    return _NAME_WORDS.sub(" ", text)


def tells_name(text: str, stems: Collection[str]) -> bool:
    """Whether a text names a thing whose word has one of the stems: "a dog called Rex", "my dog Rex"."""
    things = [word for word in _WORD.finditer(text) if not set(terms(word.group())).isdisjoint(stems)]
    return bool(things) and (gives_a_name(text) or any(_NAME_BEHIND.match(text, thing.end()) for thing in things))


def may_name(text: str, stems: Collection[str]) -> bool:
    """Whether a text names a thing whose word has one of the stems, or something that it does not say.

    "Her name is Pepper"; of no person "it's called Pepper", and "It's a girl! Her name is Pepper" of a child only.
    """
    words = frozenset(terms(text))
    if not words.isdisjoint(stems):
        return tells_name(text, stems)
    found = _NAMED_BEFORE.search(text)
    if found is None or not (_KNOWN_THINGS.isdisjoint(words) and (found["thing"] is None or KIN.isdisjoint(stems))):
        return False
    return _NEWBORN.isdisjoint(words) or not _CHILDREN.isdisjoint(stems)


def naming(texts: Sequence[str], stems: Collection[str]) -> list[bool]:
    """For each text whether it names what has one of the stems: those that say what they name, else those that may."""
    told = [tells_name(text, stems) for text in texts]
    return told if any(told) else [may_name(text, stems) for text in texts]


def gives_a_name(text: str) -> bool:
    """Whether a text says how something is called."""
    return _NAMING.search(text) is not None


def introduction_asked(question: str) -> Callable[[str], bool] | None:
    """The test for texts that say who somebody is: "my flatmate Priya"; `None` where nobody is asked for by name."""
    asked = _WHO_IS.search(question)
    if asked is None:
        return None
    name = re.escape(asked["name"])
    told = re.compile(
        rf"\b(?:my|our|his|her|their|\w{{1,30}}['’]s) (?:[\w-]{{1,30}} ){{1,3}}?{name}\b|"
        rf"\b(?:name(?:['’]s| is| was)|called|named|is|was) {name}\b|"
        rf"\b{name}(?:['’]s| is| was|,)? (?:an?|the|my|our|from)\b|\b[a-z]{{2,30}},? \({name}\)|"
        rf"\b{name} \((?:my|our|his|her|their) |"
        rf"\b(?:friend|colleague|neighbou?r|boss|teacher|coach)\b[^.!?]{{0,20}}, {name}\b",
        re.IGNORECASE,
    )
    return lambda text: told.search(text) is not None


def asks_of_self(question: str) -> bool:
    """Whether the asker is the subject of the question: "What am I allergic to?"."""
    return _OF_SELF.search(question) is not None


def asks_of_ones_own(question: str) -> bool:
    """Whether a question asks about the asker or theirs: "What's my size?"; not for advice."""
    return _OWN.search(question) is not None and _ADVICE_ASKED.search(question) is None


def subjects_asked(question: str, asker: str, named: Collection[str]) -> frozenset[str]:
    """The participants of whom a question asks what they do or are: the asker ("do I"), or those of the ``named``.

    Empty where it asks for somebody or something else, as for Ann's sister.
    """
    if asker and asks_of_self(question):
        return frozenset((asker,))
    words = {found["name"].casefold() for found in _SUBJECT.finditer(question)}
    return frozenset(name for name in named if not words.isdisjoint(name.casefold().split()))


def asks_age(question: str) -> bool:
    """Whether a question asks how old somebody or something is."""
    return _AGE_ASKED.search(question) is not None


def asks_work(question: str) -> bool:
    """Whether a question asks what somebody works as, or where."""
    return _WORK_ASKED.search(question) is not None


_STATES = (
    (_WORK_ASKED, tells_work),
    (_ORIGIN_ASKED, tells_origin),
    (_HOME_ASKED, tells_home),
    (_AGE_ASKED, tells_age),
    (_ADDRESS_ASKED, tells_address),
)


def states_asked(question: str) -> tuple[Callable[[str], bool], ...]:
    """The tests for sentences that tell the state asked for: home, work, age, or who holds a role; the best one first.

    None if it asks for none of them.
    """
    found = next((tells for asks, tells in _STATES if asks.search(question)), None)
    if found is tells_work:
        told = _tells_any_work if _DID.search(question) else tells_work
        return (tells_workplace, told) if _WHERE_ASKED.search(question) else (told,)
    told_of_holder = _holder_told(question) if found is None else found
    return () if told_of_holder is None else (told_of_holder,)


def _holder_told(question: str) -> Callable[[str], bool] | None:
    """The test for sentences that name who is somebody's doctor, where that is asked; `None` where it is not."""
    asked = _HOLDER_ASKED.search(question)
    if asked is None or not _SEVERAL.isdisjoint(terms(asked["role"])):
        return None
    name, role = rf"(?:(?:dr|mrs?|ms)\b|(?!I\b)(?-i:{CAPITAL})\w)", asked["role"]
    told = re.compile(
        rf"\b(?:my|our|new) (?:[\w-]{{1,20}} )?{role}\b"
        rf"(?:['’]s name|,| is| here| now| called| named| her| his| their| name|:){{0,6}} {name}|"
        rf"\b{name}[^.,;!?]{{0,30}} is (?:now )?(?:my|our|the) (?:new )?{role}\b",
        re.IGNORECASE,
    )
    return lambda sentence: told.search(sentence) is not None


def _tells_any_work(sentence: str) -> bool:
    return tells_work(sentence) or tells_former_work(sentence)


def is_state_over(question: str, sentence: str) -> bool:
    """Whether a question asks for work, and a sentence says that its speaker has none any more."""
    return _WORK_ASKED.search(question) is not None and tells_no_work(sentence)


def without_moved_things(question: str, text: str) -> str:
    """The text without things that were moved, where a question asks for a home: a wedding is moved, too."""
    return _MOVED_THING.sub(" ", text) if _HOME_ASKED.search(question) else text


def people_asked(question: str, asker: str, named: Set[str]) -> Set[str]:
    """The participants whose state a question asks for: the asker ("my job"), else those ``named``, not theirs."""
    holder = _HOLDER_ASKED.search(question)
    if holder is not None:
        return {asker} if holder["own"] else named
    if asks_of_self(question) or _OWN_STATE.search(question):
        return {asker}
    return set() if _OF_SOMEBODY.search(question) else named
