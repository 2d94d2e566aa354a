"""The emulated org's certificates: its own authority, kept in the org's folder, and one for loopback."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import trustme

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class ServerCertificate:
    """PEM of a server's key and certificate chain, and the file clients must trust. The key stays out of the repr."""

    key: bytes
    chain: bytes
    ca_file: Path
    key_file: Path
    chain_file: Path

    def __repr__(self) -> str:
        return f"ServerCertificate(ca_file={self.ca_file})"


def server_certificate(directory: Path, names: Sequence[str] = ()) -> ServerCertificate:
    """Return a certificate for localhost, 127.0.0.1, ::1 and `names` from the folder's authority, which is made at
    first use.

    The authority stays the same over restarts, so clients that trust `ca.pem` go on working. Private keys can be
    read by the owner only.
    """
    ca_file, ca_key_file = directory / "ca.pem", directory / "ca-key.pem"
    if ca_file.exists() and ca_key_file.exists():
        authority = trustme.CA.from_pem(ca_file.read_bytes(), ca_key_file.read_bytes())
    else:
        authority = trustme.CA(organization_name="sfcdc emulated org")
        write_private(ca_key_file, authority.private_key_pem.bytes())
        ca_file.write_bytes(authority.cert_pem.bytes())
    issued = authority.issue_cert(*LOOPBACK_NAMES, *names)
    key = issued.private_key_pem.bytes()
    chain = b"".join(pem.bytes() for pem in issued.cert_chain_pems)
    key_file, chain_file = directory / "server-key.pem", directory / "server.pem"
    write_private(key_file, key)
    chain_file.write_bytes(chain)
    return ServerCertificate(key, chain, ca_file, key_file, chain_file)


def write_private(path: Path, content: bytes) -> None:
    """Replace a file in one step by one that only its owner can read, from its first byte on."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    draft.replace(path)
