"""The check of the cold store: whether what is written to it can be read, and deleted."""

import secrets

from eunoe.deploy.clients.shared import open_cold_store
from eunoe.deploy.doctor.findings import Findings
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.settings import Settings

_SIZE = 64


async def check_cold(settings: Settings, findings: Findings) -> None:
    """Write, read and delete a small file. Raises `Refused` for an unusable address, `Unavailable`."""
    store = open_cold_store(settings)
    if store is None:
        findings.note("no cold store is set: idle conversations stay in Redis (EUNOE_COLD__STORE)")
        return
    name, data = f"doctor/{secrets.token_hex(8)}", secrets.token_bytes(_SIZE)
    await store.put(name, data)
    found = await store.get(name)
    listed = await store.names("doctor")
    await store.remove([name])
    if found != data or name not in listed or await store.get(name) is not None:
        findings.fault("what is written to the cold store is not read, listed or deleted as it should be")
        return
    days = counted(settings.cold.after_days, "day")
    findings.ok(f"the cold store takes and gives files; conversations go there after {days} without an utterance")
