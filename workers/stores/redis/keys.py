"""Builds every Redis key and every Qdrant collection name.

A key is ``<prefix>:<generation>:{<conversation key>}:<name>``. The braces are the hash tag of Redis Cluster: all
keys of a conversation lie in one slot, so that one script may touch them together. Parts that clients chose are
percent-encoded; the separators ``: / @ !`` therefore keep keys distinct.
"""

import re
from dataclasses import dataclass
from urllib.parse import quote

from eunoe.schemas.decisions import Collection, Scope

_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_GENERATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of one generation.

    ``prefix`` distinguishes deployments on one server: letters, digits, ``. _ -``. ``generation`` names a full set of
    derived state: letters, digits, ``_ -``. Raises ``ValueError`` for other characters: they could open a hash tag or
    match another generation's keys.
    """

    prefix: str = "eunoe"
    generation: str = "v1"

    def __post_init__(self) -> None:
        if not _PREFIX.fullmatch(self.prefix):
            raise ValueError(f"prefix {self.prefix!r:.120} must be letters, digits, '.', '_' or '-'")
        if not _GENERATION.fullmatch(self.generation):
            raise ValueError(f"generation {self.generation!r:.120} must be letters, digits, '_' or '-'")

    def _tagged(self, tag: str) -> str:
        if not tag or "{" in tag or "}" in tag:
            raise ValueError(f"{tag!r:.80} is no conversation key: see eunoe.schemas.identity.conversation_key")
        return f"{self.prefix}:{self.generation}:{{{tag}}}"

    def ledger(self, scope: Scope) -> str:
        """The hash of a stage's ledger: the last number applied, and the unsent outbox."""
        request_id = f"@{_part(scope.request_id)}" if scope.request_id else ""
        return f"{self._tagged(scope.key)}:{_part(scope.stage)}{request_id}"

    def request_ledgers(self, stage: str) -> str:
        """The pattern of a stage's ledgers of requests, in all conversations."""
        return f"{self.prefix}:{self.generation}:{{*}}:{_part(stage)}@*"

    def table(self, stage: str, key: str, table: str) -> str:
        """The hash id → document of a stage's table."""
        return f"{self._tagged(key)}:{_part(stage)}/{_part(table)}"

    def parked_numbers(self, scope: Scope) -> str:
        """The sorted set of sessions with parked events."""
        return f"{self.ledger(scope)}!parked"

    def parked(self, scope: Scope, number: int) -> str:
        """The hash slot → event of one parked session."""
        return f"{self.ledger(scope)}!parked/{number}"

    def stub(self, key: str) -> str:
        """The rest of a conversation whose state lies in the cold store: the name of its snapshot."""
        return f"{self._tagged(key)}:cold"

    def freezing(self, key: str) -> str:
        """The stub of a snapshot that is being written: what cleans up leaves it alone."""
        return f"{self._tagged(key)}:cold/next"

    def thawed(self, key: str) -> str:
        """The stub of the snapshot that was brought back last: a server that loses its last writes needs it again."""
        return f"{self._tagged(key)}:cold/last"

    def cold_mark(self) -> str:
        """The name of the mark that this generation's cold store bears."""
        return f"{self._tagged('log')}:cold-store"

    def to_clean(self) -> str:
        """The sorted set of erased conversations whose snapshots are looked for once more, by the time of that look."""
        return f"{self._tagged('log')}:cold-erased"

    def staged(self, name: str, token: str) -> str:
        """The name of a key that is written beside its place; no key of a stage contains ``~``."""
        return f"{name}~{token}"

    def staged_names(self, key: str) -> str:
        """The set of the names of all keys of a conversation that are written beside their places."""
        return f"{self._tagged(key)}:~"

    def positions(self, stage: str, number: int = 0) -> str:
        """The hash partition → handled position of a stage; for another ``number`` it lies in another slot.

        Its tag has no slash and so belongs to no conversation. Intake's was the only one at first.
        """
        tag = self._tagged(f"log~{number}" if number else "log")
        return f"{tag}:positions" if stage == "intake" else f"{tag}:positions/{_part(stage)}"

    def index_record(self) -> str:
        """The hash collection → identity of the vector index that this generation has filled."""
        return f"{self._tagged('log')}:index"

    def log_partitions(self) -> str:
        """The hash number and epoch of a log → the partitions with which this generation began to read it."""
        return f"{self._tagged('log')}:partitions"

    def embedder_probe(self) -> str:
        """The hash name of an embedder → the vector of a fixed sentence that this generation began with."""
        return f"{self._tagged('log')}:embedder"

    def skips(self) -> str:
        """The hash of records to pass over → reason."""
        return f"{self._tagged('log')}:skips"

    def blocked(self, stage: str, reason: str) -> str:
        """The sorted set of a stage's blocked conversations, by the time since which they are."""
        return f"{self._tagged('log')}:{reason}/{_part(stage)}"

    def timers(self, partition: int) -> str:
        """The sorted set of a partition's timers: conversation keys by the microseconds of ``since``."""
        return f"{self._tagged(f'log-{partition}')}:timers"

    def timer_documents(self, partition: int) -> str:
        """The hash conversation key → timer of a partition."""
        return f"{self._tagged(f'log-{partition}')}:timers/documents"

    def conversations(self, tenant: str) -> str:
        """The sorted set of a tenant's conversation ids by the microseconds of their last event."""
        return f"{self._tagged(f'tenant-{_part(tenant)}')}:conversations"

    def promotions(self, partition: int) -> str:
        """The hash position → generation that answers after that position."""
        return f"{self._tagged(f'log-{partition}')}:promotions"

    def used_nonces(self, partition: int) -> str:
        """The hash nonce → position of the promotion that used it."""
        return f"{self._tagged(f'log-{partition}')}:promotions/nonces"

    def answer(self, request_hash: str) -> str:
        """A model's answer; shared by all generations, whose names cannot begin with ``_``."""
        return f"{self.prefix}:_answers:{_part(request_hash)}"

    def sealed_answer(self, conversation: str, digest: str) -> str:
        """A model's answer that is sealed with the data key of a conversation, under a keyed digest."""
        return f"{self.prefix}:_answers:{{{conversation}}}:{_part(digest)}"

    def answers_of(self, conversation: str) -> str:
        """The glob of a conversation's sealed answers."""
        return self.sealed_answer(conversation, "") + "*"

    def generation_pattern(self) -> str:
        """The glob of all Redis keys of this generation, and of no other."""
        return f"{self.prefix}:{self.generation}:*"

    def conversation_of(self, key: str) -> str | None:
        """The conversation of a Redis key of this generation; `None` for a key of the log and for any other key."""
        begin = f"{self.prefix}:{self.generation}:{{"
        tag, closed, _ = key.removeprefix(begin).partition("}")
        return tag if key.startswith(begin) and closed and "/" in tag else None

    def collection(self, collection: Collection) -> str:
        """The Qdrant collection of one kind of points."""
        return f"{self.prefix}.{self.generation}.{collection.value}"


