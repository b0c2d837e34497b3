"""Exceptions that all layers share."""


class EunoeError(Exception):
    """Base of all exceptions that eunoe raises on purpose; the text says what is wrong and what to do."""


class Unavailable(EunoeError):
    """A broker, store or model endpoint did not answer. Never the fault of a record: wait and try again.

    ``server`` names the server, equally in all faults of it, so that all waits for it share one log message.
    """

    def __init__(self, message: str, server: str = "a server") -> None:
        super().__init__(message)
        self.server = server


class AnswerInvalid(EunoeError):
    """A model's answer failed its checks; the text names the fault, for the correcting retry."""


class Refused(EunoeError):
    """A setting, a request or a state of the deployment that is not acceptable; nothing was changed."""


class TornRead(Unavailable):
    """Another process changed the state while it was read: read it again."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "a consistent read of the state")
