"""Facts that matter for somebody's safety: allergies, diets, illness, births, deaths. Hand-written, for English.

They are about the speaker, somebody of theirs ("my daughter") or somebody named; talk about food or illness is none.
"""

import re
from collections.abc import Iterator

_DRUG_ENDINGS = tuple(
    """
    statin pril sartan olol cillin formin prazole zepam zolam oxetine dipine mycin cycline profen triptan parin gliptin
    flozin thyroxine traline pirin mab tinib xaban thioprine purine trexate salazine salamine glutide zepatide sone
    solone sonide dogrel sugrel grelor thiazide semide lactone gabalin pentin racetam trigine tiapine zapine peridone
    faxine opram tidine rizine atadine lukast terol butamol setron conazole trozole oxifen clovir roquine
    """.split()  # noqa: SIM905 - a table of words
)
"""Endings by which the names of medicines are known, most of them those of the international nomenclature."""
_STEMS = _DRUG_ENDINGS + tuple(
    """
    allerg intoleran celiac coeliac diabet epilep asthma vegetarian vegan pescatarian kosher halal free diet eat drink
    tolerat pregnan expecting born birth baby twins died passed lost diagnos medication insulin antibiotic antidepress
    thinners chemo prescribed epipen lack cancer dementia disease tumor tumour stroke heart pressure pacemaker meat milk
    alcohol nuts vet doctor gp dentist therapist diatrician midwife cardiologist contact rash hives swelling put survive
    mg pill tablet predniso warfarin medicine
    """.split()  # noqa: SIM905 - a table of words
)
"""Without one of these no sentence is vital. Looked for first, as plain text: that takes a tenth of the time."""
_SOMEBODY = (
    r"\b(?P<who>I|[Ww]e|[Hh]e|[Ss]he|[Tt]hey|(?:[Mm]y|[Oo]ur|[Hh]is|[Hh]er|[Tt]heir) (?:[\w'-]+ ){0,2}?[\w'-]+|"
    r"(?!(?:People|Many|Some|Most|All|None|Every\w*|Any\w*|Some\w+|Nobody|It|This|That|There|These|Those|What|Who|You|"
    r"Which|Whoever|One|If|The|An?|And|But|So)\b)"
    r"(?!\w+s (?:do|don['’]t|are|have|eat|drink|never)\b)[A-Z]\w+(?: [A-Z]\w+)?)"
)
_ADVERBS = (
    r"(?:(?:not|no longer|never|also|still|now|just|both|all|really|very|quite|only|severely|highly|mildly|badly|"
    r"slightly|strictly|mostly|actually|recently|finally|sadly|since|always|again|too) ){0,3}"
)
_BE = r"(?:['’](?:m|re|s)| (?:am|are|is|was|were|isn['’]t|aren['’]t|(?:have|has) been)|['’]ve been)"
_HAVE = r"(?:['’](?:ve|s)(?: got)?| (?:have|has|had|don['’]t have|doesn['’]t have)(?: got)?)"
_FOODS = (
    r"(?:(?:any|the|red|raw|white|cow['’]s|much) )?(?:meat|fish|pork|beef|poultry|chicken|dairy|milk|cheese|"
    r"gluten|wheat|"
    r"eggs?|nuts?|peanuts?|shellfish|seafood|soy|lactose|sugar|alcohol|animal products)"
)
_VITAL = re.compile(
    _SOMEBODY + r"(?:"
    # allergies, conditions and diets that one has or is under
    rf"{_BE} {_ADVERBS}(?:(?:a|an) )?(?:strict )?(?:allergic to|(?:\w+[ -])?intolerant|diabetic|epileptic|asthmatic|"
    r"c(?:o)?eliac|vegetarians?|vegans?|pescatarians?|(?:gluten|lactose|dairy)[ -]free|pregnant|"
    r"expecting (?:(?:an?|another|our|my|her|their) (?:\w+ )?(?:baby|child|son|daughter|boy|girl)|twins|"
    r"again\b(?! (?:to|that|an?|some|more)\b))|"
    r"diagnosed with|prescribed|"
    r"on (?:a [\w-]+(?: [\w-]+)? diet|insulin|\w+ medication|medication|antidepressants|antibiotics|"
    r"blood thinners|chemo)|"
    r"born)\b|"
    rf"{_HAVE} {_ADVERBS}(?:(?:an?|any|no) )?(?:[\w-]+ ){{0,2}}?(?:allerg(?:y|ies)|intolerance|asthma|diabetes|"
    r"epilepsy|"
    r"cancer|dementia|c(?:o)?eliac disease|heart (?:condition|disease|attack)|stroke|high blood pressure|tumou?r|"
    r"pacemaker|disease|baby|twins)\b|"
    r" (?:has |have |had |just |recently |sadly |also |finally )*(?:died|passed away|gave birth|"
    r"(?:became|turned|went|gone|become) (?:vegan|vegetarian)|"
    r"lost (?:my|our|his|her|their) (?:\w+ )?(?:mother|mum|mom|father|dad|son|daughter|wife|husband|partner|baby|"
    r"brother|sister|grand\w+|friend|dog|cat))\b|"
    # what is not eaten or drunk, only eaten, or eaten again
    rf" (?:do not|don['’]t|doesn['’]t|does not|can['’]t|cannot|can not|mustn['’]t|must not|never|no longer|"
    r"stopped|quit|"
    rf"(?:am|is|are)n?['’]?t? (?:not )?allowed to) {_ADVERBS}(?:eat|drink|have|tolerate)(?:ing|s)? {_FOODS}\b|"
    rf" {_ADVERBS}(?:eats?|drinks?) (?:{_FOODS} again|only (?:{_FOODS}|halal|kosher)|(?:halal|kosher|vegan|"
    r"vegetarian))\b|"
    rf" only (?:eats?) (?:{_FOODS}|halal|kosher)\b|"
    r" (?:takes?|need|needs|uses?) (?:\w+ )?(?:medication|insulin|antidepressants|antibiotics|blood thinners|"
    r"an epipen)\b|"
    r" lacks? (?:iron|vitamin \w+)\b)"
)
_CARE = re.compile(
    r"\b(?:[Mm]y|[Oo]ur|[Hh]is|[Hh]er) (?:\w+ )?(?:vet|doctor|GP|dentist|therapist|pa?ediatrician|midwife|cardiologist|"
    r"emergency contact) is (?:now )?(?:called )?(?:[A-Z]|dr\b)"
)
_HARM = re.compile(
    r"\b[\w'’-]{2,30} (?:gives?|gave|causes?|caused) (?:me|him|her|us|my (?:\w+ ){0,2}\w+) (?:an? |such an? )?(?:\w+ )?"
    r"(?:rash|hives|swelling|allergic reaction|asthma attack)\b|"
    r"\b(?:I|he|she|my (?:\w+ ){0,2}\w+) (?:gets?|got|comes? out in|came out in|breaks? out in) (?:an? )?(?:\w+ )?"
    r"(?:rash|hives) (?:from|of|by|with)\b",
    re.IGNORECASE,
)
"""Things that do somebody harm, without the word allergy."""
_ENDED = re.compile(
    r"\b(?:had to (?:be )?|was |were |we |I )(?:have )?(?:put (?:(?:him|her|it|them|[A-Z]\w+) )?(?:down|to sleep))"
    r"(?! (?:the|my|our|a|an|some|by)\b)|"
    r"\b(?:did not|didn['’]t) survive\b"
)
"""The death of a pet, in other words."""
DRUG = rf"(?!april\b)[a-z]{{2,20}}(?:{'|'.join(_DRUG_ENDINGS)})"
"""The name of a medicine, in lower case."""
_DRUG = (
    rf"(?:{DRUG}|insulin|metformin|prednisone|prednisolone|warfarin|"
    r"(?:the |my )?(?:pills?|tablets?|medication|medicine|antidepressants|antibiotics|blood thinners))"
)
_MEDICINE = re.compile(
    r"\b(?:(?:doctor|GP|psychiatrist|cardiologist|neurologist|dermatologist|nurse|[Dd]r\.? [A-Z]\w+)(?: has)? "
    r"(?:prescribed|put (?:me|him|her) on|took (?:me|him|her) off|stopped|raised|increased|lowered|reduced|halved|"
    r"doubled|changed) [^.!?]{0,40}?|"
    r"(?:I(?:['’]m)?|[Hh]e|[Ss]he|[Mm]y (?:\w+ ){0,2}\w+) "
    r"(?:\w+ly |am |is |have |has |no longer |now |just |also |still ){0,3}"
    r"(?:take|takes|taking|took|gets?|got|stopped|stopped taking|started|on|came off|quit|"
    r"switched to|off|tak(?:e|es) only) "
    rf"(?:\d[\d.,]* ?(?:mg|mcg|ml|g) (?:of )?|the |my |a )?){_DRUG}\b|"
    rf"\b[Mm]y (?:dose of )?{_DRUG} (?:was|is|has been|stays|went)\b|\b(?-i:[A-Z])[a-z]{{3,20}} stays at \d+ ?mg\b"
)
_TREATED = re.compile(
    r"\b(?:[Hh]e|[Ss]he|[Tt]hey)(?:['’](?:s|ve)| has| have)? (?:just |now |also )?"
    r"(?:prescribed me|put me on|(?:took|taken) me off|switched me (?:to|from)|gave me) "
    rf"(?:\d[\d.,]* ?(?:mg|mcg|ml|g) (?:of )?|the |my |a )?{_DRUG}\b"
)
"""A medicine that somebody gave the speaker or took from them, whoever that was."""
_SUPPOSED = re.compile(
    r"\b(?:if|imagin\w+|suppos\w+|pretend\w*|would|wish\w*|unless|whether|in case|assum\w+|let['’]s say|"
    r"hypothetical\w*|"
    r"maybe|perhaps|might|doubt|wonder\w*|hop(?:e|ing)|not sure|(?:don['’]t|do not) think|afraid|worr\w+|"
    r"dream\w*|as though|"
    r"character|protagonist|fiction\w*|(?:said|say|says|heard|read) that (?:people|some|many))\b|"
    r"\bin (?:the|a|my|this|that) (?:book|film|movie|novel|story|game|series|show|episode)\b",
    re.IGNORECASE,
)
_THING = re.compile(
    r"\b(?:phone|laptop|battery|car|computer|engine|server|router|tablet|pc|process|job|script|build|pod|node|worker|"
    r"instance|container|connection|watch|plan|idea|project|company|app|program|session|bike|van|code|"
    r"character|recipe|dish|meal|cake|restaurant|menu|products?)$",
    re.IGNORECASE,
)
_FIGURE = re.compile(
    r"^\W*(?:ready\b|(?:of )?laugh|(?:of|from) (?:laugh|embarrass|bore|shame)|inside|"
    r"(?:to )?(?:(?:house)?work|[Mm]ondays?|mornings?|exercise|people|nonsense|drama|commitment|fun)\b|on (?:me|us)\b|"
    r"in (?:1\d{3}|the \d))"
)
"""Continuations that make a death or an allergy a figure of speech, or a death one of history."""
_NAMED = re.compile(r"\b(?:[Mm]y|[Oo]ur|an?|the|one)\b|(?<=\w )\b(?!I\b)[A-Z]\w")
_OTHER = re.compile(r"(?:he|she|they)$|(?:his|her|their)\b", re.IGNORECASE)


