"""A conversation of five sessions whose memories contradict, follow and repeat each other."""

from eunoe.schemas.events import Ask, ConversationEvent
from tests.support.in_memory import ended, utterance

TOLD = (
    "I quit my job at the hospital because of the night shifts. My sister Clara is getting married in June.",
    "I found a new job at the library in Oslo. Clara broke her leg, so the wedding is put off.",
    "I started a new job at the hospital in Bergen again. Clara and I went to the wedding shop.",
    "I quit the job at the hospital because I was tired. Clara married in June.",
    "I am tired of the hospital job in Bergen, so I bought a small boat. Clara moved to Bergen.",
)


def talk(name: str = "c", *, asks: bool = True) -> list[ConversationEvent]:
    """The events, in log order, with an asked turn in each session."""
    events: list[ConversationEvent] = []
    for session, text in enumerate(TOLD):
        ask = {"ask": Ask(request_id=f"{name}-{session}")} if asks else {}
        events += [
            utterance(4 * session + 1, text, conversation=name),
            utterance(4 * session + 2, "Tell me more about it.", conversation=name),
            utterance(4 * session + 3, "Where do I work now?", conversation=name, **ask),
            ended(conversation=name),
        ]
    return events
