"""Judges the relation of two memories without a language model, by shared words and English cues.

Finds a change that the speaker of both reports, a cause named by a connective, or a common topic. Every rule needs
content words that both memories share; if none applies there is no relation.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from eunoe.schemas.events import Line
from eunoe.schemas.relations import Relation
from eunoe.workers.link.judge import RelationPair, RelationVerdict
from eunoe.workers.link.settings import LinkSettings
from eunoe.workers.text.terms import terms
from eunoe.workers.text.words import weight

WINDOW = 5
"""Maximum of words between a cue of change and the word it is about."""
_MIN_SHARED = 2
_MIN_WEIGHT = 3

_SENTENCE = re.compile(r"[^.!?;\n]+")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")

# words of summaries, small talk and the calendar: they do not tell topics apart
_GENERIC = frozenset(
    """
    mention mentions mentioned share shares shared sharing enjoy enjoys enjoyed enjoying love loves loved loving
    plan plans planned planning excite excited exciting inspire inspires inspired inspiring experience experiences
    experienced describe describes described discuss discusses discussed express expresses expressed appreciate
    appreciates appreciated appreciation recommend recommends recommended encourage encourages encouraged support
    supports supported supportive grateful thankful proud value values valued believe believes believed friend friends
    family life work works worked working world moment moments joy happiness passion passionate positive favorite
    attend attends attended attending
    find finds finding self stay stays stayed staying bring brings brought bringing tough
    comfort comforts remind reminds reminded reminding reminder motivate motivates motivated motivating motivation
    difference encouraging encouragement impact impacts named name names beauty beautiful strength spread spreads
    spreading acknowledge acknowledges acknowledged reward rewarding fulfilling journey purpose continue continues
    recently currently previously past year years month months week weeks weekend yesterday today tomorrow tonight
    january february march april may june july august september october november december
    monday tuesday wednesday thursday friday saturday sunday morning evening afternoon night
    conversation kids kid children child event events new team game games others other
    last next thank thanks cause caused causes reason reasons result results lead leads led due
    """.split()  # noqa: SIM905 - a table of words
)

_CHANGE = re.compile(
    r"\b(?:no longer|(?:not|never|\w+n['’]t)\b[^,]*\bany ?more|stopped|quit|g(?:a|i)ve(?:n)? up|switched|"
    r"got rid of|sold|broke up|split up|divorced|moved (?:to|out|away|back|in)|replaced|recovered|healed|cancell?ed|"
    r"turned into|dropped out|retired|graduated|is over|instead of|converted)\b",
    re.IGNORECASE,
)
_EFFECT_FIRST = re.compile(r"\b(?:because(?: of)?|due to|thanks to|as a result of|owing to)\b", re.IGNORECASE)
_CAUSE_FIRST = re.compile(
    r"\b(?:that(?:'|’)?s why|that is why|which is why|led (?:me|us|him|her|them|\w+)? ?to|as a result|therefore|"
    r"for that reason|(?<=, )so (?:i|we|he|she|they)|(?<=, )so (?:i|we|he|she|they)(?:'|’)\w+)\b(?! of\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class CueWord:
    """A word of a sentence; ``stems`` is empty if it carries little meaning."""

    start: int
    stems: frozenset[str]


def judge_by_cues(pair: RelationPair, names: Sequence[str], settings: LinkSettings) -> RelationVerdict:
    """The first that applies of Changed, Cause, SameTopic; else no relation.

    The words of ``names`` (the speakers) are ignored.
    """
    before = _stems([pair.older.text], names)
    shared = before & _stems(_texts(pair.newer.text, pair.newer.evidence), names)
    if len(shared) >= _MIN_SHARED:
        found = _changed(pair, shared, names) or _caused(pair, shared, names)
        if found is not None:
            return found
    return _same_topic(pair, names, settings)


def names_in(pairs: Iterable[RelationPair]) -> list[str]:
    """The speakers of all memories and evidence lines of the pairs, sorted."""
    memories = [memory for pair in pairs for memory in (pair.older, pair.newer)]
    lines = [line.speaker for memory in memories for line in memory.evidence]
    return sorted({*lines, *(memory.speaker for memory in memories)})


def _texts(text: str, lines: Iterable[Line]) -> list[str]:
    return [text, *(line.text for line in lines)]


def _changed(pair: RelationPair, shared: frozenset[str], names: Sequence[str]) -> RelationVerdict | None:
    """Changed if the same speaker reports a new change beside a word of the older memory."""
    if pair.older.speaker != pair.newer.speaker:
        return None
    own = [line for line in pair.newer.evidence if line.speaker == pair.newer.speaker]
    old_cues = {cue.group().casefold() for cue in _CHANGE.finditer(pair.older.text)}
    for sentence in _sentences(_texts(pair.newer.text, own)):
        for cue in _CHANGE.finditer(sentence):
            close = _near(sentence, cue, shared, names)
            if close and cue.group().casefold() not in old_cues:
                return RelationVerdict(Relation.CHANGED, f"'{cue.group()}' beside {_list(close)}")
    return None


def _caused(pair: RelationPair, shared: frozenset[str], names: Sequence[str]) -> RelationVerdict | None:
    """Cause if the newer memory names a cause that has half of its words in the older one."""
    for sentence in _sentences(_texts(pair.newer.text, pair.newer.evidence)):
        for connective, cause in _causes(sentence):
            stems = _stems([cause], names)
            named = stems & shared
            if len(named) >= max(_MIN_SHARED, len(stems) / 2):
                return RelationVerdict(Relation.CAUSE, f"'{connective}' with {_list(named)}")
    return None


def _causes(sentence: str) -> Iterator[tuple[str, str]]:
    """Each (connective, part of the sentence that it marks as the cause)."""
    for cue in _EFFECT_FIRST.finditer(sentence):
        yield cue.group(), sentence[cue.end() :]
    for cue in _CAUSE_FIRST.finditer(sentence):
        yield cue.group(), sentence[: cue.start()]


def _same_topic(pair: RelationPair, names: Sequence[str], settings: LinkSettings) -> RelationVerdict:
    common = _stems([pair.older.text], names) & _stems([pair.newer.text], names)
    least = settings.same_topic_words - (pair.similarity >= settings.same_topic_cosine)
    if common and len(common) >= least:
        return RelationVerdict(Relation.SAME_TOPIC, f"both tell of {_list(common)}")
    return RelationVerdict(None)


def _sentences(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from (part.group() for part in _SENTENCE.finditer(text))


def _words(sentence: str, names: Sequence[str]) -> list[CueWord]:
    known = tuple(names)
    return [CueWord(found.start(), _stems_of(found.group(), known)) for found in _WORD.finditer(sentence)]


@lru_cache(maxsize=65_536)
def _stems_of(word: str, names: tuple[str, ...]) -> frozenset[str]:
    bare = word.casefold().replace("’", "'").removesuffix("'s")
    if weight(bare) < _MIN_WEIGHT or bare in _GENERIC or bare.isdecimal() or (bare.isascii() and len(bare) < 3):
        return frozenset()
    return frozenset(terms(word, names))


def _stems(texts: Iterable[str], names: Sequence[str]) -> frozenset[str]:
    """The stems of all content words."""
    return frozenset(stem for text in texts for word in _words(text, names) for stem in word.stems)


def _near(sentence: str, cue: re.Match[str], shared: frozenset[str], names: Sequence[str]) -> frozenset[str]:
    """The shared stems at most `WINDOW` words before or after a cue."""
    words = _words(sentence, names)
    before = [word for word in words if word.start < cue.start()][-WINDOW:]
    after = [word for word in words if word.start >= cue.end()][:WINDOW]
    return frozenset(stem for word in (*before, *after) for stem in word.stems) & shared


def _list(stems: Iterable[str]) -> str:
    return ", ".join(sorted(stems)[:5])
