"""What the commands print on a terminal of texts that anybody may have written."""

from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.markup import escape
from rich.text import Text
from rich.tree import Tree

from eunoe.deploy.cli import evalreport, keys
from eunoe.deploy.cli.output import VisibleConsole, console, errors, listing
from eunoe.deploy.gateway.keys import KeyFile, KeyPlan, KeyScope, new_key

COMMANDS = "\x1b]0;title\x07\x1b[2J\x9b2J\x00"
HIDDEN = "\u202e\U000e0041\u200b"


def test_a_text_commands_no_terminal_and_hides_nothing():
    written = StringIO()
    shown = VisibleConsole(file=written, force_terminal=True, color_system="truecolor", width=80)
    drawn = Tree("[bold]c[/bold]")
    drawn.add(escape(f"Ann{COMMANDS}: I moved{HIDDEN} to Lyon. [b]\U0001f468\u200d\U0001f469 نامه\u200cای"))
    shown.print(drawn)
    found = written.getvalue()
    assert "\x1b[1mc\x1b[0m" in found  # what the command itself sets
    assert "Ann]0;title[2J2J: I moved to Lyon. [b]\U0001f468\u200d\U0001f469 نامه\u200cای" in found


def test_the_commands_print_on_such_consoles():
    assert isinstance(console, VisibleConsole)
    assert isinstance(errors, VisibleConsole)


@pytest.mark.parametrize("width", [120, 90, 80, 60])
def test_no_word_in_a_table_of_keys_is_broken(monkeypatch, tmp_path, width):
    written = StringIO()
    monkeypatch.setattr(keys, "console", VisibleConsole(file=written, width=width))
    _, made = new_key(KeyPlan("default", frozenset(KeyScope), name="eunoe up"), datetime(2026, 1, 1, tzinfo=UTC))
    KeyFile(tmp_path / "keys.json").add(made)
    keys.list_(tmp_path / "keys.json")
    words = set(written.getvalue().split())
    assert words >= {made.id, "name", "tenant", "default", "scopes", *KeyScope, "conversations", "expires", "never"}
    assert ("│" in words) is (width > 80)


def test_rows_are_lines_of_names_and_values_where_columns_would_be_too_narrow():
    written = StringIO()
    table = listing("generation", "live", "built", "state")
    table.add_row("v1", "yes", "by its workers", "")
    table.add_row("v2", "", "2026-11-28 15:01", Text("[built]"))
    VisibleConsole(file=written, width=40).print(table)
    assert [line.rstrip() for line in written.getvalue().splitlines()] == [
        "v1",
        "  live   yes",
        "  built  by its workers",
        "v2",
        "  built  2026-11-28 15:01",
        "  state  [built]",
    ]


@pytest.mark.parametrize("width", [200, 60, 20])
def test_names_in_tables_of_evaluations_are_no_markup(monkeypatch, width):
    written = StringIO()
    shown = VisibleConsole(file=written, width=width)
    monkeypatch.setattr(evalreport, "console", shown)
    rows = [{"data": "[red]a[/red][/]", "model": f"m{COMMANDS}", "recall": 0.5, "kinds": ("b", "c")} for _ in range(3)]
    shown.print(evalreport.table(rows))
    found = written.getvalue()
    assert "[red]" in found
    assert not set("\x1b\x9b\x00") & set(found)
