"""`eunoe ask`."""

import asyncio
from typing import Annotated

import typer
from rich.panel import Panel

from eunoe.deploy.cli.output import Json, console, print_json
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.live_settings import client_settings
from eunoe.deploy.settings import Settings
from eunoe.schemas.events import DEFAULT_AGENT, DEFAULT_TENANT, Reply, Strategy
from eunoe.streams.client import MemoryClient


def ask(
    conversation: Annotated[str, typer.Argument(help="The conversation's id.")],
    text: Annotated[str, typer.Argument(help="What is said to the responder.")],
    speaker: Annotated[str, typer.Option(help="Who says it.")] = "user",
    speak_as: Annotated[str, typer.Option(help="The participant that the responder speaks as.")] = DEFAULT_AGENT,
    tenant: Annotated[str, typer.Option(help="Whose conversation it is.")] = DEFAULT_TENANT,
    record: Annotated[bool, typer.Option(help="Make it part of the conversation; without: a probe.")] = False,
    strategy: Annotated[Strategy | None, typer.Option(help="Where the responder looks.")] = None,
    budget: Annotated[int | None, typer.Option(min=1, help="Tokens of memory in the prompt.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the reply.")] = 60.0,
    as_json: Json = False,
) -> None:
    """Say something to a conversation and print the reply, with what it rests on."""

    async def run(settings: Settings) -> Reply:
        settings = await client_settings(settings)
        async with MemoryClient(
            settings.kafka_settings, conversation_id=conversation, tenant=tenant, names=settings.names
        ) as memory:
            return await memory.ask(
                text,
                speaker=speaker,
                speak_as=speak_as,
                record=record,
                strategy=strategy,
                budget_tokens=budget,
                timeout=timeout,
            )

    reply = asyncio.run(run(connected_settings()))
    if as_json:
        print_json(reply.model_dump(mode="json"))
        return
    console.print(reply.text, markup=False, highlight=False)
    if reply.context:
        console.print(Panel(reply.context, title=f"what was looked at ({reply.context_tokens} tokens)"), style="dim")
    console.print(f"rests on: {', '.join(reply.cited) or 'nothing'}", style="dim", highlight=False)
