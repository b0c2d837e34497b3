"""English word lists of the offline operator."""

import re
from collections.abc import Iterable

from eunoe.workers.text.terms import terms

NEGATORS = frozenset(
    [
        "not",
        "no",
        "never",
        "none",
        "neither",
        "nor",
        "cannot",
        "without",
        "nobody",
        "nothing",
        "hardly",
        "barely",
        "lacks",
        "lack",
    ]
)
ENDERS = frozenset(
    ["quit", "quits", "stopped", "stops", "stop", "dropped", "cancelled", "canceled", "abandoned", "sold", "lost"]
)
"""Verbs that end what follows them."""

END_PHRASES = ("no longer", "not any more", "gave up", "given up", "giving up", "got rid of", "gets rid of")

LOOKING_BACK = re.compile(
    r"\b(?:once|recall(?:s|ed)?|remember(?:s|ed)?|reminisce[sd]?|used to|back then|in the past|years? ago|"
    r"when (?:i|he|she|they) (?:was|were)|childhood|as a (?:kid|child|boy|girl|teenager)|grew up|formerly)\b"
)
PLANNED = re.compile(
    r"\b(?:plan(?:s|ning|ned)? (?:to|on|for)|wants? to|would like to|hopes? to|hoping to|going to|intends? to|will|"
    r"considering|thinking (?:about|of)|about to|looking forward to|wish(?:es)? to|dreams? of|aims? to|decided to|"
    r"(?:is|are|am|'m|'re) (?:getting married|moving (?:to|into|back|out)))\b"
)
WISHED = re.compile(
    r"\b(?:would|could|should|might|maybe|perhaps|if|hopefully|almost|nearly|"
    # not the month
    r"(?<!in )(?<!of )(?<!since )(?<!last )(?<!next )(?<!this )(?<!by )(?<!until )(?<!from )(?<!every )(?<!early )"
    r"(?<!late )(?<!\d )(?<!\dst )(?<!\dnd )(?<!\drd )(?<!\dth )may(?! \d))\b"
)
DATED = re.compile(
    r"\b(?:\d{4}|\d{1,2}(?:st|nd|rd|th)|yesterday|today|tonight|last (?:night|week|weekend|month|year|summer|winter|"
    r"spring|fall|autumn|\w+day)|(?:this|the other) (?:morning|day|week|weekend)|\w+ (?:days?|weeks?|months?) ago|"
    r"(?:january|february|march|april|june|july|august|september|october|november|december)|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b"
)
STANCE = re.compile(
    r"\b(?:believ(?:e|es|ed|ing)|values?|supports?|supporting|thinks?|feels? (?:that|like)|hop(?:e|es|ing)|agrees?|"
    r"appreciat\w+|admir\w+|grateful|thankful|proud|inspir\w+|opinion|important|finds?|considers|cares?|"
    r"encourag\w+|glad|happy|excited|amazing|awesome|wonderful|great)\b"
)
PAST = re.compile(
    r"\b(?:went|had|saw|met|took|made|got|gave|was|were|did|came|bought|ran|won|told|found|felt|left|wrote|read|spent|"
    r"[a-z]{3,}ed)\b"
)

TROUBLES = frozenset(
    """
    sick ill illness disease flu cold cough fever migraine headache stomachache toothache backache ache aches pain
    pains hurt hurts hurting sore sprained broken broke injured injury wound rash allergy infection infected insomnia
    nausea nauseous dizzy tired exhausted surgery operation covid pneumonia gastroenteritis indigestion constipation
    diarrhea swollen bruise burn cramp cramps bronchitis arthritis cast hospital hospitalized stitches inflamed
    inflammation starving worried worries anxious anxiety stress stressed depressed depression nervous lonely grief
    problem problems trouble troubles issue issues leak leaking leaks debt stuck missing lost
    """.split()  # noqa: SIM905 - a table of words
)
PENDING = frozenset(
    """
    waiting awaiting pending preparing studying applying applied applying searching looking deadline exam exams test
    interview unfinished renovating renovation repairing repair saving due scheduled homework thesis project
    """.split()  # noqa: SIM905 - a table of words
)
COMPLETIONS = frozenset(
    """
    recovered recover healed heal cured gone over resolved fixed better disappeared vanished cleared subsided passed
    finished completed ended done solved repaired fine sorted settled paid removed returned
    """.split()  # noqa: SIM905 - a table of words
)
WEAK_COMPLETIONS = frozenset(["over", "better", "fine", "passed", "done", "gone", "returned", "removed", "ended"])
"""Completions only of what they are said of, directly: "the cold is over", not "over the hill"."""

