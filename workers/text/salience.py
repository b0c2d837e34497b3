"""Salience of a sentence: how much of it is worth remembering. Hand-written tables for English."""

import re
from collections.abc import Collection

from eunoe.workers.text.caches import cached_by_length
from eunoe.workers.text.days import has_days
from eunoe.workers.text.guarded import GuardedPattern
from eunoe.workers.text.lasting import is_lasting, is_liking
from eunoe.workers.text.terms import terms
from eunoe.workers.text.vital import is_vital
from eunoe.workers.text.words import NUMBER_WORDS

_CHANGE = GuardedPattern(
    r"\b(?:moved|moving (?:to|in|out|away|back)|quit|resigned|retired|graduated|enrolled|adopt(?:ed|ing)|"
    r"pregnant|engaged|married|divorced|separated|broke up|breakup|born|passed away|died|funeral|"
    r"diagnosed|recovered|healed|surgery|operated|injured|tore|torn|sprained|broke my (?!heart)|fractured|"
    r"hired|fired(?! up)|laid off|promoted|promotion|"
    r"new (?:job|role|position|house|home|flat|apartment|place|car|school)|"
    r"accepted (?:the|an?|into)|my (?:last|first) day|"
    r"gave up|given up|no longer|not any ?more|any ?more\b|used to|called off|cancel(?:l)?ed|postponed|"
    r"(?:i['’]m|i am|we['’]re|we are) (?:leaving|quitting) (?-i:[A-Z])\w{1,30}|"
    r"i(?:['’]ve| have)? (?:just |finally |recently )?left (?-i:[A-Z])\w{1,30}(?=[.,;!]|$| and| for)|"
    r"i(?:['’]m starting| start) (?:at|as|with) \w{1,30}|"
    r"signed up|joined|started (?:a|an|my|at|to|learning|taking|doing|looking|going|working|\w+ing)|"
    r"(?:have|'ve|has|had) (?:just |finally |recently )?"
    r"(?:started|stopped|finished|bought|sold|moved|lost|left|joined|changed|switched)|"
    r"stopped \w+ing|finished (?:my|the|writing|building|reading)|(?:i|we) (?:just |finally |recently )?"
    r"(?:bought|sold|lost|won|launched|opened|closed|published|finished|passed|failed|changed|switched)|"
    r"got (?:a|an|my|the|into|hired|fired(?! up)|accepted|promoted|rid)|is over|are over|better now|"
    r"(?:became|turned|went|gone) (?:vegan|vegetarian)|"
    r"back to (?:work|normal|school)|can (?:\w+ ){1,6}again|broke down|"
    r"(?:i|we)(?:['’]m| am|['’]re| are)? (?:eat|drink|smok|driv|walk)\w{0,3} (?:[\w'’-]{1,30} ){0,4}again|"
    r"no more \w{1,30} for (?:me|us)|"
    r"got (?:sick|ill|well|better))\b",
    re.IGNORECASE,
)
_OFF = GuardedPattern(
    r"\b(?:the|our|my) (?:\w{1,30} ){0,2}?(?:wedding|engagement|trip|journey|holiday|move) (?:to \w+ )?"
    r"(?:is|was|has been) (?:off|cancell?ed|called off)\b",
    re.IGNORECASE,
)
"""A plan of two that is given up: it need not say whose."""
_SELF = re.compile(r"\b(?:I|my|me|mine|we|our|us)\b|\bI['’]|\bwe['’]", re.IGNORECASE)
_FACT = GuardedPattern(
    r"\b(?:i am (?:an?|the|allergic|from|in)|i['’]m (?:an?|the|allergic|from|in|at|learning|working|training|"
    r"planning|studying|saving|looking (?:for|at|into)|going to|keen on|into)|"
    r"i (?:work|live|teach|study|studied|own)|"
    r"i have|i['’]ve (?:got|been)|i had|i love|i like|i hate|i enjoy|i prefer|i play|i went|i ran|i made|"
    r"i painted|i was|i want to|my (?:wife|husband|son|daughter|kids?|children|mom|mum|mother|dad|father|"
    r"sister|brother|grandm\w+|grandpa|friend|boss|team|dog|cat|puppy|family|job|work|goal|dream|birthday|favou?rite|allergy|knee|back)|"
    r"(?:his|her|its) name is|named|called|next (?:week|month|year|summer|time)|"
    r"we(?:['’]re| are) (?:going|planning))\b",
    re.IGNORECASE,
)
_ABOUT_OTHER = re.compile(
    r"^\W*(?:(?:and|but|so|well|then|also) )?(?:you|your|you['’]\w+|thanks?|thank|let['’]s|let|congrat\w*|good luck|"
    r"keep|take (?:care|a look)|check (?:it|this|out)|look at|send|tell|don['’]t|enjoy|have (?:a|fun)|"
    r"wishing|sounds?|looks?|glad|happy (?:for|to)|nice|great|awesome|cool|wow|love (?:it|that|the|this|your)|"
    r"that(?:['’]s| is| was| sounds| must| would| looks)|it(?:['’]s| is) (?:so |really |always |pretty )?"
    r"(?:great|good|nice|awesome|amazing|cool|important|wonderful|fun|lovely|inspiring|incredible)|"
    r"can['’]t wait|no (?:problem|worries|doubt\w*|way)|absolutely|definitely|totally|exactly|agreed|of course|"
    r"what (?:a|an)|hearing|how \w+|here['’]s|check)\b",
    re.IGNORECASE,
)
_REACTION = GuardedPattern(
    r"\b(?:proud of you|sorry to hear|glad (?:you|to hear|that you)|happy (?:for you|to hear)|i(?:['’]m| am) sorry|"
    r"i (?:totally |completely |100% |really |so )?(?:agree|appreciate|get (?:it|you|that)|know|understand|bet|hope|"
    r"guess|think|believe|feel you|see|hear you|promise|knew)|"
    r"i['’]m (?:sure|glad|so proud|so glad|happy to|really proud|here)|feels? like|"
    r"i (?:can|could|will) (?:help|explain|show|suggest|recommend|keep|remember|remind)|"
    r"i(?:['’]d| would) (?:love to|say)|"
    r"i['’]ll (?:let you|keep|definitely|do my|be there|send|check|tell)|"
    r"means? (?:a lot|so much|the world)|i can (?:imagine|see|relate|tell|feel)|can['’]t wait|you(?:['’]re| are)|"
    r"good to (?:see|hear)|great to (?:see|hear)|nice to (?:see|hear)|talk (?:to you )?(?:soon|later)|"
    r"see you|we can\b|keeping busy|"
    r"something to tell|reminds? me|you should|you can|you could|you['’]ll|you have|"
    r"thank(?:s| you)|appreciate)\b",
    re.IGNORECASE,
)
_BACKWARD = re.compile(
    r"^\W*(?:(?:and|but|so|because|then|also|now) )?(?:he|she|it|they|that|this|these|those|his|her|their|its|"
    r"the same|both|one|such)(?:['’]\w+)?\b",
    re.IGNORECASE,
)
_ABSTRACT = GuardedPattern(
    r"\b(?:inspir\w+|support\w*|journey|grateful|thankful|motivat\w+|positiv\w+|amazing|awesome|important|"
    r"difference|meaningful|joy|happiness|incredible|passion\w*|rewarding|beautiful)\b",
    re.IGNORECASE,
)
_VAGUE = re.compile(
    r"^\W*+(?:[\w']++ ){0,2}(?:I|I'\w+|we|we'\w+) (?:\w+ ){1,2}(?:it|them|this|that|one|there)\b", re.IGNORECASE
)
_CONDITION = re.compile(r"^\W*(?:if|maybe|perhaps|wish|hopefully)\b", re.IGNORECASE)
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_DIGIT = re.compile(r"\d")
_QUESTION = re.compile(r"[?？][^\w?？]*$")
_MONTH = re.compile(
    r"\b(?:January|February|March|April|June|July|August|September|October|November|December|"
    r"Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)s?\b"
)

