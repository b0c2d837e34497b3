"""Tells of whom a sentence speaks: of who says it, of a relative, of somebody with a name. English only."""

import re
from collections.abc import Collection, Set
from itertools import chain, pairwise

from eunoe.workers.text.capitals import CAPITAL
from eunoe.workers.text.guarded import GuardedPattern
from eunoe.workers.text.sentences import sentence_spans
from eunoe.workers.text.terms import terms
from eunoe.workers.text.verbs import is_past, third_person

_OF_OTHERS = re.compile(
    r"^\W{0,3}(?:(?:and|but|so|also|well|then),? )?(?:(?:he|she|they)\b|(?:my|our|his|her|their) (?:[\w-]{1,30} ){0,2}?"
    r"(?P<kin>(?:mom|mum|dad|mother|father|parents|sister|brother|friend|wife|husband|son|daughter|kids|children|aunt|"
    r"uncle|grand\w{2,8}|boss|manager|team|family|colleague|neighbou?r|cousin|niece|nephew|girlfriend|boyfriend|partner"
    r"|patient|client|customer|pupil|flat-?mate|room-?mate)s?)\b)",
    re.IGNORECASE,
)
KIN = frozenset(
    terms(
        "mom mum dad mother father parents sister brother siblings friend wife husband son daughter kids child children"
        " aunt uncle grandmother grandfather grandchild grandchildren grandson granddaughter boss manager colleague"
        " neighbour neighbor cousin niece nephew girlfriend boyfriend partner flatmate roommate"
    )
)
"""Stems of relatives, friends and others of whom one says "my"."""
_THEIRS = frozenset(["his", "her", "their", "s"])
"""Words before somebody else's relative; the last one is what an apostrophe leaves of "Tom's"."""
_WORD = re.compile(r"\w+")
_CLAUSES = re.compile(
    r"[,;:–—]| so (?=(?:now |then )?(?:the|our|my|we|I|it|there|no)\b|"
    r"[\w'’-]{1,20}(?: [\w'’-]{1,20}){0,2} (?:is|are|was|were|has|have|had|got|will|can|\w{2,15}ed)\b)",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(r"\b(?:I|my|me|mine|myself|we|our|us)\b", re.IGNORECASE)
_OF_NAMED = re.compile(
    rf"\W{{0,3}}(?:(?:and|but|so|also|well|then),? )?(?P<name>(?-i:{CAPITAL})[^\W\d_]{{1,30}})"
    rf"(?: and (?-i:{CAPITAL})[^\W\d_]{{1,30}})? (?P<verb>\w{{1,30}})\b",
    re.IGNORECASE,
)
_OF_THEIRS = re.compile(
    rf"\W{{0,3}}(?:(?:and|but|so|also|well|then),? )?(?:{CAPITAL})[^\W\d_]{{1,30}}['’]s [a-z]{{2,30}} (?:{CAPITAL}|\w)"
)
"""The beginning of a sentence of somebody's relative or thing: "Yusuf's teacher says he needs glasses"."""
_GENERAL = re.compile(
    r"\W{0,3}(?:(?:and|but|so|also|well|then|apparently|generally|usually),? )?(?:people|folks|patients|most|many|some|"
    r"everybody|everyone|anybody|anyone|someone|those|they say|doctors|experts|studies|adults|women|men|you)\b",
    re.IGNORECASE,
)
"""The beginning of a sentence that is about people in general."""
_BEGINNING = re.compile(r"\W{0,3}(?P<thing>\w{2,30}) (?P<verb>\w{1,30})\b")
_NO_NAMES = frozenset(
    """
    all already also another been both each either ever everybody everyone everything he here how i it just later
    most mine never nobody none nothing now once one she some somebody someone something soon still that then there
    these they this those today tonight we what when where who yesterday you
    """.split()  # noqa: SIM905 - a table of words
)
"""Words that a verb may follow at the beginning of a clause, beside verbs and words on "ly"."""
_HELPERS = frozenset(["is", "are", "has"])
_AFTER_I = {"is": "am", "has": "have", "does": "do"}
_SAID = re.compile(r"\A[^\"]{1,100} said: \"(?P<words>.*)\"\Z", re.DOTALL)
_THIRD = re.compile(
    r"\b(?:is|was|does|did|has|had|can|could|will|would)(?:n['’]t)? "
    rf"(?:(?P<name>(?-i:{CAPITAL})\w{{1,30}})|(?:my|our) (?P<kin>\w{{1,30}}))\b(?!['’]s)",
    re.IGNORECASE,
)
_OWNER = GuardedPattern(
    r"\b(?:wh(?:at|en|ere|o|ich)|how)(?:['’]?s)? (?:\w{1,20} ){0,2}?(?P<name>[^\W\d_]{2,30})['’]s (?P<thing>\w{1,30})",
    re.IGNORECASE,
)
"""Somebody whose thing is asked for: "What is Zoe's job?", "what's my wife's name"."""
_SMALL_SUBJECT = re.compile(r"\b(?:does|did|has|can|will) (?P<name>[a-z]{3,20}) [a-z]")
"""Somebody with a name of whom a question asks that is written without capitals."""
_IS_SOMEBODY = re.compile(
    r"\b(?:is|was) (?:(?:my|our) )?[^\W\d_]{2,30}\b(?!['’]s)(?! (?:called|named)\b)", re.IGNORECASE
)
_CAPITAL_LETTER = re.compile(r"(?!I\b)[A-Z]")
_NO_OWNERS = frozenset(
    """
    today tonight tomorrow yesterday week month year day it that there this he she who what where when how let one
    everybody everyone somebody someone anybody anyone nobody people
    """.split()  # noqa: SIM905 - a table of words
)
_PRONOUN = re.compile(r"\b(?:he|she|they|him|her|them|his|their)\b", re.IGNORECASE)
_OBJECT = re.compile(
    r"\b(?:him|them)\b|\bher(?=[.,;!?]|\Z| (?:at|in|on|to|from|with|and|for|about|by|every|today|yesterday)\b)",
    re.IGNORECASE,
)
"""Somebody else than the subject of a sentence: "Tom met her at work", not "Tom lost her key"."""
_DONE_TO_SELF = re.compile(
    r"\b(?:took|taken|weaned|put|switched) me (?:off|on|to|from)\b|\bruled out\b|"
    r"\b(?:says?|said|thinks?|told me|told us)(?: that)? (?:I|we)\b",
    re.IGNORECASE,
)
"""Deeds and words of a "he" that concern who tells them: "He took me off ramipril", "He says that I have asthma"."""
_I = re.compile(r"\bI\b")
_YOU = re.compile(r"\byou(?:r|rs|rself)?\b", re.IGNORECASE)
_AGE_TOLD = re.compile(
    r"\b(?P<who>\w{1,30})(?:['’]s| is| turned| turns| is turning| will be|,)"
    r"(?: (?:now|just|already|only|nearly|almost)){0,2} (?:\d{1,3}|(?:twen|thir|for|fif|six|seven|eigh|nine)ty\b|"
    r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w{3,5}teen)(?= years?\b|[.,;!]|$))"
    r"(?! (?:km|kg|kilo\w*|miles|euros|dollars|pounds|minutes|hours|times|cm|percent)\b|[:%€])",
    re.IGNORECASE,
)


