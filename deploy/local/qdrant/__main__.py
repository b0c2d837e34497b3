"""``python -m eunoe.deploy.local.qdrant --port P --data DIR``: serve the collections in DIR on 127.0.0.1:P.

With ``QDRANT__SERVICE__API_KEY`` in the environment, requests must have that key. With ``--replaceable`` all points are
about to be written again, and a collection that cannot be opened is removed.
"""

import argparse
import logging
import os
import sys
from pathlib import Path

from aiohttp import web

from eunoe.deploy.event_loop import use_fast_loops
from eunoe.deploy.local.lock import DirectoryLock
from eunoe.deploy.local.qdrant.key import API_KEY
from eunoe.deploy.local.qdrant.server import build_app
from eunoe.schemas.errors import Refused

_STOP_SECONDS = 3.0


def main() -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code. The server is ready when ``GET /readyz`` answers."""
    parser = argparse.ArgumentParser(prog="python -m eunoe.deploy.local.qdrant", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--replaceable", action="store_true")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    logger = logging.getLogger(__name__)
    use_fast_loops()
    try:
        with DirectoryLock(arguments.data):
            app = build_app(arguments.data, os.environ.get(API_KEY) or None, replaceable=arguments.replaceable)
            web.run_app(
                app, host="127.0.0.1", port=arguments.port, print=None, access_log=None, shutdown_timeout=_STOP_SECONDS
            )
    except (Refused, OSError) as error:
        logger.error("%s", error)  # noqa: TRY400 - the text is for people, a traceback would hide it
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
