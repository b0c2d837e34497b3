"""Reads whose thing a question asks about: the name of somebody's dog, or the job of the asker. English only."""

import re
from collections.abc import Callable, Collection, Set
from itertools import pairwise

from eunoe.workers.text.capitals import CAPITAL
from eunoe.workers.text.lasting import tells_age, tells_home, tells_work
from eunoe.workers.text.statements import sentence_spans
from eunoe.workers.text.terms import terms
from eunoe.workers.text.verbs import is_past, third_person

_WHOSE = r"(?:my|our|his|her|their|the|\w{1,30}['’]s)"
_NAMED_THING = re.compile(
    rf"\b{_WHOSE} (?:[\w'’-]{{1,30}} ){{0,2}}?(?P<before>[a-z][\w-]{{1,30}})"
    r"(?:['’]s? names?\b| (?:is |are |was )?(?:called|named)\b)|"
    rf"\bnames? of {_WHOSE} (?:[\w'’-]{{1,30}} ){{0,2}}?(?P<after>[a-z][\w-]{{1,30}})(?=\W*$)",
    re.IGNORECASE,
)
_NAMING = re.compile(r"\b(?:names?(?:['’]s| is| are| was)|named|called)\b", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_NAME_BEHIND = re.compile(rf"(?:,|:| is| are)? (?!I\b){CAPITAL}\w")
_NAMED_BEFORE = re.compile(
    r"\b(?:(?:his|her|their) names? (?:is|was|are)|(?:he|she|they)(?:['’](?:s|re)| is| are) (?:called|named))\b|"
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
_NAME_WORDS = re.compile(r"\b(?:names?|called|named)\b", re.IGNORECASE)
_OF_SELF = re.compile(
    r"\b(?:am|was|do|did|have|had|can|could|should|must|may|will|would)(?:n['’]t)? I\b", re.IGNORECASE
)
_OF_OTHERS = re.compile(
    r"^\W{0,3}(?:(?:and|but|so|also|well|then),? )?(?:(?:he|she|they)\b|(?:my|our|his|her|their) (?:[\w-]{1,30} ){0,2}?"
    r"(?P<kin>(?:mom|mum|dad|mother|father|parents|sister|brother|friend|wife|husband|son|daughter|kids|children|aunt|"
    r"uncle|grand\w{2,8}|boss|manager|team|family|colleague|neighbou?r|cousin|niece|nephew|girlfriend|boyfriend|partner"
    r")s?)\b)",
    re.IGNORECASE,
)
_KIN = frozenset(
    terms(
        "mom mum dad mother father parents sister brother siblings friend wife husband son daughter kids child children"
        " aunt uncle grandmother grandfather grandchild grandchildren grandson granddaughter boss manager colleague"
        " neighbour neighbor cousin niece nephew girlfriend boyfriend partner flatmate roommate"
    )
)
"""Stems of relatives, friends and others of whom one says "my"."""
_THEIRS = frozenset(["his", "her", "their", "s"])
"""Words before somebody else's relative; the last one is what an apostrophe leaves of "Tom's"."""
_CLAUSES = re.compile(r"[,;:–—]")
_FIRST_PERSON = re.compile(r"\b(?:I|my|me|mine|myself|we|our|us)\b", re.IGNORECASE)
_OF_NAMED = re.compile(
    rf"\W{{0,3}}(?:(?:and|but|so|also|well|then),? )?(?P<name>(?-i:{CAPITAL})[^\W\d_]{{1,30}})"
    rf"(?: and (?-i:{CAPITAL})[^\W\d_]{{1,30}})? (?P<verb>\w{{1,30}})\b",
    re.IGNORECASE,
)
_NO_NAMES = frozenset(
    """
    all already also another been both each either ever everybody everyone everything he here how i it just later
    most mine never nobody none nothing now once one she some somebody someone something soon still that then there
    these they this those today tonight we what when where who yesterday you
    """.split()  # noqa: SIM905 - a table of words
)
"""Words that a verb may follow at the beginning of a clause, beside verbs and words on "ly"."""
_HELPERS = frozenset(["is", "are", "has"])
_SAID = re.compile(r"\A[^\"]{1,100} said: \"(?P<words>.*)\"\Z", re.DOTALL)
_SUBJECT = re.compile(
    r"\b(?:am|is|are|was|were|do|does|did|have|has|had|can|could|should|must|may|will|would)(?:n['’]t)? "
    r"(?P<name>\w{1,30})\b(?!['’]s)",
    re.IGNORECASE,
)
_THIRD = re.compile(
    r"\b(?:is|was|does|did|has|had|can|could|will|would)(?:n['’]t)? "
    rf"(?:(?P<name>(?-i:{CAPITAL})\w{{1,30}})|(?:my|our) (?P<kin>\w{{1,30}}))\b(?!['’]s)",
    re.IGNORECASE,
)
_PRONOUN = re.compile(r"\b(?:he|she|they|him|her|them|his|their)\b", re.IGNORECASE)
_I = re.compile(r"\bI\b")
_YOU = re.compile(r"\byou(?:r|rs|rself)?\b", re.IGNORECASE)
_WHETHER = r"\b(?:do|does|am|is)(?:n['’]t)? (?:\w{1,30} ){1,2}?"
"""The beginning of a question whether something is so."""
_PLACE = rf"(?:in|at|near|for) (?:the )?(?-i:{CAPITAL})"
_WORK_ASKED = re.compile(
    r"\b(?:where|for whom|who|as what|what) \w{1,10} (?:\w{1,30} ){1,2}?(?:work\b|do for (?:a living|work))|"
    r"\b(?:job|employer|profession|occupation)\b|"
    rf"{_WHETHER}(?:still (?:work|working|employed) (?:as|at|for|in)\b|(?:work|working|employed) {_PLACE})",
    re.IGNORECASE,
)
_HOME_ASKED = re.compile(
    r"\bwhere \w{1,10} (?:\w{1,30} ){1,2}?(?:live|living|based|from)\b|"
    r"\b(?:city|town|country) \w{1,10} (?:\w{1,30} ){1,2}?(?:live|living|from)\b|\bhome ?town\b|"
    rf"{_WHETHER}(?:still (?:live|living|reside|based) (?:in|at|near)\b|(?:live|living|reside|based) {_PLACE})",
    re.IGNORECASE,
)
_AGE_ASKED = re.compile(r"\bhow old\b|\bage\b", re.IGNORECASE)
_AGE_TOLD = re.compile(
    r"\b(?P<who>\w{1,30})(?:['’]s| is| turned| turns| will be|,)"
    r"(?: (?:now|just|already|only|nearly|almost)){0,2} (?:\d{1,3}|(?:twen|thir|for|fif|six|seven|eigh|nine)ty\b|"
    r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w{3,5}teen)(?= years?\b|[.,;!]|$))"
    r"(?! (?:km|kg|kilo\w*|miles|euros|dollars|pounds|minutes|hours|times|cm|percent)\b|[:%€])",
    re.IGNORECASE,
)
_STATES = ((_WORK_ASKED, tells_work), (_HOME_ASKED, tells_home), (_AGE_ASKED, tells_age))
_OWN_STATE = re.compile(
    r"\bmy (?:new |old |current |present )?(?:job|employer|profession|occupation|home ?town|age)\b", re.IGNORECASE
)
_OF_SOMEBODY = re.compile(r"\b(?:my|our|his|her|their|\w{1,30}['’]s) (?!job\b|employer\b|age\b|home)\w", re.IGNORECASE)


