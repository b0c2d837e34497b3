"""The profile of `eunoe show`."""

from datetime import datetime

from eunoe.deploy.cli.output import console, note, print_json
from eunoe.schemas.errors import Refused
from eunoe.schemas.ports import StateStore
from eunoe.schemas.profile import PersonProfile
from eunoe.workers.update.person import read_profile
from eunoe.workers.update.reads import read_memory_stats


async def profile_of(
    store: StateStore, key: str, *, at: datetime, person: str | None, budget_tokens: int
) -> PersonProfile:
    """The profile of a person in a conversation; raises `Refused` for one of whom no memory holds, and none held."""
    profile = await read_profile(store, key, at=at, person=person, budget_tokens=budget_tokens)
    if person is not None and not profile.items:
        holding = (await read_memory_stats(store, key)).holding
        if not holding.get(person) and not profile.left_out:
            speakers = ", ".join(sorted(name for name, number in holding.items() if number))
            raise Refused(f"no current memories of {person!r}; speakers: {speakers or 'none'}")
    return profile


def show_profile(profile: PersonProfile, as_json: bool) -> None:
    """Print a profile, as text or JSON."""
    if as_json:
        print_json(profile.model_dump(mode="json") | {"text": profile.text})
        return
    console.print(profile.text or "nothing holds", highlight=False, markup=False, soft_wrap=True)
    note(
        f"as of session {profile.session}, {profile.tokens} of {profile.budget_tokens} tokens;"
        f" left out: {profile.left_out} that hold, {profile.past} whose end has passed"
    )
