"""What the README says is so."""

from pathlib import Path

from eunoe.deploy.cli.main import COMMANDS
from eunoe.deploy.contracts.settings_page import settings_rows, with_table

README = Path(__file__).parents[2] / "README.md"


def test_the_table_of_settings_is_true():
    text = README.read_text()
    assert with_table(text) == text, "run `make contracts`"


def test_every_setting_is_explained():
    assert [name for name, _, meaning in settings_rows() if not meaning] == []


def test_the_commands_that_it_shows_exist():
    words = [line.split() for line in README.read_text().splitlines() if line.startswith("eunoe ")]
    assert words
    assert {command for _, command, *_ in words} <= set(COMMANDS)
