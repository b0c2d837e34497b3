"""Addresses in messages: without user, password and query."""


def without_login(url: str) -> str:
    """A URL without user, password and query, for logs, errors and labels of metrics."""
    scheme, separator, rest = url.strip().partition("://")
    if not separator:
        scheme, rest = "", url.strip()
    shown = rest.rpartition("@")[2].partition("?")[0].partition("#")[0]
    return f"{scheme}{separator}{shown}"
