"""The build of the documentation site, as `make docs` runs it, finds what leads nowhere."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RECIPE = re.compile(r"^docs: .*\n\t\$\(BIN\)/(.+) \$\(ARGS\)$", re.MULTILINE)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose pages may be changed; all else is that of this one."""
    deploy = tmp_path / "deploy"
    deploy.mkdir()
    shutil.copytree(ROOT / "deploy" / "docs", deploy / "docs")
    shutil.copy(ROOT / "deploy" / "properdocs.yml", deploy)
    for folder, copy in ((ROOT, tmp_path), (ROOT / "deploy", deploy)):
        for path in folder.iterdir():
            if not (copy / path.name).exists():
                (copy / path.name).symlink_to(path)
    return tmp_path


def built(checkout: Path) -> subprocess.CompletedProcess[str]:
    """The recipe of `make docs`, run in the checkout."""
    recipe = RECIPE.search((ROOT / "Makefile").read_text())
    assert recipe
    program, *arguments = recipe[1].split(" ")
    command = [str(Path(sys.executable).parent / program), *arguments, "--site-dir", f"{checkout}/site"]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)


def test_every_page_is_in_the_contents_and_every_link_leads_somewhere(checkout: Path):
    done = built(checkout)

    assert done.returncode == 0, done.stderr


def test_a_link_that_leads_nowhere_fails_the_build(checkout: Path):
    page = checkout / "deploy" / "docs" / "page.md"
    page.write_text(f"{page.read_text()}\n[here](gateway.md#no-such-heading)\n")

    done = built(checkout)

    assert done.returncode == 1
    assert "#no-such-heading" in done.stderr
