"""The check of the key store: whether it is there, the right one, and as new as the ledger of erasures."""

from eunoe.deploy.clients.key_checks import report_key_store
from eunoe.deploy.doctor.findings import Findings
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.settings import Settings, reveal


async def check_keys(settings: Settings, findings: Findings) -> None:
    """Add the identity of the store, and what it lacks. Raises `Refused` for another operator's key, `Unavailable`."""
    if not reveal(settings.keys.store):
        findings.note("no key store is set: new text is stored plain (EUNOE_KEYS__STORE)")
        return
    found = await report_key_store(settings)
    destroyed = f"{counted(found.status.tombstones, 'key')} destroyed"
    findings.ok(f"key store {found.status.id[:8]}: {destroyed}, operator's key of version {found.status.kek}")
    if found.alive:
        findings.fault(f"it has {counted(found.alive, 'key')} that erasures have destroyed: run `eunoe keys replay`")