_AGE_IN_BRACKETS = re.compile(r"\b(?P<who>\w{1,30}) \((?:aged? )?\d{1,3}\)")
"""Ages as in "our kids, Emil (8) and Lotte (5)"."""


def tells_of_others(text: str, asked: Collection[str], names: Collection[str] = ()) -> bool:
    """Whether all sentences of a text with one of the terms ``asked`` are about a relative, "she" or a name.

    So is a sentence that comes to one of them behind a comma: "Her name is Jo, she works at the library". Not so where
    the relative is asked for ("my kids"), or the name is one of ``names``, in lower case.
    """
    sentences = (text[start:end] for start, end in sentence_spans(text))
    telling = [sentence for sentence in sentences if not set(terms(sentence)).isdisjoint(asked)]
    kin = KIN.intersection(asked)
    return bool(telling) and not any(
        _tells_of_kin(sentence, kin)
        or not (_tells_of_their_kin(sentence, kin) or _is_of_others(sentence, {*asked, *names}))
        for sentence in telling
    )


def _tells_of_kin(sentence: str, kin: Set[str]) -> bool:
    """Whether a sentence has one of the relatives of who tells it: "Eva came with the kids", not "with her kids"."""
    return any(before not in _THEIRS for before in _before(kin, sentence))


def _tells_of_their_kin(sentence: str, kin: Set[str]) -> bool:
    """Whether a sentence has one of the relatives, but only somebody else's: "she moves in with her boyfriend"."""
    found = _before(kin, sentence)
    return bool(found) and _THEIRS.issuperset(found)


def _before(kin: Set[str], sentence: str) -> list[str]:
    """The words in lower case before each word for one of the relatives; empty text where there is none."""
    words = [word.group() for word in _WORD.finditer(sentence)] if kin else []
    return [before.casefold() for before, word in pairwise(["", *words]) if not kin.isdisjoint(terms(word))]


