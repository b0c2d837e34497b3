"""How long turns have waited for memory of the session before."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from eunoe.schemas.decisions import Work
from eunoe.schemas.events import ReplyRequested
from eunoe.workers.blend.settings import BlendSettings

REMEMBERED = 10_000


@dataclass(slots=True)
class Waits:
    """Since when each conversation's turns wait, and whether that is too long. ``clock`` gives seconds.

    A turn that somebody waits for has a time of its own. All others share one, which begins anew when memory moves
    on: a conversation whose memory stands still (it is held, say) costs that time once, not at every turn, so that it
    never stops the others of its partition for good.
    """

    settings: BlendSettings
    clock: Callable[[], float]
    _since: OrderedDict[tuple[str, bool], tuple[int, float]] = field(default_factory=OrderedDict)
    """(conversation, somebody waits) → the turn, or the last session known; and since when."""

    def is_over(self, work: Work[ReplyRequested], known: int) -> bool:
        """True: the turn goes on without memory, of which only session ``known`` is ready."""
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
        """Memory of the conversation is ready."""
        for wanted in (True, False):
            self._since.pop((key, wanted), None)

    def _remember(self, place: tuple[str, bool], wait: tuple[int, float]) -> None:
        self._since[place] = wait
        self._since.move_to_end(place)
        while len(self._since) > REMEMBERED:
            self._since.popitem(last=False)
