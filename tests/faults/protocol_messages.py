"""The messages of a connection: statements and commits to Postgres, requests to Kafka."""

import re
import struct
from collections.abc import Collection
from functools import cache

from dueledger.ledger.store.statements import parse_statement, statement_paths

COMMIT = "commit"
PRODUCE = "produce"
FETCH = "fetch"
STARTUP_CODES = (80877102, 80877103)  # a cancelling, and asking for TLS: no session begins
LENGTH = struct.Struct(">i")
EXECUTED = re.compile(rb"(?:release savepoint \w+;)?execute (\w+)\(")


@cache
def names_by_sentence() -> dict[bytes, str]:
    """Statements are recognised by the first line of their header, which asyncpg sends too."""
    return {parse_statement(path).sentence.encode(): path.stem for path in statement_paths()}


class PostgresTap:
    """Hears `<statement>` when it is executed, and `commit` and `commit <statement>` of it.

    A statement outside a transaction block commits as it is executed.
    """

    answer_end = b"Z\0\0\0\5"  # ReadyForQuery: all requests are done, or have failed

    def __init__(self) -> None:
        self._rest = b""
        self._session = False
        self._prepared: dict[bytes, str] = {}
        self._inside: set[str] = set()

    def heard(self, chunk: bytes) -> Collection[str]:
        self._rest += chunk
        heard: set[str] = set()
        while (message := self._next()) is not None:
            kind, body = message
            match kind:
                case b"P":
                    name, text, *_ = body.split(b"\0", 2)
                    sentence = text.partition(b"\n")[0].removeprefix(b"-- ")
                    self._prepared[name] = names_by_sentence().get(sentence, "")
                case b"B":
                    _, name, *_ = body.split(b"\0", 2)
                    heard.add(self._prepared.get(name, ""))
                    self._inside |= heard
                case b"Q" if body.startswith(b"BEGIN"):
                    self._inside.clear()
                case b"Q" if executed := EXECUTED.match(body):  # and the COMMIT in one message
                    name = self._prepared[executed[1]]
                    heard |= {COMMIT, name, f"{COMMIT} {name}"}
                case b"Q" if body.startswith(b"COMMIT"):
                    heard |= {COMMIT, *(f"{COMMIT} {name}" for name in self._inside)}
                case _:
                    pass
        return heard

    def _next(self) -> tuple[bytes, bytes] | None:
        """Take one whole message; those before the session begins have no kind."""
        head = 1 if self._session else 0
        if len(self._rest) < head + LENGTH.size:
            return None
        (length,) = LENGTH.unpack_from(self._rest, head)
        if len(self._rest) < head + length:
            return None
        kind, body = self._rest[:head], self._rest[head + LENGTH.size : head + length]
        self._rest = self._rest[head + length :]
        self._session |= not head and LENGTH.unpack_from(body)[0] not in STARTUP_CODES
        return kind, body


class KafkaTap:
    """Hears `produce` and `fetch`."""

    answer_end = b""  # whatever comes

    def __init__(self) -> None:
        self._rest = b""

    def heard(self, chunk: bytes) -> Collection[str]:
        self._rest += chunk
        heard: set[str] = set()
        while len(self._rest) >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._rest)
            if len(self._rest) < LENGTH.size + length:
                break
            (key,) = struct.unpack_from(">h", self._rest, LENGTH.size)
            heard |= {name for name, number in ((PRODUCE, 0), (FETCH, 1)) if number == key}
            self._rest = self._rest[LENGTH.size + length :]
        return heard