def is_vital(sentence: str) -> bool:
    """Whether the sentence states a fact of somebody's health, diet, birth or death; also that it is not so."""
    if not _may_be(sentence) or sentence.rstrip().endswith(("?", "？")):
        return False
    if _CARE.search(sentence) is not None or any(_facts(sentence)):
        return True
    found = (pattern.search(sentence) for pattern in (_HARM, _ENDED, _MEDICINE, _TREATED))
    return any(one is not None and _SUPPOSED.search(sentence[: one.start()]) is None for one in found)


def tells_treatment(sentence: str) -> bool:
    """Whether the sentence says that a medicine of its speaker was begun or ended by a "he" or "she" of before."""
    return is_vital(sentence) and _TREATED.search(sentence) is not None


def leans_back(sentence: str) -> bool:
    """Whether such a fact is of a "she" or "he" whom the sentence itself does not name."""
    return _may_be(sentence) and any(
        _OTHER.match(found["who"]) and not _NAMED.search(sentence[: found.start()]) for found in _facts(sentence)
    )


def _may_be(sentence: str) -> bool:
    lower = sentence.lower()
    for stem in _STEMS:  # noqa: SIM110 - any() over a generator takes twice the time
        if stem in lower:
            return True
    return False


def _facts(sentence: str) -> Iterator[re.Match[str]]:
    """Yield the statements of such facts that are neither supposed nor a figure of speech."""
    for found in _VITAL.finditer(sentence):
        if _SUPPOSED.search(sentence[: found.start()]):
            return
        if not _THING.search(found["who"]) and not _FIGURE.search(sentence[found.end() :]):
            yield found
