"""The docstrings of attributes: string literals behind their assignments.

They are read when documents are written. pydantic would read them at each import, for a seventh of a command's start.
"""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any


def attribute_docs(cls: type[Any]) -> Mapping[str, str]:
    """Name → docstring of the attributes that stand in the body of a class, which has a source file."""
    return _module_docs(cls.__module__).get(cls.__qualname__, {})


@cache
def _module_docs(name: str) -> Mapping[str, Mapping[str, str]]:
    """Qualified name of each class of a module → its `attribute_docs`; a module is parsed once for all its classes."""
    return dict(_docs_in(ast.parse(inspect.getsource(sys.modules[name])), ""))


def _docs_in(node: ast.AST, prefix: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    for child in ast.iter_child_nodes(node):
        inside = prefix
        if isinstance(child, ast.ClassDef):
            yield f"{prefix}{child.name}", _docs_of(child)
            inside = f"{prefix}{child.name}."
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = f"{prefix}{child.name}.<locals>."
        yield from _docs_in(child, inside)


def _docs_of(found: ast.ClassDef) -> Mapping[str, str]:
    docs: dict[str, str] = {}
    for before, after in pairwise(found.body):
        name, text = _assigned(before), _literal(after)
        if name and text:
            docs[name] = inspect.cleandoc(text)
    return docs


def _assigned(statement: ast.stmt) -> str | None:
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case _:
            return None


def _literal(statement: ast.stmt) -> str | None:
    match statement:
        case ast.Expr(value=ast.Constant(value=str() as text)):
            return text
        case _:
            return None