def named_thing(question: str) -> str | None:
    """The thing or person whose name is asked for, in lower case: "dog" of "What is my dog called?"."""
    found = _NAMED_THING.search(question)
    return (found["before"] or found["after"]).lower() if found else None


def without_name_words(text: str) -> str:
    """The text without "name" and "called"."""
    return _NAME_WORDS.sub(" ", text)


def may_name(text: str, stems: Collection[str]) -> bool:
    """Whether a text names a thing whose word has one of the stems, or something that it does not say.

    "A dog called Rex", "my dog Rex", "her name is Pepper"; of no person "it's called Pepper".
    """
    things = [word for word in _WORD.finditer(text) if not set(terms(word.group())).isdisjoint(stems)]
    if not things:
        found = _NAMED_BEFORE.search(text)
        may_be = found is not None and (found["thing"] is None or _KIN.isdisjoint(stems))
        return may_be and _KNOWN_THINGS.isdisjoint(terms(text))
    return gives_a_name(text) or any(_NAME_BEHIND.match(text, thing.end()) for thing in things)


def gives_a_name(text: str) -> bool:
    """Whether a text says how something is called."""
    return _NAMING.search(text) is not None


def asks_of_self(question: str) -> bool:
    """Whether the asker is the subject of the question: "What am I allergic to?"."""
    return _OF_SELF.search(question) is not None


def subjects_asked(question: str, asker: str, named: Collection[str]) -> frozenset[str]:
    """The participants of whom a question asks what they do or are: the asker ("do I"), or those of the ``named``.

    Empty where it asks for somebody or something else, as for Ann's sister.
    """
    if asker and asks_of_self(question):
        return frozenset((asker,))
    words = {found["name"].casefold() for found in _SUBJECT.finditer(question)}
    return frozenset(name for name in named if not words.isdisjoint(name.casefold().split()))


def tells_of_others(text: str, asked: Collection[str], names: Collection[str] = ()) -> bool:
    """Whether all sentences of a text with one of the terms ``asked`` are about a relative, "she" or a name.

    So is a sentence that comes to one of them behind a comma: "Her name is Jo, she works at the library". Not so where
    the relative is asked for ("my kids"), or the name is one of ``names``, in lower case.
    """
    sentences = (text[start:end] for start, end in sentence_spans(text))
    telling = [sentence for sentence in sentences if not set(terms(sentence)).isdisjoint(asked)]
    kin = _KIN.intersection(asked)
    return bool(telling) and not any(
        _tells_of_kin(sentence, kin) or not _is_of_others(sentence, {*asked, *names}) for sentence in telling
    )


