"""Each public class has a name of its own, and docstrings open with a noun or a verb."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("schemas", "streams", "workers", "deploy")
DESCRIBED = (*PACKAGES, "tests")
EXEMPT = (
    "tests/broker",
    "tests/clients",
    "tests/contract",
    "tests/faults",
    "tests/packaging",
    "tests/support",
    "tests/unit",
)
"""Folders whose docstrings are not checked yet."""
SEEN_BY_MODELS = re.compile(r"workers/[^/]+/prompt\.py|deploy/evaluate/judges\.py")
"""Modules whose docstrings are sent to models as descriptions of answer forms, so that rewording changes requests."""
OPENING = re.compile(r"(?:who|whose|what|how|which)\b|(?:true|false):", re.IGNORECASE)

Parsed = list[tuple[str, ast.Module]]


@pytest.fixture(scope="module")
def modules() -> Parsed:
    """(path, syntax tree) of all modules outside of `EXEMPT`, paths relative to the checkout."""
    exempt = tuple(f"{folder}/" for folder in EXEMPT)
    found = sorted(path.relative_to(ROOT).as_posix() for folder in DESCRIBED for path in (ROOT / folder).rglob("*.py"))
    return [(path, ast.parse((ROOT / path).read_text())) for path in found if not path.startswith(exempt)]


def _classes(node: ast.AST) -> Iterator[str]:
    """Names of public classes, of those in classes too, but not of those in functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            if not child.name.startswith("_"):
                yield child.name
            yield from _classes(child)


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, text) of all docstrings, those of attributes too."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text.strip()


def test_no_two_public_classes_have_one_name(modules: Parsed):
    places = defaultdict[str, list[str]](list)
    for path, tree in modules:
        if path.startswith(tuple(f"{package}/" for package in PACKAGES)):
            for name in _classes(tree):
                places[name].append(path)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_docstrings_open_with_a_noun_or_a_verb(modules: Parsed):
    wrong = [
        f"{path}:{line}: {text.splitlines()[0]}"
        for path, tree in modules
        if not SEEN_BY_MODELS.fullmatch(path)
        for line, text in _docstrings(tree)
        if OPENING.match(text)
    ]
    assert wrong == []


def test_exempt_folders_exist():
    assert [folder for folder in EXEMPT if not (ROOT / folder).is_dir()] == []


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("Whose turn it is.", True),
        ("True: it asks.", True),
        ("Whether the sentence is a question.", False),
        ("Whatever.", False),
        ("The number of the log.", False),
    ],
)
def test_openings(text: str, is_refused: bool):
    assert bool(OPENING.match(text)) == is_refused
