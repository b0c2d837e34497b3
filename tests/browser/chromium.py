"""Finds a Chromium for the tests, and fetches one where there is none: ``python -m tests.browser.chromium``."""

import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
KEPT: Final = ROOT / ".chromium"
"""Fetched files: the browser of an npm package, its libraries, and axe-core."""
PACKAGES: Final = ("@sparticuz/chromium@147.0.0", "axe-core@4.14.1")
NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
AXE: Final = KEPT / "axe-core" / "axe.min.js"
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
HOW: Final = "there is no browser or no axe-core: run `make test-browser`, which fetches them, or set EUNOE_CHROMIUM"


@dataclass(frozen=True, slots=True)
class Chromium:
    """A program, and the environment that it needs."""

    path: Path
    environment: dict[str, str] = field(default_factory=dict)


def find_chromium() -> Chromium | None:
    """The Chromium that ``EUNOE_CHROMIUM`` names, one of this machine, or the one that was fetched."""
    named = os.environ.get("EUNOE_CHROMIUM")
    if named:
        return Chromium(Path(named))
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return Chromium(Path(found))
    fetched = KEPT / "chromium"
    if not fetched.exists():
        return None
    libraries = f"{KEPT / 'al2023' / 'lib'}:{KEPT / 'swiftshader'}"
    fonts = {} if shutil.which("fc-list") else {"FONTCONFIG_FILE": str(KEPT / "fonts" / "fonts.conf")}
    return Chromium(fetched, {**os.environ, "LD_LIBRARY_PATH": libraries, **fonts})


def fetch() -> None:
    """Fetch what is missing from the npm registry by its own client."""
    wanted = [package for package in PACKAGES if not _is_there(package)]
    if not wanted:
        return
    KEPT.mkdir(exist_ok=True)
    subprocess.run(["npm", "pack", "--silent", *wanted], cwd=KEPT, check=True, timeout=500)
    for archive in sorted(KEPT.glob("*.tgz")):
        with tarfile.open(archive) as packed:
            packed.extractall(KEPT / "unpacked", filter="data")
        if archive.name.startswith("axe-core"):
            AXE.parent.mkdir(exist_ok=True)
            shutil.copy(KEPT / "unpacked" / "package" / "axe.min.js", AXE)
        else:
            _unpack(KEPT / "unpacked" / "package" / "bin")
        shutil.rmtree(KEPT / "unpacked")
        archive.unlink()


def _is_there(package: str) -> bool:
    return AXE.exists() if package.startswith("axe-core") else find_chromium() is not None


def _unpack(folder: Path) -> None:
    import brotli  # noqa: PLC0415 - only for this package

    for packed in folder.glob("*.tar.br"):
        whole = KEPT / packed.stem
        whole.write_bytes(brotli.decompress(packed.read_bytes()))
        with tarfile.open(whole) as archive:
            archive.extractall(KEPT / packed.name.removesuffix(".tar.br"), filter="data")
        whole.unlink()
    program = KEPT / "chromium"
    program.write_bytes(brotli.decompress((folder / "chromium.br").read_bytes()))
    program.chmod(0o755)


if __name__ == "__main__":
    try:
        fetch()
    except (OSError, subprocess.SubprocessError) as fault:
        print(f"cannot fetch a browser: {fault}", file=sys.stderr)
        sys.exit(1)
