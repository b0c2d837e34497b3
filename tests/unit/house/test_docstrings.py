"""Docstrings of attributes, read from the source."""

import importlib
import inspect
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from eunoe.deploy.contracts.docstrings import attribute_docs


class Outer:
    plain = 1
    told: int = 2
    """The second,
    on two lines.
    """

    class Inner(Enum):
        ONE = "one"
        """The only one."""

    told_last = 3
    """The last."""


def test_docstrings_of_attributes_are_found_by_class():
    class Local:
        told = 1
        """Within a function."""

    assert attribute_docs(Outer) == {"told": "The second,\non two lines.", "told_last": "The last."}
    assert attribute_docs(Outer.Inner) == {"ONE": "The only one."}
    assert attribute_docs(Local) == {"told": "Within a function."}


TWO = """
class One:
    told = 1
    "The first."


class Two:
    told = 2
    "The second."
"""


def test_a_module_is_read_once_for_all_its_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "told_twice.py").write_text(TWO)
    monkeypatch.syspath_prepend(tmp_path)
    two = importlib.import_module("told_twice")
    read: list[object] = []
    source = inspect.getsource

    def reading(of: Any) -> str:
        read.append(of)
        return source(of)

    monkeypatch.setattr(inspect, "getsource", reading)
    assert [attribute_docs(cls) for cls in (two.One, two.Two)] == [{"told": "The first."}, {"told": "The second."}]
    assert len(read) == 1
