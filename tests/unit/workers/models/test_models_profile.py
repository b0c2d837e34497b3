"""The profile of an endpoint where its store is away for a while: nothing that was learned is lost."""

from eunoe.schemas.errors import Unavailable
from eunoe.workers.models.endpoint.dialect import Dialect, Formatting
from eunoe.workers.models.endpoint.profile import Profile, read_profile
from eunoe.workers.models.endpoint.profile_keeper import ProfileKeeper
from tests.support.memory.profiles import MemoryProfiles

KNOWN = Profile(
    cap=1024,
    context=8192,
    thinking_tokens=300,
    dialect=Dialect(formatting=Formatting.TEXT),
    ratios={"cjk": 2.0, "latin": 1.2},
)


class AbsentProfiles(MemoryProfiles):
    """A store that may be away."""

    away = True

    async def get(self, endpoint: str, /) -> str | None:
        if self.away:
            raise Unavailable("Redis is away")
        return await super().get(endpoint)

    async def put(self, endpoint: str, text: str, /) -> None:
        if self.away:
            raise Unavailable("Redis is away")
        await super().put(endpoint, text)


async def test_what_is_learned_while_the_store_is_away_is_added_to_what_it_has() -> None:
    store = AbsentProfiles()
    await MemoryProfiles.put(store, "m", KNOWN.model_dump_json())
    keeper = ProfileKeeper("m", store)
    await keeper.load()
    await keeper.learn(cap=2048, context=4096)
    assert (keeper.now.cap, keeper.now.context) == (2048, 4096)
    store.away = False
    await keeper.underestimated("word " * 100)
    raised = keeper.now.ratios["latin"]
    assert raised > KNOWN.ratios["latin"]
    assert keeper.now == KNOWN.model_copy(update={"context": 4096, "ratios": {"cjk": 2.0, "latin": raised}})
    assert read_profile(await store.get("m")) == keeper.now


async def test_a_dialect_that_is_learned_meanwhile_is_kept() -> None:
    store = AbsentProfiles()
    await MemoryProfiles.put(store, "m", KNOWN.model_dump_json())
    keeper = ProfileKeeper("m", store)
    await keeper.learn(dialect=Dialect(formatting=Formatting.BARE))
    store.away = False
    await keeper.load()
    assert keeper.now == KNOWN.model_copy(update={"dialect": Dialect(formatting=Formatting.BARE)})
