"""One worker process for the broker tests: writes a line for every record that it handled; SIGTERM stops it.

Arguments: bootstrap, prefix, the file to append to.
"""

import asyncio
import signal
import sys
import time
from pathlib import Path

from eunoe.streams.group.handlers import one_by_one
from eunoe.streams.group.stage_consumer import StageConsumer
from eunoe.streams.record import Lease, Record
from eunoe.streams.topics import TopicNames
from tests.support.tansu import settings


async def main(bootstrap: str, prefix: str, path: Path) -> None:
    with path.open("a", buffering=1) as out:

        async def handle(record: Record, lease: Lease) -> None:
            await asyncio.sleep(0.01)
            key = (record.key or b"").decode()
            out.write(f"{key} {record.value.decode()} {record.partition} {record.offset} {time.time()}\n")

        app = StageConsumer(
            "kill", ["conversations"], settings(bootstrap), TopicNames(prefix=prefix), one_by_one(handle)
        )
        asked = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
        await app.start()
        out.write("started\n")
        failing, stopping = asyncio.create_task(app.failure()), asyncio.create_task(asked.wait())
        await asyncio.wait({failing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if failing.done():
            raise failing.result()
        failing.cancel()
        await app.stop(10)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
