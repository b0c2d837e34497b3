"""The weights of the features of a passage: for a question about one thing, and for one about many."""

from dataclasses import dataclass, replace

from eunoe.workers.respond.breadth import Breadth


@dataclass(frozen=True, slots=True)
class FeatureWeights:
    """The weight of each feature.

    Features that vary among candidates are z-scores, the others flags of 0 or 1. The weights are round numbers, the
    same for chats with an assistant and for talks among people, and not fitted to a data set.
    """

    words: float = 0.6
    """BM25, neighbours' words included."""
    around: float = 0.5
    """Cosine, neighbours' cosines included."""
    own: float = 0.3
    """Cosine of the passage itself."""
    session_words: float = 0.2
    """Best BM25 in the session."""
    session_near: float = 0.2
    """Best cosine in the session."""
    memory: float = 0.2
    """Best cosine of a memory that rests on the utterance."""
    named: float = 3.0
    """The question names its speaker, or what "you" said is asked for and it is another's."""
    asker: float = 1.0
    """The question is in the first person, and its speaker asks."""
    date: float = 3.0
    """The question names its time."""
    time_words: float = 0.6
    """It has a time, and the question asks for one."""
    numbers: float = 0.3
    """It has a number, and the question asks for one."""
    answer: float = 0.2
    """It follows another speaker's question."""
    question: float = 0.3
    """Subtracted if it is a question."""
    particulars: float = 0.2
    """For each name, for a time, and for the first person."""
    reaction: float = 0.3
    """Subtracted if it begins with a reaction."""
    states: float = 0.6
    """It states something of its speaker."""
    wish: float = 0.6
    """It is a wish of the asker, or of anybody if no asker is known."""
    instruction: float = 2.0
    """It is a standing instruction of the asker, or of anybody if no asker is known: it holds for every reply."""
    reply: float = 2.0
    """Subtracted if it is an earlier reply of the responder, which repeats others, unless replies are asked for."""
    long: float = 1.5
    """Subtracted for each e-fold of the utterance's tokens above `LONG_TOKENS`: the longer, the less of it counts."""
    length: float = 0.5
    """Subtracted for each e-fold of tokens of the passage."""
    opening: float = 0.0
    """It begins an utterance of the one who is asked about, or of anybody if it is to be summed up."""
    ending: float = 0.0
    """It ends a long utterance of somebody else, if it is to be summed up."""

    def of(self, breadth: Breadth) -> "FeatureWeights":
        """The weights for a question of this breadth.

        An order of events and a summary ask for what was begun, with its particulars: openings, also of long
        utterances, and no reactions. A summary is of what everybody said.
        """
        if breadth is Breadth.ONE:
            return self
        broad = replace(self, question=0.0, wish=0.0, instruction=0.0, particulars=0.5, opening=2.0)
        if breadth is Breadth.EVENTS:
            return replace(broad, own=0.0, reaction=1.0)
        return replace(broad, states=0.0, ending=2.0)
