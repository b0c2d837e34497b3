"""`eunoe keys`."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from eunoe.deploy.cli.output import Json, console, print_json
from eunoe.deploy.gateway.keys import ApiKey, KeyFile, KeyPlan, KeyScope, new_key
from eunoe.deploy.settings import read_settings
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import DEFAULT_TENANT

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke the API keys of the gateway.")

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
    now = datetime.now(UTC)
    plan = KeyPlan(tenant, frozenset(scope or _USUAL), name, conversations, _expiry(expires, now))
    secret, kept = new_key(plan, now)
    keys = _keys(file)
    keys.add(kept)
    if as_json:
        print_json({"key": secret, **_document(kept)})
        return
    console.print(secret, highlight=False, soft_wrap=True)
    console.print(f"kept as a hash in {keys.path}; it is not shown again", style="dim", highlight=False)


@app.command("list")
def list_(file: KeysFile = None, as_json: Json = False) -> None:
    """List the keys, without their secrets."""
    found = _keys(file).all()
    if as_json:
        print_json([_document(key) for key in found])
        return
    table = Table("id", "name", "tenant", "scopes", "conversations", "expires")
    for key in found:
        expires = "never" if key.expires is None else f"{key.expires:%Y-%m-%d %H:%M}"
        table.add_row(key.id, key.name, key.tenant, " ".join(sorted(key.scopes)), key.conversations or "all", expires)
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


def _keys(file: Path | None) -> KeyFile:
    return KeyFile(file or read_settings().gateway.keys)


def _document(key: ApiKey) -> dict[str, object]:
    return key.model_dump(mode="json", exclude={"sha256"})


def _expiry(text: str | None, now: datetime) -> datetime | None:
    if text is None:
        return None
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
