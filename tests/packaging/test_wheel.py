"""The built wheel in an empty environment: what a user of the package gets, without the source tree."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("schemas", "streams", "workers", "deploy")
UV = Path(sys.executable).with_name("uv")
"""It does what pip does with a lock file, in a quarter of the time; `make install` has put it there."""
PACKAGED = {".py", ".lua", ".zdict", ".json", ".jsonl", ".typed", ".xml", ".html", ".css", ".js", ".mjs", ".txt"}
NOT_PACKAGED = ("deploy/docs/", "deploy/chart/")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def run(*command: str | Path, cwd: Path) -> str:
    """What the command printed; its error output stands in the failure."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "EUNOE_"))}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def sources() -> set[str]:
    files = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    names = {path.relative_to(ROOT).as_posix() for path in files if path.is_file() and path.suffix in PACKAGED}
    return {name for name in names if not name.startswith(NOT_PACKAGED) and "__pycache__" not in name}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: what an earlier build left beside the sources must not come in."""
    copy = tmp_path_factory.mktemp("source")
    for name in (*FOLDERS, "pyproject.toml", "setup.py", "README.md", "LICENSE"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    run(sys.executable, "-m", "build", "--wheel", "--outdir", copy / "dist", copy, cwd=copy)
    (built,) = (copy / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` of an environment that holds the locked run-time dependencies, as wheels, and eunoe."""
    folder = tmp_path_factory.mktemp("empty")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    binaries = folder / "venv" / "bin"
    pip = (binaries / "python", "-m", "pip", "install", "--quiet")
    locked = ("--require-hashes", "--only-binary", ":all:", "--requirement", ROOT / "deploy" / "runtime.lock")
    try:
        run(UV, "pip", "install", "--system-certs", "--python", binaries / "python", *locked, cwd=folder)
    except AssertionError:  # pip alone reads the machine's settings of an index
        run(*pip, *locked, cwd=folder)
    run(*pip, "--no-deps", wheel, cwd=folder)
    return binaries


def test_the_wheel_holds_every_source_and_data_file_under_one_name(wheel: Path) -> None:
    inside = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert inside == {f"eunoe/{name}" for name in sources()}
    assert {"eunoe/deploy/demo/conversation.jsonl", "eunoe/workers/stores/redis/commit.lua"} <= inside
    assert {f"eunoe/{folder}/py.typed" for folder in FOLDERS} <= inside


def test_the_wheel_carries_its_licence(wheel: Path) -> None:
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in ZipFile(wheel).namelist())


def test_the_locked_dependencies_are_all_that_is_needed(environment: Path, tmp_path: Path) -> None:
    run(environment / "python", "-m", "pip", "check", cwd=tmp_path)


def test_nobody_gets_a_module_of_a_common_name(environment: Path, tmp_path: Path) -> None:
    code = f"from importlib.util import find_spec; print([name for name in {FOLDERS!r} if find_spec(name)])"
    assert run(environment / "python", "-c", code, cwd=tmp_path).strip() == "[]"


def test_the_command_is_there_and_tells_what_it_can(environment: Path, tmp_path: Path) -> None:
    shown = run(environment / "eunoe", "--help", cwd=tmp_path)
    assert all(command in shown for command in ("demo", "up", "worker", "topics", "schemas"))


def test_the_client_can_be_imported(environment: Path, tmp_path: Path) -> None:
    run(environment / "python", "-c", "from eunoe.streams.client import MemoryClient", cwd=tmp_path)


def test_the_installed_command_writes_the_same_contracts(environment: Path, tmp_path: Path) -> None:
    run(environment / "eunoe", "schemas", tmp_path / "contracts", cwd=tmp_path)
    written = {path.name: path.read_bytes() for path in (tmp_path / "contracts").iterdir()}
    kept = {path.name: path.read_bytes() for path in (ROOT / "deploy" / "contracts").glob("*.json")}
    assert written == kept


def test_the_bundled_conversation_is_installed(environment: Path, tmp_path: Path) -> None:
    code = (
        "from eunoe.deploy.datasets.load import load_conversation;"
        " from eunoe.deploy.demo.bundled import CONVERSATION;"
        " print(len(load_conversation(CONVERSATION).utterances))"
    )
    assert run(environment / "python", "-c", code, cwd=tmp_path).strip() == "89"


def test_the_page_and_what_it_needs_are_installed(environment: Path, tmp_path: Path) -> None:
    code = "from eunoe.deploy.gateway.page.assets import assets; print(*sorted(assets()))"
    shown = run(environment / "python", "-c", code, cwd=tmp_path).split()
    assert {"/", "/page/main.js", "/page/page.css", "/page/htm-preact.mjs", "/page/VENDORED.txt"} <= set(shown)
