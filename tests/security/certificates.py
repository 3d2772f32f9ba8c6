"""Authorities, and certificates that they sign, as files in PEM."""

from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
END = datetime(2120, 1, 1, tzinfo=UTC)
PAST = datetime(2021, 1, 1, tzinfo=UTC)
SIGNS = {"key_cert_sign": True, "crl_sign": True}


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key: in two files, and in one."""

    certfile: Path
    keyfile: Path
    both: Path


class Authority:
    """An authority with a key of its own. Its certificate is `cafile`."""

    def __init__(self, name: str, directory: Path) -> None:
        self._directory = directory
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        own = self._builder(self._name, self._key.public_key(), END)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        own = own.add_extension(_usage(**SIGNS), critical=True)
        self._certificate = own.sign(self._key, hashes.SHA256())
        self.cafile = directory / f"{name}.pem"
        self.cafile.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def issue(
        self, name: str, *, address: str | None = None, end: datetime = END, password: str = ""
    ) -> Issued:
        """Issue a certificate, for a server if it has an address. `password` encrypts its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, key.public_key(), end)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)  # noqa: FBT003
        builder = builder.add_extension(_usage(digital_signature=True), critical=True)
        if address is not None:
            names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        encryption: KeySerializationEncryption = NoEncryption()
        if password:
            encryption = BestAvailableEncryption(password.encode())
        key_text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        issued = Issued(*(self._directory / f"{name}.{part}" for part in ("crt", "key", "both")))
        issued.certfile.write_bytes(certificate)
        issued.keyfile.write_bytes(key_text)
        issued.both.write_bytes(key_text + certificate)
        return issued

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, end: datetime
    ) -> x509.CertificateBuilder:
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(BEGIN)
            .not_valid_after(end)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(issuer, critical=False)
        )


def _usage(**allowed: bool) -> x509.KeyUsage:
    none = dict.fromkeys(
        (
            "digital_signature",
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "key_cert_sign",
            "crl_sign",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    return x509.KeyUsage(**(none | allowed))
