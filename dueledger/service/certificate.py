"""The certificate of the service: read again when its files change, without a restart."""

import ssl
from pathlib import Path
from typing import Final

from dueledger.ledger.runtime.log import LogEvent, get_logger

CHECK_SECONDS: Final = 5.0
"""Between two looks at the files: a certificate is renewed days before it expires."""

_Version = tuple[tuple[int, int, int], ...]

log = get_logger("service")


class CertificateFiles:
    """Keeps a TLS context up to date with its files; open connections stay as they are.

    What cannot be used, as a certificate whose key has not been written yet, is tried again; until
    then the certificate before goes on.
    """

    def __init__(self, context: ssl.SSLContext, certificate: Path, key: Path) -> None:
        self._context = context
        self._files = certificate, key
        self._version = self._read_version()
        self._is_refused = False

    async def tick(self) -> dict[str, int]:
        """Load the files if they have changed; count them."""
        try:
            version = self._read_version()
            if version == self._version:
                return {}
            # On a context of its own first: a wrong key would leave this one without any.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._files)
            self._context.load_cert_chain(*self._files)
        except OSError as error:  # as of `ssl`, whose errors are of this class
            if not self._is_refused:
                log.warning(
                    LogEvent.CERTIFICATE_REFUSED, file=str(self._files[0]), message=str(error)
                )
            self._is_refused = True
            return {}
        self._version, self._is_refused = version, False
        log.info(LogEvent.CERTIFICATE_LOADED, file=str(self._files[0]))
        return {"certificates": 1}

    def _read_version(self) -> _Version:
        states = [each.stat() for each in self._files]
        return tuple((each.st_ino, each.st_size, each.st_mtime_ns) for each in states)
