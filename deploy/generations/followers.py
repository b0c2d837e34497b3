"""Tells those who follow memory that a conversation was derived again in its place: no session told them so."""

from eunoe.schemas.identity import split_key
from eunoe.schemas.memory import DerivedReason, MemoriesDerived
from eunoe.streams.codec import encode
from eunoe.streams.record import Message, Publisher
from eunoe.streams.retries import FOR_FOLLOWERS
from eunoe.streams.topics import Topic


async def tell_followers(publisher: Publisher, key: str, reason: DerivedReason) -> None:
    """Publish the notice into `changes` of the publisher's generation, once readers find what was derived.

    Again where the work is repeated: a second notice does no harm. Raises as `Publisher.publish` does.
    """
    tenant, conversation_id = split_key(key)
    notice = MemoriesDerived(tenant=tenant, conversation_id=conversation_id, reason=reason)
    await publisher.publish([Message(Topic.CHANGES, key.encode(), encode(notice), (FOR_FOLLOWERS,))])
