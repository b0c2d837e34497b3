"""`eunoe generations`."""

import asyncio

from rich.text import Text

from eunoe.deploy.cli.output import Json, console, listing, print_json
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.generations.promotion import list_generations
from eunoe.workers.stores.records.generations import Listed


def generations(as_json: Json = False) -> None:
    """List the generations of the memory: which is live, how each was built.

    A generation is one derivation of the memory from the log, with its own topics, Redis keys, Qdrant collections and
    consumer groups. The live one answers.
    """
    found = asyncio.run(list_generations(connected_settings()))
    if as_json:
        print_json([_document(one) for one in found])
        return
    table = listing("generation", "live", "built", "from", "state", "log", "changes")
    for one in found:
        made = one.made
        changes = {} if made is None else {**made.changes, **made.plan}
        log = 0 if made is None else made.log
        table.add_row(
            one.name,
            "yes" if one.is_live else "being promoted" if one.is_promoting else "",
            "by its workers" if made is None else f"{made.made_at:%Y-%m-%d %H:%M}",
            "" if made is None else made.source,
            "" if made is None else made.state.value,
            str(log),
            Text(", ".join(f"{name}={value}" for name, value in changes.items())),
        )
    console.print(table)


def _document(one: Listed) -> dict[str, object]:
    made = None if one.made is None else one.made.model_dump(mode="json", exclude={"name"})
    return {"name": one.name, "live": one.is_live, "promoting": one.is_promoting, "made": made}
