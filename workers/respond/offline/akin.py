"""Words that are akin to others: those that speak of one subject, and other forms of a word. English only."""

from collections.abc import Iterable

from eunoe.workers.text.terms import terms
from eunoe.workers.text.verbs import IRREGULAR

_SUBJECTS = (
    "live lives living reside resides home moved move moving room rooms flat apartment house rent neighbourhood "
    "neighborhood settled",
    "work works working job career employed employer hired workshop company office position profession",
    "called name named names",
    "birthday born turned old age",
    "kid kids child children son sons",
    "kid kids child children daughter daughters",
    "eat eats eating food diet allergic allergy intolerant vegetarian vegan",
    "married wedding spouse wife divorced divorce",
    "married wedding spouse husband divorced divorce",
    "sick ill illness hospital doctor diagnosed surgery",
    "buy bought purchase purchased",
    "allergy allergic allergies rash hives",
    "trip travel travelled traveled vacation holiday journey",
    "movie movies film films",
    "pet pets dog puppy",
    "pet pets cat kitten",
    "pet pets rabbit hamster parrot",
    "study studies studying degree university college",
    "salary wage wages income pay paid earn earns earned",
    "medication medicine medicines pill pills tablet tablets dose mg prescribed prescription",
    "mother mom mum mama mommy mummy",
    "father dad papa daddy",
    "grandmother grandma granny",
    "grandfather grandpa granddad",
    "grandchild grandchildren grandson grandsons granddaughter granddaughters",
    "operation operated op surgery",
    "weigh weight weighs",
    "flatmate roommate housemate",
    "company firm startup business employer",
    "married marry marrying marries remarried",
    "alive died dead death dies passed",
)
"""Words that speak of one subject: a question by one is answered by another."""


def _group_by_subject(lines: Iterable[str]) -> dict[str, frozenset[str]]:
    """Each stem → the stems of all lines that have it."""
    found: dict[str, frozenset[str]] = {}
    for stems in (frozenset(terms(line)) for line in lines):
        found |= {stem: found.get(stem, frozenset()) | stems for stem in stems}
    return found


_SUBJECT_OF = _group_by_subject((*_SUBJECTS, *IRREGULAR))
_FORMS_OF = _group_by_subject(
    (
        *IRREGULAR,
        "weigh weight",
        "child children",
        "vegetarian veggie",
        "grandchild grandchildren",
        "operation operated op",
    )
)


def akin(term: str) -> frozenset[str]:
    """A stem with those that speak of its subject."""
    return _SUBJECT_OF.get(term, frozenset((term,)))


def forms_of(term: str) -> frozenset[str]:
    """A stem with those of other forms of its word: "ate" of "eat"."""
    return _FORMS_OF.get(term, frozenset((term,)))


def kindred(word: str) -> frozenset[str]:
    """The stems of a word and of those that speak of its subject."""
    return frozenset[str]().union(*map(akin, terms(word)))
