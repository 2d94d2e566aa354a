"""The key that signs JWT bearer assertions for the org: one is made in its folder, or the user registers another."""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from cryptography.x509 import load_pem_x509_certificate

from sfcdc_assets.emulator.serving.certificate import write_private
from sfcdc_assets.runtime.errors import SfcdcError

JWT_KEY_FILE = "jwt-key.pem"


class PublicKeyError(SfcdcError):
    """A file is no RSA public key or certificate."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        super().__init__(f"{path} {problem}. Give a PEM file with an RSA public key or a certificate of one.")


def own_public_key(directory: Path) -> str:
    """PEM of the public half of the folder's own key, which is made at first use and readable by its owner only."""
    path = directory / JWT_KEY_FILE
    if not path.exists():
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = load_pem_private_key(path.read_bytes(), None).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def public_key_in(path: Path) -> str:
    """PEM of the RSA key in a file, which holds a public key or a certificate. Raises PublicKeyError."""
    try:
        content = path.read_bytes()
        is_certificate = b"BEGIN CERTIFICATE" in content
        key = load_pem_x509_certificate(content).public_key() if is_certificate else load_pem_public_key(content)
    except OSError as error:
        raise PublicKeyError(path, f"cannot be read ({error.strerror})") from None
    except (ValueError, UnsupportedAlgorithm):
        raise PublicKeyError(path, "holds no public key") from None
    if not isinstance(key, RSAPublicKey):
        raise PublicKeyError(path, "holds a key of another kind than RSA")
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
