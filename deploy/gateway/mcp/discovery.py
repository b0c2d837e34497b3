"""Discovery of the authorization server by agents: OAuth 2.0 Protected Resource Metadata (RFC 9728)."""

import re
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from eunoe.deploy.gateway.credentials import TokenChecker
from eunoe.deploy.gateway.keys import KeyScope
from eunoe.schemas.base import Value

METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
_HOST: Final = re.compile(r"[A-Za-z0-9._\-\[\]:]{1,300}")
_SCOPES: Final = (KeyScope.MEMORY_READ, KeyScope.EVENTS_WRITE, KeyScope.ASK)
"""The scopes that a client should ask for; the one to erase is for those who want it."""


class ResourceMetadata(Value):
    """The metadata of the tools' address."""

    resource: str
    """The identifier that tokens must name as their audience."""
    authorization_servers: tuple[str, ...]
    scopes_supported: tuple[str, ...] = (*_SCOPES, KeyScope.ERASE)
    bearer_methods_supported: tuple[str, ...] = ("header",)
    resource_name: str = "eunoe memory"


def is_metadata_path(path: str) -> bool:
    """Whether metadata are asked for, with or without the path of the resource behind."""
    return path == METADATA_PATH or path.startswith(f"{METADATA_PATH}/")


def resource_metadata(tokens: TokenChecker | None, request: Request, path: str) -> ResourceMetadata | None:
    """The metadata of the tools at ``path``; `None` where no authorization server is known by its address.

    The resource is the required audience where that is an address, else the address to which the request went.
    """
    if tokens is None or not _is_address(tokens.issuer):
        return None
    resource = tokens.audience if _is_address(tokens.audience) else f"{_origin(request)}{path}"
    return ResourceMetadata(resource=resource, authorization_servers=(tokens.issuer,))


def challenge(metadata: ResourceMetadata | None) -> str:
    """The header ``WWW-Authenticate`` of a request without a valid credential."""
    if metadata is None:
        return "Bearer"
    where = urlsplit(metadata.resource)
    document = f"{where.scheme}://{where.netloc}{METADATA_PATH}{where.path.rstrip('/')}"
    return f'Bearer resource_metadata="{document}", scope="{" ".join(_SCOPES)}"'


def _is_address(text: str) -> bool:
    return text.startswith(("https://", "http://"))


def _origin(request: Request) -> str:
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):  # it is repeated in a header
        name, port = request.scope.get("server") or ("localhost", None)
        host = name if port is None else f"{name}:{port}"
    return f"{request.scope['scheme']}://{host}"
