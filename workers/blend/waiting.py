"""Time limits of turns that wait for memory of the previous session."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from eunoe.schemas.decisions import Work
from eunoe.schemas.events import ReplyRequested
from eunoe.workers.blend.settings import BlendSettings

REMEMBERED = 10_000


@dataclass(slots=True)
class TurnWaits:
    """Tracks how long each conversation's turns have waited. ``clock`` returns seconds.

    A turn that asks for a reply has a limit of its own. All others of a conversation share one, which restarts when
    memory makes progress. If memory makes none (a held conversation), they wait that long once, not at every turn, and
    do not block other conversations of the partition.
    """

    settings: BlendSettings
    clock: Callable[[], float]
    _since: OrderedDict[tuple[str, bool], tuple[int, float]] = field(default_factory=OrderedDict)
    """(conversation, whether a reply is wanted) → (the turn, or the last session known; start time)."""

    def is_expired(self, work: Work[ReplyRequested], known: int) -> bool:
        """Whether the turn goes on without memory, which is ready up to session ``known``."""
        wanted = work.event.reply_wanted
        limit = self.settings.wait_s if wanted else self.settings.wait_unasked_s
        if not limit:
            return False
        now = self.clock()
        mark, since = self._since.get((work.key, wanted), (None, now))
        if mark != (fresh := work.number if wanted else known):
            since = now
        self._remember((work.key, wanted), (fresh, since))
        return now - since >= limit

    def forget(self, key: str) -> None:
        """Forget the waits of a conversation whose memory is ready."""
        for wanted in (True, False):
            self._since.pop((key, wanted), None)

    def _remember(self, place: tuple[str, bool], wait: tuple[int, float]) -> None:
        self._since[place] = wait
        self._since.move_to_end(place)
        while len(self._since) > REMEMBERED:
            self._since.popitem(last=False)
