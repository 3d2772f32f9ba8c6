"""The certificate of the service: read again when its files change, without a restart."""

import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509

from dueledger.ledger.runtime.log import LogEvent, get_logger

CHECK_SECONDS: Final = 5.0
"""Between two looks at the files: a certificate is renewed days before it expires."""

_Version = tuple[tuple[int, int, int], ...]

log = get_logger("service")


def check_certificate(certificate: Path, key: Path) -> None:
    """Raise OSError unless clients may accept a certificate now, and the key is its own."""
    key.read_bytes()  # the error of `ssl` names neither file
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    except ValueError:
        message = f"{certificate} has no certificate in PEM"
        raise OSError(message) from None
    now = datetime.now(UTC)  # noqa: TID251 - as clients judge it, by the time of a machine
    if not found.not_valid_before_utc <= now <= found.not_valid_after_utc:
        valid = f"{found.not_valid_before_utc:%Y-%m-%d} to {found.not_valid_after_utc:%Y-%m-%d}"
        message = f"it is valid from {valid}, not now"
        raise OSError(message)
    # On a context of its own: a wrong key would leave one that is used without any.
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, _refuse_encrypted)


def _refuse_encrypted() -> str:
    """Refuse to decrypt a key: without this, OpenSSL asks the terminal, and waits."""
    message = "its key is encrypted"
    raise OSError(message)


class CertificateFiles:
    """Keeps a TLS context up to date with its files; open connections stay as they are.

    A certificate that cannot be used, as one that expired or whose key has not been written yet, is
    tried again; until then the one before goes on.
    """

    def __init__(self, context: ssl.SSLContext, certificate: Path, key: Path) -> None:
        self._context = context
        self._files = certificate, key
        self._version = self._read_version()
        self._refusal = ""

    async def tick(self) -> dict[str, int]:
        """Load the files if they have changed; count them."""
        try:
            version = self._read_version()
            if version == self._version:
                return {}
            check_certificate(*self._files)
            self._context.load_cert_chain(*self._files)
        except OSError as error:  # as of `ssl`, whose errors are of this class
            if str(error) != self._refusal:
                self._refusal = str(error)
                file = str(self._files[0])
                log.warning(LogEvent.CERTIFICATE_REFUSED, file=file, message=self._refusal)
            return {}
        self._version, self._refusal = version, ""
        log.info(LogEvent.CERTIFICATE_LOADED, file=str(self._files[0]))
        return {"certificates": 1}

    def _read_version(self) -> _Version:
        states = [each.stat() for each in self._files]
        return tuple((each.st_ino, each.st_size, each.st_mtime_ns) for each in states)
