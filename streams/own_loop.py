"""The event loop of a connection: in another one its calls would hang, or fail now and then."""

import asyncio


class OwnLoop:
    """The event loop in which a connection is used first."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def check(self) -> None:
        """Raise ``RuntimeError`` in another event loop."""
        running = asyncio.get_running_loop()
        self._loop = self._loop or running
        if self._loop is not running:
            raise RuntimeError(
                "this connection belongs to another event loop: open one in each; every asyncio.run() and every thread"
                " has a loop of its own"
            )
