"""Parameters that several tools have, with the descriptions that models read."""

from typing import Annotated

from pydantic import Field

from eunoe.schemas.base import Identifier, Name, SpokenTime, Text

ConversationId = Annotated[
    Identifier | None,
    Field(
        description="Names the memory of one person or group, over all their chats. Use the same id each time."
        " Unset: the conversation that this server was started with, where it was."
    ),
]
MemoryId = Annotated[
    Identifier | None,
    Field(description="The id of a memory, as other tools return; unset: the one that fits the query."),
]
Query = Annotated[Text | None, Field(description="What the memory is about; not needed with memory_id.")]
Speaker = Annotated[Name, Field(description="The name of the participant who speaks.")]
SessionId = Annotated[
    Identifier | None, Field(description="The id of the chat; unset: the chat that was spoken in last.")
]
SaidAt = Annotated[
    SpokenTime | None,
    Field(
        description="When it was said, by the speaker's clock: 2026-06-01T20:00:00-07:00. The words today or tomorrow"
        " then mean the speaker's days. Unset: now, with days in UTC."
    ),
]
