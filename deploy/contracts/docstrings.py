"""The docstrings of attributes: string literals behind their assignments.

They are read when documents are written. pydantic would read them at each import, for a seventh of a command's start.
"""

import ast
import inspect
from itertools import pairwise
from textwrap import dedent
from typing import Any


def attribute_docs(cls: type[Any]) -> dict[str, str]:
    """Name → docstring of the attributes that stand in the body of a class, which has a source file."""
    body = ast.parse(dedent(inspect.getsource(cls))).body[0]
    found: dict[str, str] = {}
    for before, after in pairwise(body.body if isinstance(body, ast.ClassDef) else []):
        name, text = _assigned(before), _literal(after)
        if name and text:
            found[name] = inspect.cleandoc(text)
    return found


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
