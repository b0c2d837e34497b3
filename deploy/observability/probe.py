"""Probe of the worker in this container: ``python -m eunoe.deploy.observability.probe [live|ready]``.

It reads ``EUNOE_HEALTH``, prints the worker's report, and exits with 0 for yes and 1 for no. It imports only the
standard library, since it runs every few seconds.
"""

import os
import sys
import urllib.error
import urllib.request

TIMEOUT_S = 5.0


def url_of(address: str, what: str) -> str:
    """The URL to request; a worker that listens on all addresses is reached on loopback."""
    host, _, port = address.rpartition(":")
    if host in ("", "0.0.0.0", "[::]", "::"):  # noqa: S104 - not bound
        host = "127.0.0.1"
    return f"http://{host}:{port}/{what}"


def main(arguments: list[str]) -> int:
    """Run the probe; returns its exit code."""
    what = arguments[0] if arguments else "live"
    try:
        with urllib.request.urlopen(url_of(os.environ["EUNOE_HEALTH"], what), timeout=TIMEOUT_S) as answer:  # noqa: S310
            sys.stdout.write(answer.read().decode())
            return 0
    except urllib.error.HTTPError as error:
        sys.stdout.write(error.read().decode())
    except KeyError:
        sys.stdout.write("EUNOE_HEALTH is not set\n")
    except OSError as error:
        sys.stdout.write(f"no answer: {error}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
