"""`eunoe explain`."""

import asyncio
from typing import Annotated

import typer

from eunoe.deploy.cli.output import Json, console, print_json
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.clients.shared import open_store
from eunoe.deploy.inspect.explain import Explanation, read_explanation
from eunoe.deploy.inspect.explained import explanation_tree, find_reply, recorded_answers
from eunoe.schemas.errors import Refused
from eunoe.schemas.records import RecordedAnswer


def explain(
    reply: Annotated[str, typer.Argument(help="The reply_id of the reply, or the request_id of its ask.")],
    answers: Annotated[
        bool, typer.Option("--answers", help="Show the model's recorded answers, too; reads all of them.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Explain a reply: its lines, the memories behind them, what made or ended these, what it did not cite.

    Replies are kept for a week.
    """
    found, recorded = asyncio.run(_explain(reply, answers))
    if as_json:
        more = {"answers": [one.model_dump(mode="json") for one in recorded]} if answers else {}
        print_json(found.model_dump(mode="json") | more)
        return
    console.print(explanation_tree(found), highlight=False)
    for one in recorded:
        console.print(f"recorded answer {one.request}:\n{one.text}", markup=False, highlight=False)
    if answers and not recorded:
        console.print("no recorded answer holds one of these memories: the offline rules made them", style="dim")


async def _explain(reply_id: str, answers: bool) -> tuple[Explanation, list[RecordedAnswer]]:
    settings = await live_settings(connected_settings())
    reply = await find_reply(settings, reply_id)
    if reply is None:
        raise Refused(f"no reply {reply_id!r} among those of the last week")
    async with open_store(settings) as store:
        found = await read_explanation(store, reply.key, reply)
    texts = {one.memory.text for one in found.memories if one.cited}
    return found, await recorded_answers(settings, texts) if answers else []
