"""Secured servers for tests: certificates of the test's own, a TLS port before any server, Redis with ACL users."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import trustme
from cryptography.hazmat.primitives import serialization

from eunoe.deploy.local.ports import free_port


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files of an authority, a server and a client, and of another authority that nobody trusts."""

    authority: Path
    stranger: Path
    """The authority that signed nothing here."""
    server: Path
    """Private key and certificates of ``localhost``."""
    client: Path
    """Certificates of the client."""
    client_key: Path

    @classmethod
    def make(cls, directory: Path) -> Self:
        """Write all files."""
        directory.mkdir(parents=True, exist_ok=True)
        ours, other = trustme.CA(), trustme.CA()
        made = cls(*(directory / f"{name}.pem" for name in ("authority", "stranger", "server", "client", "key")))
        ours.cert_pem.write_to_path(str(made.authority))
        other.cert_pem.write_to_path(str(made.stranger))
        server = ours.issue_cert("localhost", "127.0.0.1", key_type=trustme.KeyType.RSA)
        chain = b"".join(blob.bytes() for blob in server.cert_chain_pems)
        made.server.write_bytes(_pkcs8(server.private_key_pem.bytes()) + chain)
        client = ours.issue_cert("client@eunoe.test", key_type=trustme.KeyType.RSA)
        client.private_key_pem.write_to_path(str(made.client_key))
        made.client.write_bytes(b"".join(blob.bytes() for blob in client.cert_chain_pems))
        return made


def _pkcs8(key: bytes) -> bytes:
    """The same private key in the form that Java reads."""
    private = serialization.load_pem_private_key(key, None)
    plain = serialization.NoEncryption()
    return private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


@asynccontextmanager
async def tls_port(certificates: Certificates, behind: int) -> AsyncIterator[int]:
    """A port of the loopback address that speaks TLS and passes everything on to the port ``behind`` it.

    The Valkey of the tests is built without TLS.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server)
    port = free_port()

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _join(reader, writer, behind)

    server = await asyncio.start_server(join, "127.0.0.1", port, ssl=context)
    try:
        yield port
    finally:
        server.close()


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, behind: int) -> None:
    inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", behind)
    await asyncio.gather(_pass_on(reader, inner_writer), _pass_on(inner_reader, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, ssl.SSLError):
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
    writer.close()
