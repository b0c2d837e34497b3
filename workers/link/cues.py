"""Judges the relation of two memories without a language model, by shared words and English cues.

Finds a change that the speaker of both reports, a cause named by a connective, or a common topic. Every rule needs
content words that both memories share; if none applies there is no relation.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from eunoe.schemas.relations import Relation
from eunoe.workers.link.judge import RelationPair, RelationVerdict
from eunoe.workers.link.settings import LinkSettings
from eunoe.workers.text.bounds import MAX_SENTENCE_CHARS
from eunoe.workers.text.caches import cached_by_length, cached_by_word, total_chars
from eunoe.workers.text.guarded import GuardedPattern
from eunoe.workers.text.terms import terms
from eunoe.workers.text.words import weight

WINDOW = 5
"""Maximum of words between a cue of change and the word it is about."""
_MIN_SHARED = 2
_MIN_WEIGHT = 3
_MAX_CACHED_CHARS, _MAX_CACHED_NAMES = 40, 8
"""Length of a word, and number of names of at most 100 characters, up to which its stems are cached."""

_SENTENCE = re.compile(rf"[^.!?;\n]{{1,{MAX_SENTENCE_CHARS}}}")
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

_CHANGE = GuardedPattern(
    r"\b(?:no longer|(?:not|never|\w+n['’]t)\b[^,]{0,200}\bany ?more|stopped|quit|g(?:a|i)ve(?:n)? up|switched|"
    r"got rid of|sold|broke up|split up|divorced|moved (?:to|out|away|back|in)|replaced|recovered|healed|cancell?ed|"
    r"turned into|dropped out|retired|graduated|is over|instead of|converted)\b",
    re.IGNORECASE,
)
_EFFECT_FIRST = GuardedPattern(r"\b(?:because(?: of)?|due to|thanks to|as a result of|owing to)\b", re.IGNORECASE)
_CAUSE_FIRST = GuardedPattern(
    r"\b(?:that(?:'|’)?s why|that is why|which is why|led (?:me|us|him|her|them|\w+)? ?to|as a result|therefore|"
    r"for that reason|(?<=, )so (?:i|we|he|she|they)|(?<=, )so (?:i|we|he|she|they)(?:'|’)\w+)\b(?! of\b)",
    re.IGNORECASE,
)


_Cues = tuple[tuple[str, frozenset[str]], ...]


@dataclass(frozen=True, slots=True)
class TextCues:
    """A text as the rules see it; each text is read once and compared with several others."""

    stems: frozenset[str]
    """The stems of all content words."""
    changes: _Cues
    """Each cue of change with the stems at most `WINDOW` words before or after it."""
    causes: _Cues
    """Each connective with the stems of the part of its sentence that it marks as the cause."""


def judge_by_cues(pair: RelationPair, names: Sequence[str], settings: LinkSettings) -> RelationVerdict:
    """The first that applies of Changed, Cause, SameTopic; else no relation.

    The words of ``names`` (the speakers) are ignored.
    """
    known = tuple(names)
    older, newer = read_cues(pair.older.text, known), read_cues(pair.newer.text, known)
    lines = [(line, read_cues(line.text, known)) for line in pair.newer.evidence]
    shared = older.stems & newer.stems.union(*(cues.stems for _, cues in lines))
    if len(shared) >= _MIN_SHARED:
        own = [cues for line, cues in lines if line.speaker == pair.newer.speaker]
        same_speaker = pair.older.speaker == pair.newer.speaker
        found = (_changed(pair.older.text, [newer, *own], shared) if same_speaker else None) or _caused(
            [newer, *(cues for _, cues in lines)], shared
        )
        if found is not None:
            return found
    return _same_topic(older.stems & newer.stems, pair.similarity, settings)


def names_in(pairs: Iterable[RelationPair]) -> list[str]:
    """The speakers of all memories and evidence lines of the pairs, sorted."""
    memories = [memory for pair in pairs for memory in (pair.older, pair.newer)]
    lines = [line.speaker for memory in memories for line in memory.evidence]
    return sorted({*lines, *(memory.speaker for memory in memories)})


def _changed(older: str, texts: Iterable[TextCues], shared: frozenset[str]) -> RelationVerdict | None:
    """Changed if the same speaker reports a new change beside a word of the older memory."""
    old_cues = {cue.group().casefold() for cue in _CHANGE.finditer(older)}
    for cue, near in (change for text in texts for change in text.changes):
        close = near & shared
        if close and cue.casefold() not in old_cues:
            return RelationVerdict(Relation.CHANGED, f"'{cue}' beside {_list(close)}")
    return None


def _caused(texts: Iterable[TextCues], shared: frozenset[str]) -> RelationVerdict | None:
    """Cause if the newer memory names a cause that has half of its words in the older one."""
    for connective, stems in (cause for text in texts for cause in text.causes):
        named = stems & shared if len(stems) <= 2 * len(shared) else frozenset()
        if len(named) >= max(_MIN_SHARED, len(stems) / 2):
            return RelationVerdict(Relation.CAUSE, f"'{connective}' with {_list(named)}")
    return None


def _same_topic(common: frozenset[str], similarity: float, settings: LinkSettings) -> RelationVerdict:
    least = settings.same_topic_words - (similarity >= settings.same_topic_cosine)
    if common and len(common) >= least:
        return RelationVerdict(Relation.SAME_TOPIC, f"both tell of {_list(common)}")
    return RelationVerdict(None)


# the memories of a session come one after the other, and cite the same lines
@cached_by_length("cues", lambda text, names: len(text) + total_chars(names), 30, (2_000, 64), (70_000, 2))
def read_cues(text: str, names: tuple[str, ...]) -> TextCues:
    """The words and cues of a text, those of ``names`` ignored; a sentence over 1,000 characters is cut."""
    sentences = [found.group() for found in _SENTENCE.finditer(text)]
    return TextCues(
        stems=frozenset(stem for found in _WORD.finditer(text) for stem in _stems_of(found.group(), names)),
        changes=tuple(dict.fromkeys(cue for sentence in sentences for cue in _changes(sentence, names))),
        causes=tuple(dict.fromkeys(cue for sentence in sentences for cue in _causes(sentence, names))),
    )


def _changes(sentence: str, names: tuple[str, ...]) -> Iterator[tuple[str, frozenset[str]]]:
    cues = list(_CHANGE.finditer(sentence))
    starts, stems = _words(sentence, names) if cues else ([], [])
    for cue in cues:
        before, after = bisect_left(starts, cue.start()), bisect_left(starts, cue.end())
        near = (*stems[max(0, before - WINDOW) : before], *stems[after : after + WINDOW])
        yield cue.group(), frozenset().union(*near)


def _causes(sentence: str, names: tuple[str, ...]) -> Iterator[tuple[str, frozenset[str]]]:
    """The effect stands before "because", the cause before "therefore"."""
    effect_first, cause_first = list(_EFFECT_FIRST.finditer(sentence)), list(_CAUSE_FIRST.finditer(sentence))
    starts, stems = _words(sentence, names) if effect_first or cause_first else ([], [])
    after = _unions(stems[::-1], {len(stems) - bisect_left(starts, cue.end()) for cue in effect_first})
    for cue in effect_first:
        yield cue.group(), after[len(stems) - bisect_left(starts, cue.end())]
    before = _unions(stems, {bisect_left(starts, cue.start()) for cue in cause_first})
    for cue in cause_first:
        yield cue.group(), before[bisect_left(starts, cue.start())]


def _unions(parts: Sequence[frozenset[str]], counts: Collection[int]) -> dict[int, frozenset[str]]:
    """Count → the union of so many parts, the first ones."""
    found: dict[int, frozenset[str]] = {}
    union, start = frozenset[str](), 0
    for count in sorted(counts):
        union = found[count] = union.union(*parts[start:count])
        start = count
    return found


def _words(sentence: str, names: tuple[str, ...]) -> tuple[list[int], list[frozenset[str]]]:
    """Where each word begins, and its stems: none for a word that carries little meaning."""
    words = [(found.start(), _stems_of(found.group(), names)) for found in _WORD.finditer(sentence)]
    return [start for start, _ in words], [stems for _, stems in words]


def _stems_of(word: str, names: tuple[str, ...]) -> frozenset[str]:
    is_short = len(word) <= _MAX_CACHED_CHARS and len(names) <= _MAX_CACHED_NAMES
    return (_read_stems if is_short else _read_stems.__wrapped__)(word, names)


@cached_by_word(500, 8_192)
def _read_stems(word: str, names: tuple[str, ...]) -> frozenset[str]:
    bare = word.casefold().replace("’", "'").removesuffix("'s")
    if weight(bare) < _MIN_WEIGHT or bare in _GENERIC or bare.isdecimal() or (bare.isascii() and len(bare) < 3):
        return frozenset()
    return frozenset(terms(word, names))


def _list(stems: Iterable[str]) -> str:
    return ", ".join(sorted(stems)[:5])
