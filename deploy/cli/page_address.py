"""A gateway for the time of a command, and the address of its page."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from eunoe.deploy.clients.connect import environment
from eunoe.deploy.gateway.keys import GATEWAY_KEY, KeyFile, KeyPlan, KeyScope, kept_key
from eunoe.deploy.local.ports import HOST, free_port
from eunoe.deploy.process.supervisor import GatewayProcess
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.sections import KEYS_FILE


@asynccontextmanager
async def page_opened(settings: Settings, tenant: str, conversation: str) -> AsyncIterator[str]:
    """The address of the page, with a key and at a conversation; the key ends with the block.

    Raises `Unavailable` where the gateway does not start.
    """
    with TemporaryDirectory(prefix="eunoe-page-") as folder:
        keys = Path(folder) / KEYS_FILE.name
        own = {**environment(settings), "EUNOE_GATEWAY__KEYS": str(keys)}
        gateway = GatewayProcess(f"{HOST}:{free_port()}", own)
        try:
            await gateway.start()
            plan = KeyPlan(tenant, frozenset(KeyScope), name="eunoe demo")
            key = kept_key(KeyFile(keys), Path(folder) / GATEWAY_KEY, plan)
            view = quote(f"/c/{quote(conversation, safe='')}/memories", safe="/")
            yield f"{gateway.url}/#key={key}&view={view}"
        finally:
            await gateway.stop()