KIN = frozenset(
    """
    mother mom mum father dad parent parents sister brother sibling siblings son daughter child children kid kids
    grandson granddaughter grandchild grandchildren grandmother grandma grandfather grandpa aunt uncle cousin niece
    nephew wife husband spouse partner girlfriend boyfriend fiance fiancee friend friends roommate neighbor neighbour
    boss coworker colleague teacher student family twins baby
    dog dogs puppy cat cats kitten pet pets bird parrot hamster rabbit fish turtle horse
    """.split()  # noqa: SIM905 - a table of words
)

PARTNERS = frozenset(["boyfriend", "girlfriend", "partner", "fiance", "fiancee", "husband", "wife"])

LIGHT = frozenset(
    stem
    for word in """
    go goes going went gone get gets getting got make makes making made take takes taking took give gives gave come came
    coming put thing things lot lots bit kind sort way still now currently recently lately today also always often
    usually particular properly any already yet again one ones much many more most own there here feel feels feeling
    want wants wanted wanting plan plans planned planning going hope hopes try tries trying tried start started begin
    began say says said tell tells told mention mentions mentioned talk talks talked day time finally just
    longer anymore have has had having stay stays stayed use used uses keep keeps kept while be being fully completely
    """.split()  # noqa: SIM905 - a table of words
    for stem in terms(word) or [word]
)
"""Stems that say little about the topic of a memory."""


def _pairs(lines: str) -> frozenset[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for line in lines.strip().splitlines():
        left, right = (side.split() for side in line.split("|"))
        found |= {pair for a in _stems(left) for b in _stems(right) for pair in ((a, b), (b, a))}
    return frozenset(found)


def _stems(words: Iterable[str]) -> list[str]:
    return [stem for word in words for stem in (terms(word) or [word])]


ANTONYMS = _pairs("""
likes like love loves enjoys enjoy adores | hates hate dislikes dislike despises detests loathes
single unmarried | married engaged dating
married | divorced separated widowed
alone | together accompanied
employed working | unemployed jobless
open opened | closed shut
healthy | sick ill unwell
vegetarian vegan | meat steak beef bacon carnivore
easy | hard difficult
hot warm | cold
early | late
happy | sad unhappy miserable
young | old elderly
big large | small tiny
always | never rarely seldom
indoors inside | outdoors outside
tall | short
morning | night
rich | poor
city | country countryside
awake | asleep
pass passed passes | fail failed fails
full | part
gained gain | lost lose
won win | lost lose
start started begins | quit stopped finished ended
retired | working works
pregnant | childless
only | siblings
""")

HEALTH = frozenset(
    stem
    for word in [
        "sick",
        "ill",
        "illness",
        "flu",
        "cold",
        "cough",
        "fever",
        "migraine",
        "headache",
        "stomachache",
        "toothache",
        "surgery",
        "operation",
        "injury",
        "injured",
        "hurt",
        "hurts",
        "sore",
        "sprained",
        "broken",
        "hospital",
        "hospitalized",
        "infection",
        "disease",
        "covid",
        "pneumonia",
        "pain",
        "ache",
        "diagnosed",
    ]
    for stem in terms(word)
)

HEALTH_DENIED = re.compile(
    r"\b(?:no|not|never|n't|without|doesn['’]t have|don['’]t have|hasn['’]t|isn['’]t)\b[^.,;]{0,30}?"
    r"\b(?:health (?:issues?|problems?)|sick|ill|unwell|pain|illness)\b"
    r"|\b(?:(?:is|are|am|i'm|feels?|feeling|perfectly) healthy|healthy type|in good health)\b"
)

WORK_WORDS = (
    "teacher nurse doctor lawyer engineer student chef cook waiter waitress manager programmer developer artist "
    "musician writer accountant mechanic driver farmer police officer firefighter scientist secretary librarian "
    "photographer dentist cashier clerk plumber electrician actor model designer salesman therapist pilot soldier "
    "bartender barista carpenter consultant professor banker baker janitor vet veterinarian retired unemployed"
)
WORKS = frozenset(stem for word in WORK_WORDS.split() for stem in terms(word))
