"""The certificate of the service: read again when its files change, without a restart."""

import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509

from dueledger.alerts.rules import CERTIFICATE_SECONDS_MIN
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.store import Pool
from dueledger.ledger.store.processes import record_certificate

CHECK_SECONDS: Final = 5.0
"""Between two looks at the files: a certificate is renewed days before it expires."""

_Version = tuple[tuple[int, int, int], ...]

log = get_logger("service")


def check_certificate(certificate: Path, key: Path) -> datetime:
    """Return when a certificate expires.

    Raises OSError unless clients may accept it now, and the key is its own.
    """
    key.read_bytes()  # the error of `ssl` names neither file
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    except ValueError:
        message = f"{certificate} has no certificate in PEM"
        raise OSError(message) from None
    now = _machine_now()
    if not found.not_valid_before_utc <= now <= found.not_valid_after_utc:
        valid = f"{found.not_valid_before_utc:%Y-%m-%d} to {found.not_valid_after_utc:%Y-%m-%d}"
        message = f"it is valid from {valid}, not now"
        raise OSError(message)
    # On a context of its own: a wrong key would leave one that is used without any.
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, _refuse_encrypted)
    return found.not_valid_after_utc


def _machine_now() -> datetime:
    """Return the time by which clients judge a certificate: that of a machine."""
    return datetime.now(UTC)  # noqa: TID251 - as above


def _refuse_encrypted() -> str:
    """Refuse to decrypt a key: without this, OpenSSL asks the terminal, and waits."""
    message = "its key is encrypted"
    raise OSError(message)


class CertificateFiles:
    """Keeps a TLS context up to date with its files; open connections stay as they are.

    A certificate that cannot be used, as one that expired or whose key has not been written yet, is
    tried again; until then the one before goes on. The row of the process has when the one in use
    expires; in its last 14 days, and after them, the log says so once a day.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        certificate: Path,
        key: Path,
        *,
        expires_at: datetime,
        pool: Pool,
        process_no: int,
    ) -> None:
        """`expires_at` is of the certificate that the context has."""
        self._context = context
        self._files = certificate, key
        self._version: _Version = self._read_version()
        self._refusal = ""
        self._expires_at = expires_at
        self._recorded: datetime | None = None
        self._days_logged: int | None = None
        self._pool, self._process_no = pool, process_no

    async def tick(self) -> dict[str, int]:
        """Load the files if they have changed; count them. Record when they expire."""
        loaded = self._load()
        left = self._expires_at - _machine_now()
        if left.total_seconds() >= CERTIFICATE_SECONDS_MIN:
            self._days_logged = None
        elif left.days != self._days_logged:
            self._days_logged = left.days
            file, expires_at = str(self._files[0]), self._expires_at.isoformat()
            log.warning(LogEvent.CERTIFICATE_EXPIRING, file=file, expires_at=expires_at)
        if self._expires_at != self._recorded:
            async with self._pool.acquire() as connection:
                await record_certificate(connection, self._process_no, self._expires_at)
            self._recorded = self._expires_at
        return {"certificates": 1} if loaded else {}

    def _load(self) -> bool:
        """Load the files if they have changed and can be used; return whether it did."""
        try:
            version = self._read_version()
            if version == self._version:
                return False
            expires_at = check_certificate(*self._files)
            self._context.load_cert_chain(*self._files)
        except OSError as error:  # as of `ssl`, whose errors are of this class
            if str(error) != self._refusal:
                self._refusal = str(error)
                file = str(self._files[0])
                log.warning(LogEvent.CERTIFICATE_REFUSED, file=file, message=self._refusal)
            return False
        self._version, self._refusal, self._expires_at = version, "", expires_at
        log.info(LogEvent.CERTIFICATE_LOADED, file=str(self._files[0]))
        return True

    def _read_version(self) -> _Version:
        states = [each.stat() for each in self._files]
        return tuple((each.st_ino, each.st_size, each.st_mtime_ns) for each in states)
