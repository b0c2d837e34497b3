"""`eunoe ask`."""

import asyncio
from datetime import datetime
from typing import Annotated

import typer
from rich.panel import Panel
from rich.text import Text

from eunoe.deploy.cli.model_check import model_fault_named
from eunoe.deploy.cli.output import Json, console, print_json
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.live_settings import client_settings
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.settings import Settings
from eunoe.schemas.events import DEFAULT_AGENT, DEFAULT_TENANT, Strategy
from eunoe.schemas.replies import Reply
from eunoe.streams.client import MemoryClient


def ask(
    conversation: Annotated[str, typer.Argument(help="The conversation's id.")],
    text: Annotated[str, typer.Argument(help="The question, or any other utterance to the responder.")],
    speaker: Annotated[str, typer.Option(help="Name of the speaker.")] = "user",
    speak_as: Annotated[str, typer.Option(help="Name under which the responder replies.")] = DEFAULT_AGENT,
    tenant: Annotated[str, typer.Option(help="Tenant of the conversation.")] = DEFAULT_TENANT,
    record: Annotated[bool, typer.Option(help="Make the question and the reply part of the conversation.")] = False,
    strategy: Annotated[
        Strategy | None, typer.Option(help="Retrieval strategy; default: as stage respond is set.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Memory in the prompt, in tokens; default: as stage respond is set.")
    ] = None,
    context: Annotated[bool, typer.Option("--context", help="Print the memory in the prompt, too.")] = False,
    timeout: Annotated[float, typer.Option(help="Time to wait for the reply, in seconds.")] = 60.0,
    as_json: Json = False,
) -> None:
    """Ask about a conversation; print the reply and what it cites."""

    async def run(settings: Settings) -> Reply:
        settings = await client_settings(settings)
        client = MemoryClient(
            settings.kafka_settings, conversation_id=conversation, tenant=tenant, names=settings.names
        )
        async with model_fault_named(settings), client as memory:
            return await memory.ask(
                text,
                speaker=speaker,
                at=datetime.now().astimezone(),  # by the clock of this machine: whoever types here speaks
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
    _print(reply, context=context)


def _print(reply: Reply, *, context: bool) -> None:
    console.print(reply.text, markup=False, highlight=False)
    size = counted(reply.context_tokens, "token")
    if reply.context and context:
        console.print(Panel(Text(reply.context), title=f"memory in the prompt ({size})"), style="dim")
    elif reply.context:
        console.print(f"memory in the prompt: {size}; --context prints it", style="dim", highlight=False)
    if reply.made_by.fallback:
        console.print("the offline rules replied: the model gave no valid answer", style="yellow")
    console.print(f"cites: {', '.join(reply.cited) or 'nothing'}", style="dim", markup=False, highlight=False)
    console.print(f"why: eunoe explain {reply.reply_id}", style="dim", highlight=False, soft_wrap=True)
