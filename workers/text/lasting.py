"""Facts that hold of somebody until another is told, however short they are: home, work, age, names, likings.

Hand-written, for English. They are what a person tells first ("I live in Leeds"), in too few words to be salient.
"""

import re
from collections.abc import Iterable

from eunoe.workers.text.intent import instructs

_ADVERBS = r"(?:(?:still|now|currently|also|really|just|both|mostly|usually|actually|originally|only) ){0,2}"
_AM = r"I(?:['’]m| am) " + _ADVERBS
_CAPITAL = r"(?-i:[A-Z])"
_OCCUPATION = (
    r"(?!(?:disast|monst|rath|nev|und|ov|ev|aft|oth|los|lat|old|young|bett|number|summer|winter)(?:er)?\b)"
    r"(?:\w{2,20}(?:er|or|ist|ian|ant|ect|man|woman)|nurse|chef|cook|judge|pilot|coach|student|vet|clerk|mechanic|"
    r"parent|mother|father|mum|mom|dad|widow)"
)
_PERSON = (
    r"(?:son|daughter|baby|child|boy|girl|wife|husband|partner|girlfriend|boyfriend|fianc[eé]e?|friend|sister|brother|"
    r"mother|father|mum|mom|dad|grandm\w{2,8}|grandf\w{4,8}|aunt|uncle|cousin|niece|nephew|boss|manager|lead|"
    r"neighbou?r|colleague|room-?mate|flat-?mate|teacher|coach|therapist|company)"
)
_PET = r"(?:dog|cat|puppy|kitten|rabbit|hamster|parrot|budgie|horse|pony|tortoise|pet)"
_AMOUNT = r"(?:an?|no|one|two|three|four|five|six|seven|\d)"
_MOVED = (
    rf"\b(?:I|we)(?:['’]ve| have| [^.!?]{{1,60}}? and)? {_ADVERBS}(?:finally |recently )?(?:moved|relocated) (?:back )?"
)
_HOME = re.compile(
    rf"\bI {_ADVERBS}(?:live|reside) (?:in|at|near|on|with|alone|by)\b|"
    rf"\b{_AM}(?:living|based) (?:in|at|near|on|with)\b|\b{_AM}from {_CAPITAL}|"
    rf"{_MOVED}(?:from {_CAPITAL}\w{{1,30}} )?(?:to|in|into) {_CAPITAL}|"
    rf"{_MOVED}in(?:to)? (?:together|with|an?|our|my)\b[^.!?]{{0,60}}? (?:in|at|near) {_CAPITAL}",
    re.IGNORECASE,
)
_COMING = re.compile(rf"\bI {_ADVERBS}(?:come|came) from {_CAPITAL}", re.IGNORECASE)
_LOWER_PLACE = (
    r"(?!(?:the|an?|my|our|his|her|their|this|that|another|some|one|new|next|last|bed|side|tears|it|first|time|order|"
    r"bigger|smaller|other|different|spring|summer|autumn|winter|january|february|march|april|may|june|july|august|"
    r"september|october|november|december)\b)[a-z]"
)
_CAPITALS = re.compile(r"[^\W\d_a-z]\w|[A-HJ-Z]")
_LOWER_HOME = re.compile(
    rf"{_MOVED}(?:to|into) {_LOWER_PLACE}|"
    rf"{_MOVED}in(?:to)? (?:together|with|an?|our|my)\b[^.!?]{{0,60}}? (?:in|at|near) {_LOWER_PLACE}|"
    r"\bi(?:['’]| a)?m from (?!(?:the|an?|my|now|here|there|time)\b)\w",
    re.IGNORECASE,
)
"""Homes as people tell them who write no capitals."""
_SHORT_HOME = re.compile(
    rf"(?:\A|[.,;!] ){_ADVERBS}(?:living|based) (?:in|at|with|near) |"
    rf"\b(?:found|got|rented|bought) an? (?:[\w-]{{1,30}} )?(?:studio|flat|apartment|house|place) in {_CAPITAL}|"
    r"\b(?:our|my) (?:new |own )?(?:place|flat|apartment|house|home|studio) is (?:now )?"
    r"(?:in|at|near|on) (?!sale\b|fire\b)|"
    rf"\b[Ww]e {_ADVERBS}(?:live|reside) (?:in|at|near|on) |\baddress(?: is|:) {_CAPITAL}",
    re.IGNORECASE,
)
"""Homes as people tell them without a subject, of two, or by the address."""
_STREET = re.compile(
    r"(?:stra(?:ss|ß)e|gasse|weg|platz|allee|laan|straat|kade|street|road|avenue|lane|drive|square)\b,? (?:no\.? ?)?\d|"
    r"\b(?-i:Str\b\.?)|\b\d{1,4}[a-z]?,? (?:[\w'’]{2,20} ){1,2}(?:street|road|avenue|lane|drive|square|st|rd|ave)\b|"
    r"\b(?:rue|avenue|via|calle|plaza|am|an der|auf der|im) (?:[\w'’-]{1,30} ){1,3}?\d{1,4}[a-z]?\b(?! ?[ap]m\b)|"
    r"\b(?:in|on|at) (?:(?-i:[A-Z])[\w'’]{1,20} ){1,2}(?:street|road|avenue|lane|drive|square)\b|\baddress(?: is|:) \w",
    re.IGNORECASE,
)
_WORK = re.compile(
    rf"\bI {_ADVERBS}work (?:as|at|for|in|from|with|nights|shifts|part|full|remotely|freelance)\b|"
    rf"\bI {_ADVERBS}run (?:an?|my|our|the) (?:[\w-]{{1,30}} ){{0,3}}?(?:startup|start-up|company|business|"
    r"shop|store|restaurant|caf[eé]|agency|studio|practice|bakery|farm|firm|school|hotel|bar)\b|"
    rf"\bI {_ADVERBS}teach (?!(?:you|him|her|them|it|myself)\b)\w|"
    rf"\bI (?:start|started|begin|began) (?:at|with) {_CAPITAL}|"
    r"\bI(?:['’]ve| have)? (?:just |finally |recently )?(?:got|found|took|landed|accepted|started) (?:an? |the |my )?"
    r"(?:new )?(?:job|position) (?:at|as|with|in)\b|"
    rf"\b{_AM}an? (?!bit\b|little\b|lot\b)(?:[\w-]{{1,30}} ){{0,3}}?{_OCCUPATION}"
    r"(?=$|[.,;!]| (?:at|for|in|with|and|by|on|but|now|from)\b)",
    re.IGNORECASE,
)
_SHORT_WORK = re.compile(
    r"(?:\A|[.,;!] )(?:just |finally |i (?:just |finally )?)?(?:got|landed|found) (?:the |an? |my )?(?:new )?"
    r"(?:(?:job|position) (?:as|at|with|in)|(?:job )?offer (?:from|at))\b",
    re.IGNORECASE,
)
"""Work as people tell it without a subject."""
_WORKPLACE = re.compile(
    rf"\bI {_ADVERBS}(?:run|teach [^.,;!?]{{1,40}}? (?:at|in)|(?:start|started|begin|began) (?:at|with)) |"
    rf"\b(?:work|job|position|offer|{_OCCUPATION})\b(?: [\w-]{{1,30}}){{0,4}}? (?:at|for|from|with|in) "
    r"(?!the (?:morning|evening|night)|a while|years)\w",
    re.IGNORECASE,
)
"""Work of which is told where, or for whom."""
_FORMER_WORK = re.compile(
    rf"\bI (?:was|used to be|had been) an? (?:[\w-]{{1,30}} ){{0,3}}?{_OCCUPATION}\b|"
    r"\bI (?:worked|used to work) (?:as|at|for|in)\b",
    re.IGNORECASE,
)
_NAMED_WORK = re.compile(
    r"(?:\b(?:is|was|am|be|became|as|being|he|she|[a-z]{2,10}s|training to be)|['’][sm]) (?:now |still |also )?"
    rf"(?:an?|the) (?:[\w-]{{1,30}} ){{0,3}}?{_OCCUPATION}\b|"
    r"\b(?:works?|working|worked|job|drives|teaches|studies|retired|unemployed)\b",
    re.IGNORECASE,
)
_NO_WORK = re.compile(
    r"\bI(?:['’]ve| have)? (?:just |finally |recently |actually )?"
    r"(?:resigned|retired|(?:got|was) (?:fired|laid off|let go)|(?:quit|left|lost) (?:my|the) (?:job|work|position)|"
    r"quit(?=$|[.,;!]| (?:last|this|yesterday|today|on \w{3,6}day|in \w{3,9}|two|three|a) ?))\b|"
    rf"\b{_AM}(?:unemployed|jobless|out of work|out of a job|between jobs|retired)\b",
    re.IGNORECASE,
)
_AGE = re.compile(
    rf"\b(?:{_AM}(?:[^\W\d]{{1,30}}, )?|I {_ADVERBS}(?:turned|turn) |I(?:['’]ll| will) (?:be|turn) )"
    r"(?:\d{1,2}|(?:twen|thir|for|fif|six|seven|eigh|nine)ty(?:-\w{3,5})?)"
    r"(?=$|[.,;!]| (?:now|today|yesterday|and|but|years|in|on|at|last|next|this|since)\b)",
    re.IGNORECASE,
)
_DATE = re.compile(r"\b(?:my|our) (?:[\w'’-]{1,30} ){0,2}(?:birthday|anniversary) is\b", re.IGNORECASE)
_REACH = re.compile(
    r"\b(?:my|our) (?:[\w-]{1,30} ){0,2}?(?:number|e-?mail(?: address)?) is (?:now )?"
    r"(?:[+(]?\d|[^\s@]{1,60}@)|"
    r"\b(?:my|our) (?:(?:new|current|postal|home|street) )*address is\b",
    re.IGNORECASE,
)
"""Where somebody is reached, and what has a number for them."""
_NAME = re.compile(
    rf"\b(?:my|our|an?|the|two|three) (?:[\w-]{{1,30}} ){{0,3}}?(?:{_PERSON}|{_PET})s?,? (?:is |are |who is )?"
    rf"(?:called|named) {_CAPITAL}|"
    rf"\b(?:my|our) (?:[\w-]{{1,30}} ){{0,2}}?(?:(?:{_PERSON}|{_PET})(?:['’]s name)?|name) is "
    rf"(?:(?:Mr|Mrs|Ms|Dr)\.? )?{_CAPITAL}"
    r"\w{1,30}(?=$|[.,;!]| and\b)",
    re.IGNORECASE,
)
_HAVING = re.compile(
    rf"\b(?:I|we)(?:['’]ve got|(?: have|['’]ve)(?: got)?) {_AMOUNT} (?:[\w-]{{1,30}} ){{0,3}}?"
    rf"(?:{_PERSON}|{_PET}|twin|sibling|kid|children|kitties|puppies)s?\b|"
    rf"\bI {_ADVERBS}(?:own|drive|ride) an? (?!bit\b|little\b|lot\b)|"
    rf"\bI {_ADVERBS}speak (?:{_CAPITAL}|fluent\b|some\b|a (?:little|bit of)\b)",
    re.IGNORECASE,
)
_AVERSION = re.compile(
    rf"\bI {_ADVERBS}(?:hate|dislike|detest|(?:can['’]t|cannot) stand|prefer|(?:don['’]t|do not) (?:really )?like) "
    r"(?!(?:it|that|this|them|these|those|you|your|how|when|what|him|her|the (?:way|idea|sound|look|thought))\b)|"
    r"\bmy favou?rite (?:[\w-]{1,30} ){1,3}?(?:is|are)\b",
    re.IGNORECASE,
)
_HABIT = re.compile(
    r"\bI (?:never|always|only) (?:eat|drink|sleep|work|use|wear|take|read|watch|buy|travel|fly|drive|smoke|cook)\b|"
    r"\bI can only (?!(?:see|say|imagine|hope|guess|think|agree|wonder|wish|dream|apologi[sz]e|thank)\b)\w|"
    rf"\bI {_ADVERBS}play the (?!(?:role|part|game|fool|victim|lottery)\b)\w",
    re.IGNORECASE,
)
_AM_WORDS = ("i'm", "i’m", "i am")
_FACTS = (
    (("live", "reside", "living", "based", "from", "moved", "relocated"), _HOME),
    (("work", "job", "position", "start", "begin", "began", "teach", "run", *_AM_WORDS), _WORK),
    (("turn", "'ll be", "’ll be", "will be", *_AM_WORDS), _AGE),
    (("birthday", "anniversary"), _DATE),
    (("called", "named", " is "), _NAME),
    (("number is", "mail is", "address is"), _REACH),
    (("have", "'ve", "’ve", "own", "drive", "ride", "speak"), _HAVING),
    (("hate", "dislike", "detest", "stand", "prefer", "like", "favo"), _AVERSION),
    (("never", "always", "only", "play the"), _HABIT),
)
"""Patterns, each with the words without one of which it cannot match: these are looked for first, as plain text."""
_LIKING = re.compile(
    rf"\bI {_ADVERBS}(?:love|like|enjoy|adore) "
    r"(?!(?:it|that|this|them|these|those|you|your|how|when|what|him|her|being|seeing|hearing|knowing|to|the)\b)",
    re.IGNORECASE,
)
_TOLD_TO_REMEMBER = re.compile(
    r"^\W{0,3}(?:(?:please|also|and|oh|just),? ){0,2}(?:(?:can|could|will|would) you (?:please )?)?"
    r"(?:(?:please )?(?:remember|note|keep in mind|bear in mind|don['’]t forget|do not forget|make a note|be aware|"
    r"remind me)(?:(?: that|:) ?(?=\w)| (?=(?:I|I['’]\w{1,3}|my|we|we['’]\w{1,3}|our)\b))|"
    r"(?:for the record|fyi|just so you know|for your information)(?:, ?|: ?| )(?=\w))",
    re.IGNORECASE,
)
_REMEMBER_IT = re.compile(
    r"\W{0,3}(?:(?:please|so|and|oh|just|can you|could you),? ){0,3}(?:remember|note|keep in mind|don['’]t forget|"
    r"do not forget|make a note of|write down) (?:that|this|it)(?: please)?(?:, please)?\W{0,3}\Z",
    re.IGNORECASE,
)
"""A request to remember what was said right before it."""
_YOU = re.compile(r"\byou(?:rs?|rself)?\b", re.IGNORECASE)
"""Whoever says "remember that you can ..." gives advice."""
_ADDRESSES = re.compile(
    r"\b(?:I|me|my|please|answer|repl(?:y|ies)|respond|responses?|from now on|going forward)\b", re.IGNORECASE
)
_VAGUE = re.compile(r"\bI (?:\w{1,20} )?prefer (?:it|that|this|them|these|those)\b", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_SUPPOSED = re.compile(
    r"\b(?:if|imagine|suppose|pretend|would|wish|unless|whether|maybe|perhaps|might|not sure|as though)\b",
    re.IGNORECASE,
)


def is_lasting(sentence: str) -> bool:
    """Whether the sentence states what holds of its speaker until another is told, or how to reply from now on.

    So does whatever its speaker asks to be remembered; nothing that is only supposed.
    """
    if asks_to_remember(sentence):
        return True
    if wants_remembered(sentence):
        return False
    lower = sentence.lower()
    for words, pattern in _FACTS:
        if _has_one(lower, words) and _tells(pattern, sentence):
            return True
    return (
        instructs(sentence, frozenset(_WORD.findall(lower)))
        and _ADDRESSES.search(sentence) is not None
        and _VAGUE.search(sentence) is None
    )


def _has_one(text: str, words: Iterable[str]) -> bool:
    for word in words:  # noqa: SIM110 - any() over a generator takes twice the time
        if word in text:
            return True
    return False


def tells_home(sentence: str) -> bool:
    """Whether the sentence says where its speaker lives or is from, also without "I": "living in Leeds now"."""
    return tells_origin(sentence) or _tells(_SHORT_HOME, sentence)


def tells_origin(sentence: str) -> bool:
    """Whether the sentence says in the first person where its speaker lives or is from."""
    return (
        _tells(_HOME, sentence) or _tells(_COMING, sentence) or (_is_small(sentence) and _tells(_LOWER_HOME, sentence))
    )


def _is_small(sentence: str) -> bool:
    """Whether a sentence begins small, or has no capital but that of "I": its names may be written small, too."""
    return sentence[:1].islower() or _CAPITALS.search(sentence) is None


def tells_address(text: str) -> bool:
    """Whether the text has an address, or a street with a number."""
    return _tells(_STREET, text)


def tells_work(sentence: str) -> bool:
    """Whether the sentence says what its speaker works as, or where."""
    return _tells(_WORK, sentence) or _tells(_SHORT_WORK, sentence)


def tells_workplace(sentence: str) -> bool:
    """Whether the sentence says where or for whom its speaker works, not only as what or when: "I work nights"."""
    return tells_work(sentence) and _WORKPLACE.search(sentence) is not None


def tells_former_work(sentence: str) -> bool:
    """Whether the sentence says what its speaker worked as, or where."""
    return _tells(_FORMER_WORK, sentence)


def tells_occupation(sentence: str) -> bool:
    """Whether the sentence says what somebody works as: "my wife is a nurse"."""
    return _NAMED_WORK.search(sentence) is not None


def tells_no_work(sentence: str) -> bool:
    """Whether the sentence says that its speaker has no work, or has given it up."""
    return _tells(_NO_WORK, sentence)


def tells_age(sentence: str) -> bool:
    """Whether the sentence says how old its speaker is."""
    return _tells(_AGE, sentence)


def _tells(pattern: re.Pattern[str], sentence: str) -> bool:
    found = pattern.search(sentence)
    return found is not None and _SUPPOSED.search(sentence[: found.start()]) is None


def is_liking(sentence: str) -> bool:
    """Whether the sentence says what its speaker likes."""
    return _LIKING.search(sentence) is not None


def asks_to_remember(sentence: str) -> bool:
    """Whether the sentence asks that what it says be remembered: "Could you remember that I am vegan?"."""
    found = _TOLD_TO_REMEMBER.match(sentence)
    return found is not None and _YOU.search(sentence, found.end()) is None


def wants_remembered(sentence: str) -> bool:
    """Whether the sentence asks that what was said right before it be remembered: "Please remember that."."""
    return _REMEMBER_IT.match(sentence) is not None


def without_request(sentence: str) -> str:
    """The sentence without a request to remember it, as a statement."""
    found = _TOLD_TO_REMEMBER.match(sentence)
    if found is None or not asks_to_remember(sentence):
        return sentence
    rest = sentence[found.end() :].rstrip("?？ ")
    return f"{rest[:1].upper()}{rest[1:]}{'' if rest.endswith(('.', '!', '…')) else '.'}"
