"""The offline operator's rules for English sentences: strict, APPEND in doubt."""

import re
from collections.abc import Callable, Sequence, Set

from eunoe.workers.text.vital import is_vital
from eunoe.workers.update.english.completion import completed, telling
from eunoe.workers.update.english.contradiction import SUSPICION_THRESHOLD, find_contradiction
from eunoe.workers.update.english.figures import changed_measure, older
from eunoe.workers.update.english.holders import has_died
from eunoe.workers.update.english.lexicon import ANTONYMS, HEALTH, HEALTH_DENIED, PARTNERS
from eunoe.workers.update.english.parsing import ParsedSentence, parse_sentence
from eunoe.workers.update.english.slots import changed_slot, marital, quit_something, slots
from eunoe.workers.update.english.transitions import first_time, habit_ended, last_word, matter_settled, state_changed
from eunoe.workers.update.operator import Operation, OperationPair, OperationVerdict

COVERED = 0.8
SHORT = 7
FEW = 3
"""Most telling words of an old sentence that the denial of its last one ends, where it is said to be over."""
OVER = re.compile(r"\b(?:any ?more|no longer)\b")
SAID = "it is said already"
SAID_WITH_MORE = "the new sentence says all of it and more"
Rule = Callable[[ParsedSentence, ParsedSentence], OperationVerdict | None]


def judge_by_rules(pair: OperationPair) -> OperationVerdict:
    """The verdict for one pair; APPEND if no rule applies, flagged if the two may contradict each other."""
    old, new = parse_sentence(pair.old.text, pair.old.speaker), parse_sentence(pair.new.text, pair.new.speaker)
    found = decide(old, new)
    if found is not None:
        return found
    score, cue = find_contradiction(pair.old.text, pair.new.text, pair.new.speaker)
    flagged = score >= SUSPICION_THRESHOLD and (not _closed(old) or _begins(old)) and new.may_be_of(old)
    if not flagged and _has_parted(old, new):
        flagged, cue = True, "they have parted"
    change = "" if flagged else _also_changed(old, new)
    if change:
        flagged, cue = True, change
    return OperationVerdict(Operation.APPEND, cue if flagged else "nothing says otherwise", suspect=flagged)


def _also_changed(old: ParsedSentence, new: ParsedSentence) -> str:
    """Describes the state that the new sentence changes or ends, where the old one tells more than that; else empty."""
    if new.planned or new.wished or new.looks_back or old.planned or not new.may_be_of(old):
        return ""
    return changed_slot(old, new) or _change_of(old, new) or quit_something(old, new)


def _has_parted(old: ParsedSentence, new: ParsedSentence) -> bool:
    """Whether the old sentence tells of a partner, and the new one that its speaker has none any more."""
    if marital(new) != "apart" or new.other or new.planned or new.wished:
        return False
    return any(word.text.removesuffix("'s") in PARTNERS for word in old.words) and not _closed(old)


def says_all_of(pair: OperationPair) -> bool:
    """Whether the rules find that the new sentence says all that the old one says, and nothing against it."""
    old, new = parse_sentence(pair.old.text, pair.old.speaker), parse_sentence(pair.new.text, pair.new.speaker)
    if old.plain == new.plain:
        return True
    found = decide(old, new)
    return found is not None and found.because in {SAID, SAID_WITH_MORE} and _has_all(new, old)


def decide(old: ParsedSentence, new: ParsedSentence) -> OperationVerdict | None:
    """The verdict of the strict rules; `None` if none applies, so that both stay."""
    if old.plain == new.plain:
        return OperationVerdict(Operation.PASS, "the same words")
    if new.foreign:
        return None
    # most old sentences are under no rule: what may forbid one is asked last, for each takes as long as the rules
    found = _completed(old, new) or _died(old, new) or _first_verdict(old, new)
    return None if found is None or old.foreign else found


def _first_verdict(old: ParsedSentence, new: ParsedSentence) -> OperationVerdict | None:
    if new.looks_back or not (old.stems and new.stems):
        return None
    for rule in _OPEN:
        verdict = rule(old, new)
        if verdict is not None and _applies(rule, old):
            return verdict if new.may_be_of(old) else None
    return None


def _applies(rule: Rule, old: ParsedSentence) -> bool:
    """Whether a rule is for old sentences of this kind: few are for those that later ones cannot make untrue."""
    if not _closed(old) or rule in {_settled, _contained}:
        return True
    return rule is _slot and _begins(old)


