"""Addresses in messages: without user, password and query."""

import re
from typing import Final
from urllib.parse import urljoin, urlsplit

_PLACE: Final = re.compile(r"https?://[A-Za-z0-9._~%:\[\]-]{1,260}")


def without_login(url: str) -> str:
    """A URL without user, password and query, for logs, errors and labels of metrics."""
    scheme, separator, rest = url.strip().partition("://")
    if not separator:
        scheme, rest = "", url.strip()
    shown = rest.rpartition("@")[2].partition("?")[0].partition("#")[0]
    return f"{scheme}{separator}{shown}"


def redirect_target(location: str | None, url: str) -> str | None:
    """The scheme and host that a redirection of ``url`` points to, for messages; `None` where it names no place.

    ``location``: the header of that name. Paths and queries may hold what was asked, or a secret.
    """
    if not location:
        return None
    try:
        asked, target = urlsplit(url), urlsplit(urljoin(url, location))
    except ValueError:
        return None
    host = target.netloc.rpartition("@")[2]
    place = f"{target.scheme}://{host}"
    if (target.scheme, host) == (asked.scheme, asked.netloc.rpartition("@")[2]):
        return "another path of the same server"
    return place if _PLACE.fullmatch(place) else None
