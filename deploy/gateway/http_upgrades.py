"""Requests that ask for another protocol, answered as if they did not: HTTP lets a server do so (RFC 9110, 7.8).

The parser takes what follows the head of such a request for the other protocol. So its body would be lost, and every
POST of a client that asks for HTTP/2 where it may, as Java's own does, would have none.
"""

import sys

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class IgnoredUpgrades(HttpToolsProtocol):
    """A connection that reads the head of a request with an ``Upgrade`` once more, without that header."""

    _asked = False
    """Whether the message that is read now asks for another protocol."""
    _read = b""
    """The bytes that the parser was given last."""

    def data_received(self, data: bytes) -> None:
        """Hand the bytes to the parser."""
        self._read = data
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """Begin the answer, unless the head is read once more."""
        self._asked = self.parser.should_upgrade() and any(name == b"upgrade" for name, _ in self.headers)
        if not self._asked:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End the message, unless its head is read once more."""
        if not self._asked:
            super().on_message_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Read the head once more, and what is behind it; uvicorn would warn, where a client has done nothing wrong."""
        stop = sys.exception()
        if not self._asked or stop is None:
            return  # CONNECT, which is answered
        rest = self._read[stop.args[0] :]
        headers = b"".join(b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade")
        version = self.parser.get_http_version().encode()
        head = b"%b %b HTTP/%b\r\n%b\r\n" % (self.parser.get_method(), self.url, version, headers)
        IgnoredUpgrades.data_received(self, head + rest)
