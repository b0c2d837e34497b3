"""Matching of texts with gold: words that must and must not stand there, script, abstention."""

import re
from collections.abc import Iterable, Sequence

_SCRIPTS = {
    "latin": re.compile(r"[A-Za-zÀ-ɏ]"),
    "han": re.compile(r"[\u4e00-\u9fff]"),
    "hangul": re.compile(r"[\uac00-\ud7a3]"),
    "kana": re.compile(r"[\u3040-\u30ff]"),
    "arabic": re.compile(r"[\u0600-\u06ff]"),
}
_LETTER = re.compile(r"[^\W\d_]")
_LEAST_SHARE = 0.4
_ABSTENTIONS = (
    "remember|recall|don't know|do not know|not sure|no record|haven't told|have not told|didn't mention|not mentioned"
    "|never mentioned|haven't mentioned|have not mentioned|did not mention|no memory|don't have|do not have|unsure"
    "|erinner|weiß nicht|weiß ich nicht|nicht erwähnt|nicht gesagt|nicht erzählt|nie erzählt|keine ahnung|nicht bekannt"
    "|기억|모르|못 들|들은 적|말씀하신 적|말한 적|알지 못"
    "|不记得|记不|不知道|没有提|没提|没说|没有说|不清楚|没听|没有告诉"
    "|no recuerdo|no me acuerdo|no sé|no lo sé|no me dijiste|no mencion"
    "|覚えて|わかりません|分かりません|知りません|聞いて"
    "|لا أتذكر|لا أذكر|لا أعرف|لم تذكر|لم تخبر"
)


def has(text: str, words: str) -> bool:
    """Whether a text has one of the alternatives in ``words``, which ``|`` parts; case does not matter."""
    folded = _plain(text)
    return any(_plain(one) in folded for one in words.split("|"))


def _plain(text: str) -> str:
    return " ".join(text.casefold().replace("\u2019", "'").split())


def word_faults(text: str, words: Sequence[str], banned: Sequence[str]) -> list[str]:
    """The words that are missing, and those that must not stand there."""
    return [f"lacks {one!r}" for one in words if not has(text, one)] + [
        f"has {one!r}" for one in banned if has(text, one)
    ]


def script_fault(texts: Iterable[str], script: str | None) -> list[str]:
    """The fault of texts that are not in the script."""
    if script is None:
        return []
    joined = " ".join(texts)
    letters = len(_LETTER.findall(joined))
    share = len(_SCRIPTS[script].findall(joined)) / letters if letters else 1.0
    return [] if share >= _LEAST_SHARE else [f"is not in the script {script}"]


def abstains(text: str) -> bool:
    """Whether a reply says that it does not remember."""
    return has(text, _ABSTENTIONS)
