"""The embedded Qdrant has the types of the REST API without the client that they come with."""

import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest
from qdrant_client.http import models as whole

from eunoe.deploy.local.qdrant import models


def test_the_server_starts_without_the_client_which_can_be_imported_afterwards():
    script = """
import sys, eunoe.deploy.local.qdrant.server
print([name for name in ("qdrant_client", "grpc", "httpx", "urllib3", "numpy") if name in sys.modules])
from qdrant_client import AsyncQdrantClient
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == "[]"


def test_they_are_those_of_the_package_and_complete():
    alone = models.rest_types()
    assert alone is not whole
    for name in models._BODIES:
        assert getattr(alone, name).__pydantic_complete__
        assert getattr(alone, name).model_json_schema() == getattr(whole, name).model_json_schema()


@pytest.mark.parametrize("places", [None, ["nowhere"]])
def test_where_they_do_not_stand_alone_they_come_from_the_package(
    places: list[str] | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    class Elsewhere:
        submodule_search_locations = places and [str(tmp_path / place) for place in places]

    monkeypatch.setattr(PathFinder, "find_spec", lambda name: Elsewhere())
    assert models.rest_types() is whole
