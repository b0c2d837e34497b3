"""``python -m tests.support.kafka --brokers 3``: Apache Kafka on this machine, until Ctrl-C."""

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path

from eunoe.deploy.exits import Exit
from eunoe.schemas.errors import Refused, Unavailable
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.jars import fetch_jars, find_java


def main() -> int:
    """Run what the command line asks for. Returns the exit code."""
    arguments = _parser().parse_args()
    try:
        if arguments.fetch:
            find_java()
            print(fetch_jars())
        else:
            asyncio.run(_serve(arguments))
    except (Refused, Unavailable) as fault:
        sys.stderr.write(f"kafka: {fault}\n")
        return Exit.USAGE if isinstance(fault, Refused) else Exit.UNAVAILABLE
    return Exit.OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.support.kafka", description=__doc__)
    parser.add_argument("--brokers", type=int, default=1, help="how many, each a controller too (default 1)")
    parser.add_argument("--port", type=int, help="where the first broker listens (default: a free port)")
    parser.add_argument("--directory", type=Path, help="where they keep their data (default: one that goes with them)")
    parser.add_argument("--json", action="store_true", help="say where they are as one line of JSON")
    parser.add_argument("--fetch", action="store_true", help="only fetch the jars, and say where they are")
    return parser


async def _serve(arguments: argparse.Namespace) -> None:
    asked = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    if not arguments.json:
        sys.stderr.write("starting Apache Kafka (the first time Maven fetches it: 45 MB) …\n")
    cluster = KafkaCluster(arguments.brokers, arguments.directory, arguments.port)
    starting = asyncio.create_task(cluster.start())
    stopping = asyncio.create_task(asked.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if asked.is_set():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
    else:
        await starting
        _tell(cluster, as_json=arguments.json)
        await stopping
    await cluster.stop()


def _tell(cluster: KafkaCluster, *, as_json: bool) -> None:
    if as_json:
        told = json.dumps({"bootstrap": cluster.bootstrap, "pids": cluster.pids})
    else:
        pids = ", ".join(f"broker {number} is process {pid}" for number, pid in cluster.pids.items())
        told = f"ready: EUNOE_KAFKA={cluster.bootstrap} ({pids}); Ctrl-C ends it"
    print(told, flush=True)


if __name__ == "__main__":
    sys.exit(main())