def _closed(old: ParsedSentence) -> bool:
    """Whether later sentences cannot make it untrue: a past event, or a stance."""
    return not old.planned and (old.stance or (old.past and old.dated))


def _begins(old: ParsedSentence) -> bool:
    """Whether a past event began a state that may have ended since: a home, a job, a marriage."""
    return not old.stance and (any(slot.changes for slot in slots(old)) or bool(marital(old)))


def _completed(old: ParsedSentence, new: ParsedSentence) -> OperationVerdict | None:
    """DELETE if a trouble or a pending matter of a short old sentence is over."""
    if new.planned or new.wished or new.looks_back or max(len(old.stems), len(new.stems)) > SHORT:
        return None
    because = completed(old, new)
    return OperationVerdict(Operation.DELETE, because) if because else None


def _died(old: ParsedSentence, new: ParsedSentence) -> OperationVerdict | None:
    """REPLACE if the pet that a short old sentence names has died: the new one is about the pet, not its owner."""
    because = has_died(old, new) if old.size <= SHORT else ""
    return OperationVerdict(Operation.REPLACE, because) if because else None


def _contained(old: ParsedSentence, new: ParsedSentence) -> OperationVerdict | None:
    """PASS or REPLACE if one says all that the other says, with the same negations and numbers."""
    shared = old.stems & new.stems
    said = len(shared) >= COVERED * len(new.stems) and new.numbers <= old.numbers
    if len(new.stems) == 1 and new.past and not new.all_stems <= old.all_stems:
        said = False  # "got the job" is no repetition of "applied for a job"
    said = said and _names_all(old, new) and new.denials <= old.denials and not _exchanged(old, new)
    if not (said or (len(old.stems) >= 2 and _has_all(new, old))) or _conflict(old, new, shared):
        return None
    return OperationVerdict(Operation.PASS, SAID) if said else OperationVerdict(Operation.REPLACE, SAID_WITH_MORE)


def _names_all(old: ParsedSentence, new: ParsedSentence) -> bool:
    """Whether the old sentence has every name of the new one: another place or person is no detail."""
    return new.named <= {word.text.partition("'")[0] for word in old.words}


def _exchanged(old: ParsedSentence, new: ParsedSentence, but: Set[str] = frozenset()) -> bool:
    """Whether each has a telling word, ``but`` for some, that the other lacks: one thing stands in another's place."""
    return bool(telling(old) - new.stems - but and telling(new) - old.stems - but)


def _has_all(new: ParsedSentence, old: ParsedSentence) -> bool:
    told = new.all_stems
    return old.stems <= told and old.numbers <= new.numbers and old.all_stems <= told  # what is known already first


def _conflict(old: ParsedSentence, new: ParsedSentence, shared: frozenset[str]) -> bool:
    if old.planned != new.planned or old.looks_back != new.looks_back:
        return True
    return bool((old.negated ^ new.negated) & shared) or bool(
        old.numbers and new.numbers and old.numbers != new.numbers
    )


def _done(old: ParsedSentence, new: ParsedSentence) -> OperationVerdict | None:
    """REPLACE if a plan has been carried out, about the same object."""
    if len(old.stems) > SHORT or new.planned or new.wished or not (new.past or new.negated) or not old.planned:
        return None
    shared = old.stems & new.stems
    if len(shared) >= 2 and len(shared) >= 0.6 * len(old.stems):
        return OperationVerdict(Operation.REPLACE, f"a plan has come about: {_list(shared)}")
    return None


def _healthy(old: ParsedSentence, new: ParsedSentence) -> OperationVerdict | None:
    """PASS if good health is claimed again, REPLACE if it is over."""
    if len(old.stems) > SHORT or not HEALTH_DENIED.search(old.plain):
        return None
    if HEALTH_DENIED.search(new.plain):
        return OperationVerdict(Operation.PASS, "good health is known") if len(new.stems) <= 2 else None
    ailing = (new.stems & HEALTH) - new.negated
    if ailing and not new.planned and not new.other:
        return OperationVerdict(Operation.REPLACE, f"not in good health any more: {_list(ailing)}")
    return None


