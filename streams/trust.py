"""The authorities that HTTPS servers are trusted by."""

import ssl
from functools import cache

import httpx2


@cache
def trusted_servers() -> ssl.SSLContext:
    """The context of connections to HTTPS servers, made once: ``SSL_CERT_FILE``, else the authorities of the system.

    To read the authorities takes 40 ms and more, in which an event loop does nothing else.
    """
    return httpx2.create_ssl_context()
