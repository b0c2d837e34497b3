"""The broker's jars: fetched once by Maven, then found in a folder of the user's cache."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from eunoe.schemas.errors import Refused, Unavailable

POM: Final = Path(__file__).with_name("pom.xml")
_FETCH_SECONDS = 600
_OLDEST_JAVA = 17
_LAST_LINES = 6


def find_java(program: str = "java") -> str:
    """The path of ``java`` (or of ``javac``); raises `Refused` where there is none, or one that is too old."""
    path = shutil.which(program)
    if path is None:
        raise Refused(f"no {program} here: Kafka needs Java {_OLDEST_JAVA} or newer (apt-get install default-jdk)")
    told = subprocess.run([path, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'(?:version "|javac )(\d+)', told.stderr + told.stdout)
    if found is None or int(found[1]) < _OLDEST_JAVA:
        version = found[1] if found else "of unknown version"
        raise Refused(
            f"Kafka needs Java {_OLDEST_JAVA} or newer, {path} is {version}: install one and put it first in PATH"
        )
    return path


def jars_folder() -> Path:
    """Where the jars of this pom are kept: ``EUNOE_KAFKA_JARS``, else a folder of the user's cache."""
    given = os.environ.get("EUNOE_KAFKA_JARS")
    if given:
        return Path(given).absolute()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "eunoe" / f"kafka-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"


def fetch_jars() -> Path:
    """The folder of the jars; Maven fills it the first time, afterwards neither Maven nor a network is needed.

    Raises `Refused` where Maven is missing or the given folder holds no jars, `Unavailable` where Maven does not
    get them.
    """
    folder = jars_folder()
    if any(folder.glob("kafka_*.jar")):
        return folder
    if os.environ.get("EUNOE_KAFKA_JARS"):
        raise Refused(f"EUNOE_KAFKA_JARS: {folder} holds no kafka_….jar; unset it, and Maven fetches them")
    maven = shutil.which("mvn")
    if maven is None:
        raise Refused(f"no mvn here: Maven fetches Kafka into {folder} the first time (apt-get install maven)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder.parent) as making:
        made = Path(making) / "jars"
        _copy_jars(maven, made)
        _put(made, folder)
    return folder


def _copy_jars(maven: str, folder: Path) -> None:
    command = [maven, "--quiet", "--batch-mode", "--strict-checksums", "--file", str(POM)]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_FETCH_SECONDS)
    except subprocess.TimeoutExpired:
        raise Unavailable(
            f"Maven did not fetch Kafka within {_FETCH_SECONDS} s: see whether the network works"
        ) from None
    if done.returncode != 0:
        told = [line for line in done.stdout.splitlines() if line.startswith("[ERROR]")] or done.stderr.splitlines()
        words = "\n".join(told[:_LAST_LINES])
        raise Unavailable(
            "Maven did not fetch Kafka. The first time it needs repo.maven.apache.org, or the mirror that "
            f"~/.m2/settings.xml names; its words:\n{words}"
        )


def _put(made: Path, folder: Path) -> None:
    """Move a whole folder to its place; somebody else's, made meanwhile, is as good."""
    try:
        made.rename(folder)
    except OSError:
        if not any(folder.glob("kafka_*.jar")):
            raise
