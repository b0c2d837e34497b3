"""The example programs of deploy/docs, as modules."""

import importlib.util
from pathlib import Path
from types import ModuleType

FILES = Path(__file__).parents[2] / "deploy" / "docs"


def example(name: str) -> ModuleType:
    """The module of an example, executed anew."""
    spec = importlib.util.spec_from_file_location(name, FILES / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
