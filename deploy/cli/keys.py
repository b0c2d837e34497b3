"""`eunoe keys`."""

import asyncio
import dataclasses
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from eunoe.deploy.cli.output import Json, console, listing, note, print_json
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.data_keys import open_key_store
from eunoe.deploy.clients.key_checks import destroy_again, report_key_store
from eunoe.deploy.exits import Exit
from eunoe.deploy.gateway.keys import ANY_TENANT, OF_ALL_TENANTS, ApiKey, KeyFile, KeyPlan, KeyScope, new_key
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.settings import read_settings
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import DEFAULT_TENANT

app = typer.Typer(
    no_args_is_help=True, help="Make, list and revoke the API keys of the gateway; show and rewrap the data keys."
)

KeysFile = Annotated[
    Path | None, typer.Option("--file", help="File of the keys; default: EUNOE_GATEWAY__KEYS, .eunoe/keys.json.")
]
_USUAL = (KeyScope.EVENTS_WRITE, KeyScope.ASK, KeyScope.MEMORY_READ)
_DAYS = re.compile(r"(\d{1,4})d")


@app.command()
def create(
    tenant: Annotated[
        str, typer.Option(help="The tenant whose conversations the key reaches; *: dead letters and processes of all.")
    ] = DEFAULT_TENANT,
    scope: Annotated[
        list[KeyScope] | None,
        typer.Option(help="What the key may do; may be repeated. Default: events:write, ask, memory:read."),
    ] = None,
    name: Annotated[str, typer.Option(help="A name, to recognize the key in the list.")] = "",
    conversations: Annotated[str, typer.Option(help="Prefix of the conversation ids that it reaches.")] = "",
    expires: Annotated[str | None, typer.Option(help="Days like 30d, or a time like 2027-01-01T00:00:00Z.")] = None,
    file: KeysFile = None,
    as_json: Json = False,
) -> None:
    """Make a key and print it: it is kept as a hash, and shown this one time."""
    now, scopes = datetime.now(UTC), frozenset(scope or _USUAL)
    _check_reach(tenant, scopes)
    plan = KeyPlan(tenant, scopes, name, conversations, _expiry(expires, now))
    secret, kept = new_key(plan, now)
    keys = _keys(file)
    keys.add(kept)
    if as_json:
        print_json({"key": secret, **_document(kept)})
        return
    console.print(secret, highlight=False, soft_wrap=True)
    note(f"kept as a hash in {keys.path}; it is not shown again")  # apart, so that a script has the key alone


@app.command("list")
def list_(file: KeysFile = None, as_json: Json = False) -> None:
    """List the keys, without their secrets."""
    found = _keys(file).all()
    if as_json:
        print_json([_document(key) for key in found])
        return
    table = listing("id", "name", "tenant", "scopes", "conversations", "expires")
    for key in found:
        expires = "never" if key.expires is None else f"{key.expires:%Y-%m-%d %H:%M}"
        said = (Text(key.name), Text(key.tenant), " ".join(sorted(key.scopes)), Text(key.conversations or "all"))
        table.add_row(key.id, *said, expires)
    console.print(table)


@app.command()
def revoke(
    ids: Annotated[list[str], typer.Argument(help="Ids of keys, as `eunoe keys list` shows them.")],
    file: KeysFile = None,
    as_json: Json = False,
) -> None:
    """Revoke keys: every gateway refuses them at once."""
    gone = _keys(file).revoke(ids)
    if as_json:
        print_json([_document(key) for key in gone])
    else:
        console.print(f"revoked: {', '.join(key.id for key in gone)}", highlight=False)


@app.command()
def status(as_json: Json = False) -> None:
    """Show the store of data keys: its identity, destroyed keys, the version of the operator's key.

    Exit codes:

    - 0: in order
    - 1: it has keys that erasures have destroyed: it was restored from a backup
    - 2: no key store is set, or another operator's key
    - 69: it did not answer
    """
    found = asyncio.run(report_key_store(connected_settings()))
    if as_json:
        print_json({**dataclasses.asdict(found.status), "destroyed_but_there": found.alive})
    else:
        store = found.status
        console.print(
            f"key store {store.id}: {counted(store.tombstones, 'key')} destroyed;"
            f" version {store.kek} of the operator's key wraps new ones",
            highlight=False,
        )
        if found.alive is None:
            console.print("no ledger of erasures is set: not compared with it", style="dim")
        elif found.alive:
            text = f"it has {counted(found.alive, 'key')} that erasures have destroyed: run `eunoe keys replay`"
            console.print(text, style="red", markup=False, highlight=False)
    if found.alive:
        raise typer.Exit(Exit.FAILED)


@app.command()
def rewrap(as_json: Json = False) -> None:
    """Wrap all data keys with the newest version of the operator's key, so that older ones can be thrown away.

    Give both versions first, to all processes: EUNOE_KEYS__KEK="1:OLD 2:NEW". No data key changes.
    """
    count, version = asyncio.run(_rewrap())
    if as_json:
        print_json({"rewrapped": count, "kek": version})
    else:
        console.print(
            f"{counted(count, 'key')} wrapped anew: all are under version {version} of the operator's key",
            highlight=False,
        )


@app.command()
def replay(as_json: Json = False) -> None:
    """Destroy again what finished erasures have destroyed, after the key store was restored from a backup."""
    count = asyncio.run(destroy_again(connected_settings()))
    if as_json:
        print_json({"destroyed": count})
    else:
        console.print(f"{counted(count, 'key')} destroyed again", highlight=False)


async def _rewrap() -> tuple[int, int]:
    async with open_key_store(connected_settings()) as store:
        return await store.rewrap(), (await store.status()).kek


def _keys(file: Path | None) -> KeyFile:
    return KeyFile(file or read_settings().gateway.keys)


def _document(key: ApiKey) -> dict[str, object]:
    return key.model_dump(mode="json", exclude={"sha256"})


def _check_reach(tenant: str, scopes: frozenset[KeyScope]) -> None:
    """Raise `Refused` for a key of all tenants with a scope that every gateway would refuse it."""
    if tenant == ANY_TENANT and (useless := scopes - OF_ALL_TENANTS):
        raise Refused(
            f"--tenant {ANY_TENANT} reaches dead letters and processes only:"
            f" it cannot have {', '.join(sorted(useless))};"
            f" give --scope {' or '.join(sorted(OF_ALL_TENANTS))}"
        )


def _expiry(text: str | None, now: datetime) -> datetime | None:
    """The time of `--expires`; raises `Refused` where it is none, or past: no gateway would take the key."""
    found = None if text is None else _time(text, now)
    if found is not None and found <= now:
        raise Refused(f"--expires {text!r:.40}: is past; give days like 30d, or a time to come")
    return found


def _time(text: str, now: datetime) -> datetime:
    days = _DAYS.fullmatch(text)
    if days is not None:
        return now + timedelta(days=int(days[1]))
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise Refused(f"--expires {text!r:.40}: days like 30d, or a time with a zone like 2027-01-01T00:00:00Z")
    try:
        return found.astimezone(UTC)
    except OverflowError:
        raise Refused(f"--expires {text!r:.40}: outside of the calendar") from None
