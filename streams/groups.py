"""Consumer groups at the broker: those with members, and their deletion."""

from collections.abc import Sequence
from typing import Any, Final

from aiokafka.errors import for_code
from aiokafka.protocol.admin import DeleteGroupsRequest

from eunoe.schemas.errors import Refused, Unavailable
from eunoe.streams.access import grant
from eunoe.streams.admin import open_admin
from eunoe.streams.settings import KafkaSettings

_GONE: Final = frozenset({0, 69})
"""No error, and GROUP_ID_NOT_FOUND."""


async def groups_with_members(kafka: KafkaSettings, groups: Sequence[str]) -> list[str]:
    """Those of the groups that consumers are members of.

    Raises `Refused` where the broker denies to tell, and `Unavailable`, also where it cannot tell now.
    """
    async with open_admin(kafka) as admin:
        # one group a request: of several aiokafka cannot read the response
        responses = [found for group in groups for found in await admin.describe_consumer_groups([group])]
    described = [group for response in responses for group in response.groups]
    for error, name, *_ in described:
        _check_told(kafka, name, error)
    return sorted(group[1] for group in described if group[5])


def _check_told(kafka: KafkaSettings, group: str, code: int) -> None:
    """Raise the error with which a broker describes a group: one that it cannot look up shows no members either."""
    if code in _GONE:
        return
    error = for_code(code)
    text = f"consumer group {group}: {error.__name__} {grant(code, 'Read')}".rstrip()
    raise Unavailable(f"{kafka.server}: {text}", kafka.server) if error.retriable else Refused(text)


async def delete_groups(kafka: KafkaSettings, groups: Sequence[str]) -> None:
    """Delete groups with their offsets; missing ones are ignored.

    Raises `Refused` where the broker denies it, as for a group with members, and `Unavailable`.
    """
    denied: dict[str, int] = {}
    async with open_admin(kafka) as admin:
        for group in groups:
            node = await admin.find_coordinator(group)
            denied |= _errors(await admin._send_request(DeleteGroupsRequest([group]), node))  # noqa: SLF001
    if denied:
        named = ", ".join(f"{group}: {for_code(code).__name__}" for group, code in denied.items())
        advice = max(grant(code, "Delete") for code in denied.values())
        raise Refused(f"consumer groups not deleted: {named} {advice}".rstrip())


def _errors(response: Any) -> dict[str, int]:  # noqa: ANN401
    return {group: code for group, code in response.results if code not in _GONE}
