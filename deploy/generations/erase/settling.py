"""The steps that close the erasures of a batch of conversations, before files are rewritten.

Replies that were not sent are dropped, by one look over all keys of Redis; asks that are on their way are waited for
once; then the old data keys of each conversation are destroyed, and what is left of it is counted.
"""

from collections.abc import Sequence
from dataclasses import replace

from eunoe.deploy.generations.erase.finishing import Erased
from eunoe.deploy.generations.erase.in_flight import wait_for_replies
from eunoe.deploy.generations.erase.in_generation import InGeneration
from eunoe.deploy.generations.erase.places import Naming
from eunoe.deploy.generations.erase.receipt import Outcome
from eunoe.deploy.generations.erase.unsent import drop_unsent
from eunoe.schemas.errors import EunoeError


async def settle(batch: Sequence[Erased]) -> tuple[list[Erased], list[EunoeError]]:
    """The conversations with their outcomes; those that met a fault are left out, and it is among the faults.

    What is left out is to be carried out again. Raises `Unavailable` where none can be settled.
    """
    await _drop_unsent([work for one in batch for work in one.work])
    await _wait_for_asks([one.work[-1] for one in batch if one.work and one.work[-1].change.keys])
    settled, faults = list[Erased](), list[EunoeError]()
    for one in batch:
        try:
            settled.append(await _settle(one))
        except EunoeError as fault:
            faults.append(fault)
    return settled, faults


async def _drop_unsent(works: Sequence[InGeneration]) -> None:
    """Drop the replies of each generation that were not sent and rest on what is erased."""
    sites = {work.site.settings.names.generation: work.site for work in works}
    for name, site in sites.items():
        parts = [work.change.part for work in works if work.site.settings.names.generation == name]
        await drop_unsent(site.clients, {part.key: (part, Naming(part)) for part in parts})


async def _wait_for_asks(live: Sequence[InGeneration]) -> None:
    """Let the responder handle what is sealed with keys that go: of the asks that stay, none should be lost."""
    if live:
        site = live[-1].site
        await wait_for_replies(site.settings, [work.change.part.key for work in live], site.log.partitions)


async def _settle(erased: Erased) -> Erased:
    if not erased.work:
        return erased
    live = erased.work[-1]
    destroyed = await live.change.finish()
    levels = {one.is_whole for one in erased.erasures}
    after = {whole: await live.count(whole=whole) for whole in levels}
    return replace(erased, outcome=Outcome(after, erased.outcome.remains, destroyed))
