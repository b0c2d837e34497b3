"""Writes the contracts for clients in any language: JSON Schemas and one AsyncAPI document."""

from pathlib import Path
from typing import Any, Final

import orjson

from eunoe.deploy.contracts.asyncapi import asyncapi_document
from eunoe.deploy.contracts.json_schemas import contract_schema
from eunoe.schemas.base import Contract
from eunoe.schemas.versions import CONTRACTS

ASYNCAPI: Final = "asyncapi.json"


def schema_file(contract: type[Contract]) -> str:
    """The name of the file that holds a contract's JSON Schema."""
    return f"{contract.type_tag()}.schema.json"


def contract_files() -> dict[str, bytes]:
    """File name → content: a JSON Schema (2020-12) for each contract, and the AsyncAPI document that refers to them."""
    files = {schema_file(contract): _json(contract_schema(contract)) for contract in CONTRACTS.values()}
    payloads = {contract: f"./{schema_file(contract)}" for contract in CONTRACTS.values()}
    return {**files, ASYNCAPI: _json(asyncapi_document(payloads))}


def write_contracts(folder: Path) -> list[Path]:
    """Write `contract_files` into ``folder``, which is made where it is missing; returns what was written.

    Schemas there of contracts that are no more are removed; other files stay. Raises ``OSError``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = contract_files()
    for old in folder.glob("*.schema.json"):
        if old.name not in files:
            old.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in files]


def _json(document: dict[str, Any]) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
