"""Exceptions that all layers share."""

from enum import StrEnum


class EunoeError(Exception):
    """Base of all exceptions that eunoe raises on purpose; the text says what is wrong and what to do."""


class Unavailable(EunoeError):
    """A broker, store or model endpoint did not answer. Never the fault of a record: wait and try again.

    ``server`` names the server, equally in all faults of it, so that all waits for it share one log message.
    """

    def __init__(self, message: str, server: str = "a server") -> None:
        super().__init__(message)
        self.server = server


class AnswerFault(StrEnum):
    """The reason why a question to a model has no valid answer."""

    UNREADABLE = "unreadable"
    """The answer is not of the form, or failed its checks. One correcting retry may help."""
    EMPTY = "empty"
    """The answer has no text."""
    CUT = "cut"
    """The answer was longer than the tokens that it was allowed."""
    TOO_LARGE = "too_large"
    """Prompt and answer are larger than the model's context or its largest output."""
    REFUSED = "refused"
    """The model or its content filter refused the content."""
    SLOW = "slow"
    """The time of the call or of the decision was over, and the endpoint answers other calls."""
    UNSUPPORTED = "unsupported"
    """The endpoint refused the request as such, in every form that was tried."""

    @property
    def asks_for_less(self) -> bool:
        """Whether a smaller question may be answered."""
        return self in (AnswerFault.CUT, AnswerFault.TOO_LARGE, AnswerFault.SLOW)

    @property
    def correctable(self) -> bool:
        """Whether the same question with the fault named may be answered."""
        return self in (AnswerFault.UNREADABLE, AnswerFault.EMPTY)

    @property
    def may_be_of_one_item(self) -> bool:
        """Whether one item among several may be the cause, so that the others alone may be answered."""
        return self in (AnswerFault.REFUSED, AnswerFault.UNREADABLE, AnswerFault.EMPTY)


class AnswerInvalid(EunoeError):
    """A question has no valid answer; the text names the fault, for the correcting retry."""

    def __init__(self, message: str, fault: AnswerFault = AnswerFault.UNREADABLE, partial: str = "") -> None:
        super().__init__(message)
        self.fault = fault
        self.partial = partial
        """The text of an answer that was cut off or is not of the form."""


class Refused(EunoeError):
    """A setting, a request or a state of the deployment that is not acceptable; nothing was changed."""


class RequestRefused(Refused):
    """A request that is at fault itself: no other settings and no waiting make it acceptable."""


class ErasedAlready(RequestRefused):
    """Nothing was said in a conversation since all of it was erased."""


class Misconfigured(Refused, Unavailable):
    """A server answers, and refuses the login, the certificate or the address of the settings.

    It is `Refused` at start. To a running stage it is `Unavailable`: a login may change while the stage waits.
    """


class StateLost(Unavailable):
    """State of one conversation is lost or damaged: no waiting brings it back, `eunoe repair` derives it again."""


class SnapshotLost(StateLost):
    """The cold store answers, and lacks the snapshot of a conversation or has it damaged."""


class FileUnreadable(Unavailable):
    """A store of files answers, and one of its files gives a fault when it is read."""


class StateDamaged(StateLost):
    """Redis answers, and what stands there of a conversation is not what was written."""


class NewerVersion(Unavailable):
    """State or an event that a newer version of eunoe wrote: wait for the deploy, and leave it as it is."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "the rolling deploy")


class TornRead(Unavailable):
    """Another process changed the state while it was read: read it again."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "a consistent read of the state")
