"""API keys: made once, kept as hashes in a file, read again when it changes."""

import fcntl
import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import Field, ValidationError

from eunoe.deploy.local.kept import sync_directory
from eunoe.deploy.local.lock import try_lock
from eunoe.schemas.base import Identifier, Time, Value
from eunoe.schemas.errors import Refused
from eunoe.schemas.versions import describe, newer_fault

ANY_TENANT: Final = "*"
"""The tenant of a key that sees the dead letters of all tenants, and nothing else."""
GATEWAY_KEY: Final = "gateway-key"
"""The file in the data directory of `eunoe up` with the key that it prints."""
MAX_CHARS: Final = 64 << 20
"""Characters of a file of keys that are read: half a million keys; a device without an end is no such file."""
_PREFIX: Final = "eu"
_LOCKED_S: Final = 10.0
"""Seconds that a change of the file waits for another one, which takes some milliseconds."""
_PAUSE_S: Final = 0.01


class KeyScope(StrEnum):
    """A permission of a key."""

    EVENTS_WRITE = "events:write"
    """Add utterances and end sessions."""
    ASK = "ask"
    """Ask, and read the answers to asks."""
    MEMORY_READ = "memory:read"
    """Recall, and read memory."""
    OPERATE = "operate"
    """See counts, digests and unfinished work."""
    LETTERS_READ = "dead-letters:read"
    """See dead letters."""
    LETTERS_WRITE = "dead-letters:write"
    """Retry and discard dead letters."""
    PROCESSES_READ = "processes:read"
    """See the worker processes of the deployment, which all tenants share."""
    ERASE = "erase"
    """Request erasures."""


OF_ALL_TENANTS: Final = frozenset({KeyScope.LETTERS_READ, KeyScope.LETTERS_WRITE, KeyScope.PROCESSES_READ})
"""The scopes of requests that a key of `ANY_TENANT` may make."""


class ApiKey(Value):
    """A key as it is kept; its secret is known to its holder alone."""

    id: Identifier
    sha256: str
    """Of the whole key, in hex."""
    name: str = ""
    tenant: Identifier
    scopes: frozenset[KeyScope]
    conversations: str = ""
    """Prefix of the conversation ids that it may use; empty means all."""
    created: Time
    expires: Time | None = None


class KeyDocument(Value):
    """The content of the file."""

    keys: tuple[ApiKey, ...] = Field(default=())


@dataclass(frozen=True, slots=True)
class Caller:
    """The holder of a credential."""

    id: str
    """Names the credential in limits and logs."""
    tenant: str
    scopes: frozenset[KeyScope]
    conversations: str = ""
    """Prefix of conversation ids; empty means all."""

    def may_use(self, conversation_id: str) -> bool:
        """Whether the credential reaches a conversation."""
        return conversation_id.startswith(self.conversations)


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """The rights of a new key."""

    tenant: str
    scopes: frozenset[KeyScope]
    name: str = ""
    conversations: str = ""
    expires: datetime | None = None


def new_key(plan: KeyPlan, now: datetime) -> tuple[str, ApiKey]:
    """A new secret key, and the form in which it is kept. Raises `Refused` for an invalid tenant or name."""
    id_ = secrets.token_hex(6)
    secret = f"{_PREFIX}_{id_}_{secrets.token_urlsafe(32)}"
    try:
        kept = ApiKey(
            id=id_,
            sha256=_hash(secret),
            name=plan.name,
            tenant=plan.tenant,
            scopes=plan.scopes,
            conversations=plan.conversations,
            created=now,
            expires=plan.expires,
        )
    except ValidationError as error:
        raise Refused(f"key: {describe(error)}") from None
    return secret, kept


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


@dataclass(slots=True)
class KeyFile:
    """The file of keys; only its owner can read it."""

    path: Path
    _stamp: tuple[int, int, int] | None = None
    _keys: dict[str, ApiKey] = field(default_factory=dict)

    def find(self, secret: str, now: datetime) -> ApiKey | None:
        """The key with this secret that has not expired; raises `Refused` for a file that cannot be read."""
        self._refresh()
        parts = secret.split("_", 2)
        kept = self._keys.get(parts[1]) if len(parts) == 3 else None
        if kept is None or not hmac.compare_digest(kept.sha256, _hash(secret)):
            return None
        return None if kept.expires is not None and kept.expires <= now else kept

    def all(self) -> list[ApiKey]:
        """All keys, in the order of their making."""
        return list(_read(self.path).keys)

    def add(self, *keys: ApiKey) -> None:
        """Keep further keys; they are on disk when this returns.

        Raises `Refused` for a file that cannot be read, and where another process keeps it locked.
        """
        with self._locked():
            self._write([*self.all(), *keys])

    def revoke(self, ids: Sequence[str]) -> list[ApiKey]:
        """Remove keys; the file without them is on disk when this returns.

        Raises `Refused`, and removes none, where one is unknown, and as `add` does.
        """
        with self._locked():
            known = self.all()
            unknown = set(ids) - {key.id for key in known}
            if unknown:
                raise Refused(f"no key {', '.join(sorted(unknown))}; see `eunoe keys list`")
            self._write([key for key in known if key.id not in ids])
            return [key for key in known if key.id in ids]

    def _refresh(self) -> None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            self._stamp, self._keys = None, {}
            return
        except OSError as error:
            raise _unreadable(self.path, error) from None
        stamp = found.st_mtime_ns, found.st_size, found.st_ino
        if stamp != self._stamp:
            self._keys = {key.id: key for key in _read(self.path).keys}
            self._stamp = stamp

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        path, until = self.path.with_suffix(".lock"), time.monotonic() + _LOCKED_S
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not try_lock(file, fcntl.LOCK_EX, path):
                if time.monotonic() >= until:
                    raise Refused(f"{self.path} is being changed by a process that has {path} open: end that one")
                time.sleep(_PAUSE_S)
            yield
        finally:
            os.close(file)

    def _write(self, keys: Sequence[ApiKey]) -> None:
        text = KeyDocument(keys=tuple(keys)).model_dump_json(indent=2)
        write_private(self.path, text)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, in one step; it is on disk when this returns.

    A fault, as of a full disk, leaves it as it was.
    """
    made = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:  # noqa: PTH123 - a mode
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        made.replace(path)
        sync_directory(path.parent)
    finally:
        made.unlink(missing_ok=True)  # there only after a fault


def _read(path: Path) -> KeyDocument:
    try:
        with path.open() as file:
            return KeyDocument.from_json(file.read(MAX_CHARS))
    except FileNotFoundError:
        return KeyDocument()
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError | ValueError) -> Refused:
    if (newer := newer_fault(error)) is not None:
        return Refused(f"a newer version of eunoe wrote {path} ({newer}): use that one")
    why = describe(error) if isinstance(error, ValidationError) else str(error)
    return Refused(
        f"{path}: not a file of keys: {why}; restore it, or remove it and make keys with `eunoe keys create`"
    )


def kept_key(keys: KeyFile, secret_file: Path, plan: KeyPlan) -> str:
    """The key in ``secret_file``, made anew where it is missing or no longer valid.

    For `eunoe up`, whose clients on this machine find the key there.
    """
    now = datetime.now(UTC)
    try:
        secret = secret_file.read_text().strip()
    except FileNotFoundError:
        secret = ""
    if secret and keys.find(secret, now) is not None:
        return secret
    secret, kept = new_key(plan, now)
    keys.add(kept)
    write_private(secret_file, f"{secret}\n")
    return secret
