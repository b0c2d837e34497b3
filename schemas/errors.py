"""Faults that every layer understands."""


class EunoeError(Exception):
    """Base of all faults that eunoe raises on purpose; its text says what was wrong and what to do."""


class Unavailable(EunoeError):
    """A server did not answer: broker, store or model endpoint. Never a record's fault: wait and try again.

    ``server`` names it, the same for all faults of one server: those who wait for it speak with one voice.
    """

    def __init__(self, told: str, server: str = "a server") -> None:
        super().__init__(told)
        self.server = server


class AnswerInvalid(EunoeError):
    """A model's answer failed its checks; the text names the fault, for the correcting retry."""


class Refused(EunoeError):
    """A setting or a state of the deployment that must not be used; nothing was changed."""


class TornRead(Unavailable):
    """State that another process changed while it was read: begin again, with what stands now."""

    def __init__(self, told: str) -> None:
        super().__init__(told, "state that stands still")
