"""States that end in a known way, as pairs of patterns: the state, and the end of it. English cues."""

import re
from dataclasses import dataclass
from enum import Enum

_WORDS = r"[\w'-]{1,30}"
_OWNED = r"\b(?:(?:my|our|the|his|her|their)|[\w-]{1,30}'s) "
_OBJECT = rf"({_WORDS}(?: {_WORDS}){{0,4}} ?)"


class Same(Enum):
    """Ways in which the objects of two sentences agree."""

    HEAD = "head"
    """Their heads are one noun."""
    ANY = "any"
    """The head of one is anywhere in the other."""
    ALL = "all"
    """All words of the later one are those of the earlier one."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A state and the end of it."""

    state: re.Pattern[str]
    end: re.Pattern[str]
    because: str
    object: Same | None = None
    """The agreement of the captured objects; `None` where a person has one such state at a time."""


_MEDICATION = re.compile(
    r"\b(?:takes?|taking|gets?|is on|are on|put (?:[\w'-]{1,30} ){1,3}on|(?:was|were|has been) prescribed|prescribed) "
    r"(?:\d[\d.,]{0,6} ?(?:mg|mcg|ml|g) (?:of )?)?" + _OBJECT
)
CHANGES = (
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
        re.compile(r"\bvegetarian\b|\bvegan\b|\bveggie\b"),
        re.compile(r"\b(?:eat(?:s|ing)?|started eating|went back to eating) (?:\w+ )?"
                   r"(?:meat|fish|chicken|beef|pork|bacon|steak)\b|"
                   r"\bnot (?:really |an? )?(?:vegetarian|vegan|veggie) any ?more\b"),
        "meat is eaten again",
    ),
    Transition(
        re.compile(r"(?:n't|\b(?:not|no longer|never|stopped|quit))(?: (?:really|allowed to|able to|any)){0,2} "
                   r"(?:eat|drink|tak|hav)(?:e?s|ing|e)? " + _OBJECT),
        re.compile(r"\b(?:eat|drink|tak|hav)(?:e?s|ing|e)? (" + _WORDS + r"(?: " + _WORDS + r"){0,2} )again\b"),
        "it is eaten or drunk again",
        Same.HEAD,
    ),
    Transition(
        re.compile(r"\b(?:is|am|'m|are|being) (?:(?:very|highly|severely|badly|also|still|slightly) ){0,2}allergic to "
                   + _OBJECT),
        re.compile(r"(?:n't|\b(?:not|no longer|never (?:was|been))) (?:(?:really|actually|even) )?allergic to "
                   + _OBJECT),
        "it was no allergy",
        Same.HEAD,
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
        _MEDICATION,
        re.compile(r"\b(?:stopped|quit|came off|(?:is|am|'m) off|(?:took|taken|weaned) (?:[\w'-]{1,30} ){1,3}off|"
                   r"no longer (?:takes?|on)) (?:taking )?" + _OBJECT),
        "it is not taken any more",
        Same.HEAD,
    ),
    Transition(
        _MEDICATION,
        re.compile(r"\b(?:raised|increased|lowered|reduced|halved|doubled) (?:the |my |his |her )?(?:dose of )?"
                   r"((?:the |my |his |her )?" + _WORDS + r") (?:from|to)\b"),
        "another dose",
        Same.HEAD,
    ),
    Transition(
        re.compile(_OWNED + _OBJECT + r"(?:is|are|will be|takes place|starts) (?:on|at|in)\b"),
        re.compile(_OWNED + _OBJECT + r"(?:(?:is|was|were|has been|got) )?(?:moved|postponed|rescheduled|put off|"
                   r"brought forward|changed) (?:from (?:[\w:]{1,12} ){1,4})?(?:to|till|until)\b"),
        "it is at another time",
        Same.ALL,
    ),
    Transition(
        re.compile(r"\bplan(?:s|ned|ning)? (?:to|on|for|an?) " + _OBJECT + r"|\b(?:going|wants|hopes) to " + _OBJECT
                   + r"|\b(?:will|'ll) (?:go|fly|travel|move|drive) to " + _OBJECT),
        re.compile(r"\b(?:cancell?ed|called off|postponed|gave up on|decided against|dropped) " + _OBJECT
                   + r"|\b(?:the|my|our|his|her|their|[\w-]{1,30}'s) ((?:" + _WORDS + r" ){1,2})"
                   r"(?:trip|journey|holiday|vacation|visit) (?:is|was|has been) "
                   r"(?:off|cancell?ed|called off|postponed)\b"
                   + r"|\b(?:trip|journey|flights?|holiday|vacation|visit|move) to " + _OBJECT
                   + r"(?:is|are|was|were|has been) (?:off|cancell?ed|called off|postponed)\b"),
        "the plan is off",
        Same.ANY,
    ),
)  # fmt: skip
SETTLED = (
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
