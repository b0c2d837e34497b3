"""The types of Qdrant's REST API, out of the package of its client.

That package imports gRPC and HTTP clients, and builds all of its 500 types, when it is imported: that was half of the
server's start, and 36 MB that stay. The server needs the types of its requests alone.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = ["models", "rest_types"]

_PACKAGE = "qdrant_client"
_NAME = "eunoe.deploy.local.qdrant._rest_types"
_ARRAYS = f"{_PACKAGE}._numpy_vectors"
"""Its module that takes arrays of numpy for vectors; requests are JSON, and have none."""
_BODIES = (
    "CountRequest",
    "CreateCollection",
    "CreateFieldIndex",
    "PointRequest",
    "PointsList",
    "QueryRequest",
    "QueryRequestBatch",
    "ScrollRequest",
)
"""The types of the bodies of requests; they name types that are defined behind them."""


def rest_types() -> ModuleType:
    """The module of the types; where it does not stand where it is looked for, from the whole package."""
    try:
        return _alone()
    except (ImportError, FileNotFoundError):
        sys.modules.pop(_NAME, None)
        from qdrant_client.http import models as whole  # noqa: PLC0415 - what this module is there to avoid

        return whole


def _alone() -> ModuleType:
    found = PathFinder.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"no package {_PACKAGE}")
    (folder, *_) = found.submodule_search_locations
    spec = spec_from_file_location(_NAME, Path(folder) / "http" / "models" / "models.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"no types in {folder}")
    module = sys.modules[_NAME] = module_from_spec(spec)
    with _bare_package(folder):
        spec.loader.exec_module(module)
    for body in _BODIES:  # here, because their first use may be on the threads of two shards at once
        getattr(module, body).model_rebuild()
    return module


@contextmanager
def _bare_package(folder: str) -> Iterator[None]:
    """A stand-in for the package while its types import their neighbours; afterwards it can be imported as it is."""
    before = {name: module for name, module in sys.modules.items() if _is_of_package(name)}
    if _PACKAGE not in before:
        bare = sys.modules[_PACKAGE] = ModuleType(_PACKAGE)
        bare.__path__ = [folder]
        sys.modules[_ARRAYS] = _no_arrays()
    try:
        yield
    finally:
        for name in [name for name in sys.modules if _is_of_package(name) and name not in before]:
            del sys.modules[name]


def _no_arrays() -> ModuleType:
    """A stand-in for `_ARRAYS`: numpy, which only that module needs here, is an eighth of the server's start."""
    module = ModuleType(_ARRAYS)
    vars(module)["NumpyVectorsToLists"] = None  # what it has itself where nothing is to be taken for a list
    return module


def _is_of_package(name: str) -> bool:
    return name.partition(".")[0] == _PACKAGE


if TYPE_CHECKING:
    from qdrant_client.http import models
else:
    models = rest_types()
