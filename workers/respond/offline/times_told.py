"""Tells how far a sentence tells a time: a day, a month or an hour, or only a figure that may be one. English only."""

import re

from eunoe.workers.text.days import has_days

_TIME = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|ago|(?:last|next|this|past) \w+|week\w*|(?:months?|years?)(?! old)|"
    r"recently|since|"
    r"jan(?:uary)?|feb(?:ruary)?|march|apr(?:il)?|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|"
    r"dec(?:ember)?|(?:mon|tues|wednes|thurs|fri|"
    r"satur|sun)days?|summer|winter|spring|autumn|in may|may \d{1,2}|\d{1,2}(?:st|nd|rd|th)|noon|midnight|"
    r"\d{1,2} ?[ap]m|\d{1,2}:\d\d|(?:19|20)\d\d)\b",
    re.IGNORECASE,
)
_FIGURE = re.compile(r"\d")
FIGURE = 0.5
"""Share of a time that a figure without a word for one counts as: it may be a day, or an amount."""


def tells_time(text: str) -> bool:
    """Whether a text names a time in words, as a date or by the clock."""
    return _TIME.search(text) is not None or has_days(text)


def share_of_time(text: str) -> float:
    """1 where a text tells a time, `FIGURE` where it has a figure only, else 0."""
    if tells_time(text):
        return 1.0
    return FIGURE if _FIGURE.search(text) else 0.0
