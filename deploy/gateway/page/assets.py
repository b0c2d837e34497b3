"""The files of the page, and the responses that carry them."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from starlette.responses import Response

PAGE_PATH: Final = "/"
FILES_PATH: Final = "/page/"
"""Prefix of the addresses of all files but the document itself."""
_DOCUMENT: Final = "index.html"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
"""The page loads nothing from elsewhere, and text never becomes markup or a script."""
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page."""

    name: str
    type: str
    content: bytes
    etag: str

    def response(self, if_none_match: str = "", *, body: bool = True) -> Response:
        """The file; 304 where the browser has it, without its content where ``body`` is false."""
        headers = {**HEADERS, "ETag": self.etag}
        known = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
        if self.etag in known or "*" in known:
            return Response(status_code=304, headers=headers)
        if not body:
            return Response(headers={**headers, "Content-Length": str(len(self.content))}, media_type=self.type)
        return Response(self.content, headers=headers, media_type=self.type)


@cache
def assets() -> dict[str, Asset]:
    """Address → file."""
    found = {}
    for file in files(__package__).iterdir():
        type_ = _TYPES.get("." + file.name.rpartition(".")[2])
        if type_ is not None:
            content = file.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
            path = PAGE_PATH if file.name == _DOCUMENT else FILES_PATH + file.name
            found[path] = Asset(file.name, type_, content, etag)
    return found