def _tells_of_kin(sentence: str, kin: Set[str]) -> bool:
    """Whether a sentence has one of the relatives of who tells it: "Eva came with the kids", not "with her kids"."""
    words = [word.group() for word in _WORD.finditer(sentence)] if kin else []
    return any(
        not kin.isdisjoint(terms(word)) and before.casefold() not in _THEIRS for before, word in pairwise(["", *words])
    )


def _is_of_others(sentence: str, asked: Collection[str]) -> bool:
    """Whether a sentence, or each clause of it with one of the terms, has another subject than who tells it."""
    if _is_of_kin(sentence, asked):
        return True
    telling = [clause for clause in _CLAUSES.split(sentence) if not set(terms(clause)).isdisjoint(asked)]
    return all(_is_of_kin(clause, asked) or _is_of_named(clause, asked) for clause in telling)


def _is_of_kin(clause: str, asked: Collection[str]) -> bool:
    """Whether a clause begins with a relative or with "she"; not with a relative who is asked for, as "my kids"."""
    found = _OF_OTHERS.match(clause)
    return found is not None and set(terms(found["kin"] or "")).isdisjoint(asked)


def _is_of_named(clause: str, asked: Collection[str]) -> bool:
    """Whether a clause says something of a name at its beginning, and nothing in the first person."""
    found = _OF_NAMED.match(clause)
    if found is None or _FIRST_PERSON.search(clause):
        return False
    name = found["name"].casefold()
    if name in _NO_NAMES or name.endswith("ly") or is_past(name) or not _is_finite(found["verb"].lower()):
        return False
    return {name, *terms(name)}.isdisjoint(asked)


def _is_finite(verb: str) -> bool:
    """Whether a word may be the verb of somebody with a name: "is", "moved", "works"."""
    return verb in _HELPERS or is_past(verb) or any(third_person(plain) == verb for plain in (verb[:-1], verb[:-2]))


def third_asked(question: str, speakers: Collection[str]) -> frozenset[str]:
    """The stems of somebody else than the ``speakers`` of whom a question asks what they do or are.

    "Clara" of "Where does Clara live?", "sister" of "Is my sister married?"; empty where it asks for nobody else.
    """
    found = _THIRD.search(question)
    if found is None:
        return frozenset()
    if found["kin"]:
        return _KIN.intersection(terms(found["kin"]))
    taking_part = {part.casefold() for name in speakers for part in name.split()}
    return frozenset() if found["name"].casefold() in taking_part else frozenset(terms(found["name"]))


def tells_of_another(text: str, asked: Set[str], third: Set[str]) -> bool:
    """Whether all sentences of a text with one of the terms ``asked`` are about another one than the ``third``.

    They mention neither those nor "her", and are in the first person or, where no relative is asked for, begin with
    another name.
    """
    sentences = (text[start:end] for start, end in sentence_spans(text))
    telling = [one for one in sentences if not asked.isdisjoint(terms(one))]
    return bool(telling) and not any(
        _PRONOUN.search(one) or not third.isdisjoint(terms(one)) or not _is_of_another(one, third) for one in telling
    )


def _is_of_another(sentence: str, third: Set[str]) -> bool:
    return _I.search(sentence) is not None or (_KIN.isdisjoint(third) and _is_of_named(sentence, third))


def asks_age(question: str) -> bool:
    """Whether a question asks how old somebody or something is."""
    return _AGE_ASKED.search(question) is not None


def tells_age_of(sentence: str, third: Set[str]) -> bool:
    """Whether a sentence gives the age of somebody by one of the words with the stems ``third``: "Nora is 9"."""
    return any(not third.isdisjoint(terms(found["who"])) for found in _AGE_TOLD.finditer(sentence))


def in_first_person(memory: str, speaker: str) -> str:
    """A memory as its ``speaker`` would say it, as far as it tells of theirs: "my sister" for "Ann's sister".

    Of a quotation, the quoted words.
    """
    quoted = _SAID.match(memory)
    return quoted["words"] if quoted else re.sub(rf"\b{re.escape(speaker)}['’]s\b", "my", memory)


def tells_of_self(text: str, asked: Collection[str], names: Collection[str]) -> bool:
    """Whether all sentences of a text with one of the terms ``asked`` are about who says it.

    They are in the first person, and speak neither to "you" nor of one of the ``names``, in lower case.
    """
    sentences = (text[start:end] for start, end in sentence_spans(text))
    telling = [sentence for sentence in sentences if not set(terms(sentence)).isdisjoint(asked)]
    return bool(telling) and all(
        _FIRST_PERSON.search(one) is not None
        and _YOU.search(one) is None
        and not any(word.casefold() in names for word in _WORD.findall(one))
        for one in telling
    )


def state_asked(question: str) -> Callable[[str], bool] | None:
    """The test for sentences that tell the state asked for: home, work or age; `None` if it asks for none of them."""
    found = (tells for asks, tells in _STATES if asks.search(question))
    return next(found, None)


def people_asked(question: str, asker: str, named: Set[str]) -> Set[str]:
    """The participants whose state a question asks for: the asker ("my job"), else those ``named``, not theirs."""
    if asks_of_self(question) or _OWN_STATE.search(question):
        return {asker}
    return set() if _OF_SOMEBODY.search(question) else named