def _is_of_others(sentence: str, asked: Collection[str]) -> bool:
    """Whether a sentence, or each clause of it with one of the terms, has another subject than who tells it."""
    if _DONE_TO_SELF.search(sentence):
        return False
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


def tells_in_general(text: str, asked: Collection[str]) -> bool:
    """Whether all sentences of a text with one of the terms ``asked`` are about people or the thing in general.

    "People with diabetes should watch their feet", "Diabetes runs in families"; not "Diabetes again, says my doctor".
    """
    sentences = (text[start:end] for start, end in sentence_spans(text))
    telling = [sentence for sentence in sentences if not set(terms(sentence)).isdisjoint(asked)]
    return bool(telling) and all(
        _FIRST_PERSON.search(one) is None and (_GENERAL.match(one) is not None or _is_on(one, asked)) for one in telling
    )


def _is_on(sentence: str, asked: Collection[str]) -> bool:
    """Whether a sentence begins with one of the terms, and says what that is or does at all times."""
    found = _BEGINNING.match(sentence)
    if found is None or set(terms(found["thing"])).isdisjoint(asked):
        return False
    verb = found["verb"].lower()
    return verb in ("can", "may") or (_is_finite(verb) and not is_past(verb))


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


def third_asked(question: str, speakers: Collection[str]) -> frozenset[str]:
    """The stems of somebody else than the ``speakers`` of whom a question asks what they do or are.

    "Clara" of "Where does Clara live?" and of "What is Clara's job?", "sister" of "Is my sister married?"; empty where
    it asks for nobody else.
    """
    found = _THIRD.search(question)
    if found is not None and found["kin"]:
        return KIN.intersection(terms(found["kin"]))
    return frozenset(terms(third_named(question, speakers)))


def asks_what_is(question: str) -> bool:
    """Whether a question asks what somebody is, or does just now: a line may tell that in any words."""
    return _IS_SOMEBODY.search(question) is not None


def third_named(question: str, speakers: Collection[str]) -> str:
    """The word by which a question names such a one; empty where it names nobody else, or a relative of who asks."""
    found = _THIRD.search(question)
    if found is not None and found["kin"]:
        return ""
    owner = _OWNER.search(question)
    if owner is not None and not KIN.isdisjoint(terms(owner["thing"])):
        owner = None  # asked for is the relative
    small = None if _CAPITAL_LETTER.search(question) else _SMALL_SUBJECT.search(question)
    found = found or owner or small
    taking_part = {form for name in speakers for part in name.casefold().split() for form in (part, f"{part}s")}
    return "" if found is None or found["name"].casefold() in taking_part | _NO_OWNERS else str(found["name"])


def tells_of_another(text: str, asked: Set[str], third: Set[str]) -> bool:
    """Whether all sentences of a text with one of the terms ``asked`` are about another one than the ``third``.

    They mention neither those nor "her", and are in the first person or, where no relative is asked for, begin with
    another name, whose "her" may be.
    """
    sentences = (text[start:end] for start, end in sentence_spans(text))
    telling = [one for one in sentences if not asked.isdisjoint(terms(one))]
    return bool(telling) and not any(
        not third.isdisjoint(terms(one)) or not _is_of_another(one, third) for one in telling
    )


def _is_of_another(sentence: str, third: Set[str]) -> bool:
    if KIN.isdisjoint(third) and _is_of_named(sentence, third):
        return _OBJECT.search(sentence) is None
    if KIN.isdisjoint(third) and _OF_THEIRS.match(sentence):
        return True
    return _I.search(sentence) is not None and _PRONOUN.search(sentence) is None


def tells_age_of(sentence: str, third: Set[str]) -> bool:
    """Whether a sentence gives the age of somebody by one of the words with the stems ``third``: "Nora is 9"."""
    told = chain(_AGE_TOLD.finditer(sentence), _AGE_IN_BRACKETS.finditer(sentence))
    return any(not third.isdisjoint(terms(found["who"])) for found in told)


def in_first_person(memory: str, speaker: str) -> str:
    """A memory as its ``speaker`` would say it: "my sister" for "Ann's sister", "I live" for "Ann lives".

    Of a quotation, the quoted words.
    """
    quoted = _SAID.match(memory)
    if quoted:
        return quoted["words"]
    name = re.escape(speaker)
    own = re.sub(rf"\b{name}['’]s\b", "my", memory)
    return re.sub(rf"\A{name} (?P<verb>\w{{1,30}})", lambda found: f"I {_plain_form(found['verb'])}", own)


def _plain_form(verb: str) -> str:
    """The form of a verb after "I": "live" of "lives"."""
    if verb in _AFTER_I:
        return _AFTER_I[verb]
    return next((plain for plain in (verb[:-1], verb[:-2]) if third_person(plain) == verb), verb)
