"""Words as people write them in haste, spelled as the other rules read them. English only."""

import re

_SPELLED = {
    "i": "I", "i'm": "I'm", "i've": "I've", "i'll": "I'll", "i'd": "I'd", "im": "I'm", "ive": "I've", "dont": "don't",
    "doesnt": "doesn't", "didnt": "didn't", "cant": "can't", "isnt": "isn't", "arent": "aren't", "wasnt": "wasn't",
    "havent": "haven't", "hasnt": "hasn't", "couldnt": "couldn't",
}  # fmt: skip
"""Words as people write them in haste → as they are spelled."""
_HASTY = re.compile(
    r"(?<![\w.'’*/-])(?:i['’](?:m|ve|ll|d)|i(?![.'’*/)-]|\w)|[Ii]m(?= [a-z0-9])|[Ii]ve(?= )|"
    r"(?:do|does|did|is|are|was|have|has|could|ca)nt(?=\W|\Z))"
)


def spelled(sentence: str) -> str:
    """The sentence with a capital I and with apostrophes: "i dont" is "I don't"."""
    return _HASTY.sub(lambda found: _SPELLED.get(found.group().lower().replace("’", "'"), found.group()), sentence)
