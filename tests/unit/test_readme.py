"""What the README says is so."""

from pathlib import Path

from eunoe.deploy.cli.main import COMMANDS
from eunoe.deploy.contracts.settings_page import settings_rows
from eunoe.schemas.base import Tier

README = Path(__file__).parents[2] / "README.md"
SETTINGS = README.parent / "deploy" / "docs" / "settings.md"


def test_every_setting_stands_in_one_table():
    named = [line.split("`")[1] for line in SETTINGS.read_text().splitlines() if line.startswith("| `EUNOE_")]
    assert sorted(named) == sorted(row.name for row in settings_rows())
    assert {row.tier for row in settings_rows()} == set(Tier)


def test_every_setting_is_explained():
    assert [row.name for row in settings_rows() if not row.meaning] == []


def test_the_commands_that_it_shows_exist():
    words = [line.split() for line in README.read_text().splitlines() if line.startswith("eunoe ")]
    assert words
    assert {command for _, command, *_ in words} <= set(COMMANDS)