def pointer_key(prefix: str) -> str:
    """The hash that names the live generation. No generation's name begins with ``_``."""
    return f"{prefix}:_live"


def generations_key(prefix: str) -> str:
    """The hash name → record of a generation that a rebuild made."""
    return f"{prefix}:_generations"


def announcements_key(prefix: str) -> str:
    """The hash nonce → generation of the promotions that were announced."""
    return f"{prefix}:_announcements"


def model_profiles_key(prefix: str) -> str:
    """The hash name of an endpoint and model → what is known of its limits."""
    return f"{prefix}:_models"


def processes_key(prefix: str) -> str:
    """The hash name of a process → what it says of itself."""
    return f"{prefix}:_processes"


def closed_logs_key(prefix: str) -> str:
    """The hash number of a log → the ends of its partitions, once the log is retired."""
    return f"{prefix}:_closed-logs"


def erasures_key(prefix: str, kind: str) -> str:
    """The hash of a ledger of erasures: those ``begun``, or those ``done``."""
    return f"{prefix}:_erasures/{_part(kind)}"


def applied_erasures_key(prefix: str) -> str:
    """The hash of the erasures that this state store has seen."""
    return f"{prefix}:_erasures"


def rate_key(prefix: str, caller: str) -> str:
    """The arrival time of a caller's next request at the gateway, for its rate limit."""
    return f"{prefix}:_gateway:{{rate-{_part(caller)}}}"


def note_key(prefix: str, key: str, kind: str, id_: str) -> str:
    """The note that the gateway keeps of a request about a conversation."""
    return f"{prefix}:_gateway:{{{key}}}:{_part(kind)}/{_part(id_)}"


def _part(text: str) -> str:
    return quote(text, safe="")
