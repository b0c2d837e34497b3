"""Holders of a role for somebody, as their doctor or boss, and pets that they have by name. English cues."""

import re

from eunoe.workers.update.english.parsing import ParsedSentence, cached_by_sentence

_ROLE = r"(?P<role>doctor|gp|dentist|therapist|vet|boss|manager|landlord|landlady|supervisor)"
_HELD = re.compile(
    rf"\b(?P<whose>[\w'’-]{{1,60}}) {_ROLE}(?:['’]s name)? is (?:now )?(?:called |named )?"
    r"(?:(?-i:[A-Z])\w|(?:dr|mrs?|ms)\b)",
    re.IGNORECASE,
)
_IS = re.compile(rf"(?-i:[A-Z])\w{{1,30}} is (?:now )?(?P<whose>[\w'’-]{{1,60}}) {_ROLE}\b", re.IGNORECASE)
_NEW = re.compile(
    rf"(?:\b(?:has|have|['’]ve|got|found)(?: got)? a|(?P<whose>[\w'’-]{{1,60}})|\A) ?\bnew {_ROLE}\b", re.IGNORECASE
)
_HAD = re.compile(
    r"\b(?:has|have|['’]ve got|got|adopted|owns?|keeps?) (?:an?|one) [^.!?]{1,60}?\b(?:called|named|name is) "
    r"(?P<name>[\w'-]{1,30})"
)
_DIED = re.compile(
    r"\b(?P<name>[\w'-]{1,30}) (?:has |had )?(?:just |sadly |recently )?"
    r"(?:died|passed away|(?:was|to be) put (?:down|to sleep))\b"
)


def has_died(old: ParsedSentence, new: ParsedSentence) -> str:
    """The reason, where the old sentence says that its speaker has somebody by a name, who has died since."""
    if old.other or new.planned or new.wished:
        return ""
    died = _dead(new)
    return "it has died" if died and any(one["name"] in died for one in _HAD.finditer(old.plain)) else ""


@cached_by_sentence
def _dead(text: ParsedSentence) -> frozenset[str]:
    return frozenset(found["name"] for found in _DIED.finditer(text.plain))


def another_holder(old: ParsedSentence, new: ParsedSentence) -> str:
    """The reason, where the old sentence names who holds a role for the speaker, and the new one tells of a new one."""
    fresh = _new_roles(new)
    if not fresh or new.negated:
        return ""
    role = next((role for role in _held_roles(old) if role in fresh), "")
    return f"another {role}" if role else ""


@cached_by_sentence
def _new_roles(text: ParsedSentence) -> frozenset[str]:
    """The roles of which a sentence says that its speaker has a new holder."""
    return frozenset(
        found["role"].lower()
        for found in _NEW.finditer(text.body)
        if found["whose"] is None or _is_own(found["whose"], text)
    )


@cached_by_sentence
def _held_roles(text: ParsedSentence) -> tuple[str, ...]:
    """The roles of the speaker whose holder a sentence names."""
    found = (one for pattern in (_HELD, _IS) for one in pattern.finditer(text.body))
    return tuple(one["role"].lower() for one in found if _is_own(one["whose"], text))


def _is_own(whose: str, text: ParsedSentence) -> bool:
    owners = {"my", "our", "their", *(f"{part}'s" for part in text.speaker.casefold().split())}
    return whose.casefold().replace("’", "'") in owners
