"""Profiles of model endpoints in memory."""


class MemoryProfiles:
    """In-memory `Profiles`."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    async def get(self, endpoint: str, /) -> str | None:
        """The profile under an endpoint's name."""
        return self._texts.get(endpoint)

    async def put(self, endpoint: str, text: str, /) -> None:
        """Store a profile."""
        self._texts[endpoint] = text
