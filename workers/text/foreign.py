"""Sentences that are not English, however short: by their letters, or by the commonest words of other languages.

A denial is among these words in each of the languages: two sentences of which one denies the other are never taken for
English ones.
"""

import re

from eunoe.workers.text.terms import STOPWORDS, composed

# none that is seen in English chats too, in lower case: im, em, ya, yo, soy, med, con, mi, en
_COMMONEST = (
    # German, Dutch
    "ich wir ihr nicht nichts kein keine keinen keiner keinem nie niemals niemand und oder aber das dem des ein "
    "eine einen einem mein meine meinen meinem meiner ist sind habe haben mit für zu am auf bei nach seit "
    "noch schon jetzt jij het een niet niets geen nooit mijn heb naar voor ook "
    # French
    "je tu il elle nous vous ne pas jamais rien aucun aucune est suis les des une mes avec dans qui que chez "
    "ou aux sur "
    # Spanish, Portuguese, Catalan
    "nunca jamás tampoco nadie ninguno ninguna ni el los las una mis está tengo para pero muy eu "
    "não nem ninguém já um uma meu minha meus minhas sou tenho "
    # Italian, Romanian
    "non mai niente nessuno nessuna più lo gli mio mia miei sono di che del della nu nici "
    # Swedish, Norwegian, Danish, Finnish
    "jag inte aldrig ingen inget inga och är har på för det som jeg ikke aldri intet og ei olen ja "
    # Polish, Czech, Croatian, Turkish, Hungarian, Indonesian, Vietnamese
    "nigdy nic żaden się już nikdy není jsem nikada nisam nije je bir değil hiç yok ve nem soha nincs és "
    "vagyok tidak bukan belum saya không chưa tôi là "
)
_OTHERS = frozenset(_COMMONEST.split()) - STOPWORDS
_ENGLISH = STOPWORDS - set("a am an as at do her i in me no of on so to was we".split())  # noqa: SIM905
"""English words that are no words of those languages."""
_QUOTED = re.compile(r'\A[^"]{1,110}? said: "(?P<what>.*)"\Z', re.DOTALL)
_LETTERS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_ELIDED = re.compile(r"\A(?:n|j|qu|d|l)['’](?=\w\w)", re.IGNORECASE)
_LATIN_END = "\u024f"
_MAX_CHARS = 1_000


def is_foreign(text: str, speaker: str) -> bool:
    """Whether a sentence that ``speaker`` said, or that tells of them, is not English.

    Most of its letters are not Latin, or it has more of the commonest words of other languages than English ones.
    """
    text = composed(text)
    quoted = _QUOTED.match(text)
    names = set(map(str.casefold, _LETTERS.findall(composed(speaker))))
    said = (text if quoted is None else quoted["what"])[:_MAX_CHARS]
    words = [word for word in _LETTERS.findall(said) if word.casefold() not in names]
    if quoted is not None and words[:1] and said.lstrip().startswith(words[0]):
        words[0] = words[0].lower()  # a capital begins a sentence; elsewhere it is a name
    if not said.isascii() and 2 * sum([len(one) for one in words if one[0] > _LATIN_END]) > sum(map(len, words)):
        return True
    foreign = sum([one in _OTHERS or (not one.isalpha() and _ELIDED.match(one) is not None) for one in words])
    return foreign > 0 and foreign > sum([one.lower().replace("’", "'") in _ENGLISH for one in words])