def _negated(old: ParsedSentence, new: ParsedSentence) -> OperationVerdict | None:
    """REPLACE if the new sentence denies half of a short old one, or affirms what that denied."""
    if len(old.stems) > SHORT or new.wished or old.planned != new.planned:
        return None
    affirmed = old.stems - old.negated
    denied = affirmed & new.negated
    if denied and not old.negated and len(denied) >= max(0.5 * len(affirmed), min(2, len(affirmed))):
        return OperationVerdict(Operation.REPLACE, f"it is no longer so: {_list(denied)}")
    if denied and not old.negated and len(affirmed) <= FEW and OVER.search(new.plain) and last_word(old) in denied:
        return OperationVerdict(Operation.REPLACE, f"it is over: {_list(denied)}")
    restored = old.negated & (new.stems - new.negated)
    if restored and not new.negated and len(restored) >= max(0.5 * len(old.stems), min(2, len(old.stems))):
        return OperationVerdict(Operation.REPLACE, f"it is so now: {_list(restored)}")
    return None


def _antonym(old: ParsedSentence, new: ParsedSentence) -> OperationVerdict | None:
    """REPLACE if both use opposite words about a shared object."""
    if len(old.stems) > SHORT or new.planned or new.wished or new.negated or old.negated or old.planned:
        return None
    shared = old.stems & new.stems
    for one in sorted(old.stems - shared):
        for other in sorted(new.stems - shared):
            if (one, other) not in ANTONYMS or _exchanged(old, new, {one, other}):
                continue
            if len(shared) >= max(1, 0.5 * (len(old.stems) - 1)):
                return OperationVerdict(Operation.REPLACE, f"{one!r} has become {other!r} of {_list(shared)}")
    return None


def _slot(old: ParsedSentence, new: ParsedSentence) -> OperationVerdict | None:
    """REPLACE if a slot has another value: home, job, marital state, favourite."""
    if new.planned or new.wished:
        return None
    change = changed_slot(old, new)
    if not change or old.size > SHORT or old.planned or _tells_another_thing(old, new, changed_slot):
        return None
    return OperationVerdict(Operation.REPLACE, change)


def _tells_another_thing(
    old: ParsedSentence, new: ParsedSentence, changed: Callable[[ParsedSentence, ParsedSentence], str]
) -> bool:
    """Whether a clause of the old sentence is not ``changed``: it would be hidden with what is."""
    parts = _AND.split(old.plain)
    if any(map(is_vital, _REASON.split(old.plain)[1:])):  # a death that is the reason stays
        return True
    if len(parts) == 1:
        return False
    clauses = [parse_sentence(part, "") for part in parts[:_MAX_CLAUSES]]
    return any(len(one.stems) >= _CLAUSE_STEMS and not changed(one, new) for one in clauses)


def _settled(old: ParsedSentence, new: ParsedSentence) -> OperationVerdict | None:
    """DELETE if a search, a wait or a preparation of a short old sentence is over."""
    if len(old.stems) > SHORT or new.planned or new.wished:
        return None
    because = matter_settled(old, new)
    return OperationVerdict(Operation.DELETE, because) if because else None


def _changed(old: ParsedSentence, new: ParsedSentence) -> OperationVerdict | None:
    """REPLACE if a state of a short old sentence has ended in its usual way, or somebody is older now."""
    if len(old.stems) > SHORT or new.planned or new.wished:
        return None
    because = _change_of(old, new)
    if not because or _tells_another_thing(old, new, _change_of):
        return None
    return OperationVerdict(Operation.REPLACE, because)


def _change_of(old: ParsedSentence, new: ParsedSentence) -> str:
    """Describes the change of a state that the new sentence tells of; empty if there is none."""
    reasons = (state_changed, older, changed_measure, habit_ended, first_time)
    return next((reason for find in reasons if (reason := find(old, new))), "")


_AND = re.compile(r",? and (?:then )?")
_REASON = re.compile(r",? (?:because|since|after) ")
_CLAUSE_STEMS = 2
"""Content words of a clause that tells something by itself: "works at the museum", not "her sister"."""
_MAX_CLAUSES = 8

_OPEN: Sequence[Rule] = (_settled, _done, _changed, _slot, _contained, _healthy, _negated, _antonym)
"""The rules for an old sentence that may cease to hold, in the order of their application."""


def _list(stems: frozenset[str]) -> str:
    return ", ".join(sorted(stems)[:5])