THRESHOLD = 3.5
"""The salience from which an English sentence is worth remembering."""
FOREIGN_THRESHOLD = 2.0
"""The same for other languages, where only names, numbers and length count."""


def is_question(sentence: str) -> bool:
    """Whether the sentence ends as a question."""
    return _QUESTION.search(sentence) is not None


def refers_back(sentence: str) -> bool:
    """Whether the sentence opens with a word that refers to an earlier sentence ("he", "that", "the same")."""
    return _BACKWARD.search(sentence) is not None


def is_change(sentence: str) -> bool:
    """Whether a state of the speaker, or of someone or something close to them, began, ended or changed."""
    return (_tells_change(sentence) or _OFF.search(sentence) is not None) and not _is_reaction(sentence)


def salience(sentence: str, speakers: Collection[str]) -> float:
    """The salience of an English sentence, about -11 to 10; compare it with `THRESHOLD`.

    The words of the ``speakers``' names do not count.
    """
    found = terms(sentence, drop=speakers)
    score = min(len(set(found)), 8) * 0.3 + _particulars(sentence, speakers)
    off = _OFF.search(sentence) is not None
    own, changes = off or _SELF.search(sentence) is not None, off or _tells_change(sentence)
    reacts, conditional = _is_reaction(sentence), _CONDITION.search(sentence) is not None
    unclear = refers_back(sentence) or _VAGUE.search(sentence) is not None
    score += 1.5 * own + 1.0 * bool(_FACT.search(sentence))
    score += 2.0 * changes
    score -= 4.0 * reacts + 1.5 * conditional
    score -= 1.5 * unclear
    score -= 0.6 * min(sum(1 for _ in _ABSTRACT.finditer(sentence)), 4)
    score -= 2.0 * (len(found) < 3)
    # what can be understood alone passes, however short it is: a change of the speaker, a lasting or a vital fact
    passes = own and (changes or is_liking(sentence)) and not (reacts or conditional or unclear)
    if score < THRESHOLD and (passes or is_lasting(sentence) or is_vital(sentence)):
        return THRESHOLD
    return score


def foreign_salience(sentence: str, speakers: Collection[str]) -> float:
    """The salience of a sentence in another language, 0 to 6.5; compare it with `FOREIGN_THRESHOLD`."""
    return min(len(set(terms(sentence, drop=speakers))), 10) * 0.35 + _particulars(sentence, speakers)


# cached: a sentence is read for its salience, for its group and for the kind of its memory
@cached_by_length("sentences", len, 2, (400, 128))
def _tells_change(sentence: str) -> bool:
    return _CHANGE.search(sentence) is not None


@cached_by_length("sentences", len, 2, (400, 128))
def _is_reaction(sentence: str) -> bool:
    return bool(_ABOUT_OTHER.search(sentence) or _REACTION.search(sentence))


def _particulars(sentence: str, speakers: Collection[str]) -> float:
    """0 to 3 points for names, numbers and times."""
    words = _WORD.findall(sentence)
    dropped = {part.casefold() for speaker in speakers for part in speaker.split()}
    named = any(word[0].isupper() and not word.startswith("I") and word.casefold() not in dropped for word in words[1:])
    counted = _DIGIT.search(sentence) is not None or any(word.lower() in NUMBER_WORDS for word in words)
    timed = has_days(sentence) or _MONTH.search(sentence) is not None
    return 1.0 * named + 0.8 * counted + 1.2 * timed
