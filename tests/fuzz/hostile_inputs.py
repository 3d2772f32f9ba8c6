"""Inputs that mean harm, the same for the same seed: texts, numbers, JSON, mutated documents."""

from collections.abc import Callable, Sequence
from random import Random
from re import compile as compile_pattern
from typing import Any, Final, cast

import orjson

from tests.hostile_text import HOSTILE

TEXTS: Final[tuple[str, ...]] = (
    *("", " ", "\x00", "\x1f", "\x1b[31m", "\u202e", "\ud800", "\U000e0041", "[/x]", "[red]"),
    *("'", '"', "\\", "$1", "%s", "{}", "{0}", "--", ";", "null", "none", "NaN", "true", "-"),
    *("../../etc/passwd", "/dev/zero", "file:///etc/passwd", "http://169.254.169.254/"),
    *("1e400", "-0", "9" * 30, "9" * 5_000, "0x10", "١٢٣", "1_000", "inf"),
    *("2027-02-30", "20000-01-01", "0001-01-01", "9999-12-31T23:59:59.999999Z", "24:00", "P1Y"),
    *("2027-03-01T09:00:00+99:99", "P99999999D", "PT0S", "-P1D", "Europe/Berln", "UTC\n"),
    *("* * * * *", "60 * * * *", "0 0 31 2 *", "*/0 * * * *", "@reboot", "FREQ=SECONDLY"),
    *("data", "data.", "data|[@,@]", "&data", "`[", "a" * 2_000, "é" * 600, HOSTILE),
    *("=cmd|'/c calc'!A1", "<script>", "&amp;", "]]>", "!!python/object:os.system []", "*a", "&a"),
)
_ESCAPED: Final = compile_pattern('["\\\\\x00-\x1f\ud800-\udfff]')
_DEPTH_MAX: Final = 4
_LARGE_ONE_IN: Final = 40
"""They take most of the time."""
STEPS: Final = (
    *("|[@,@]", "|[@,@][]", "|{a:@,b:@}", "[*]", "[]", "[?@]", ".*", "[::-1]", "[0]"),
    *("|to_string(@)", "|join('',[@,@])", "|map(&[@,@],@)", "|values(@)", "|[@,@,@,@]", "||data"),
    *("|sort(@)", "|merge(@,@)", "|length(@)", "|abs(@)", "|max_by(@,&a)", "|not_null(@)", "|!@"),
)
RULE_PARTS: Final = (
    *("INTERVAL", "COUNT", "UNTIL", "BYMONTH", "BYMONTHDAY", "BYDAY", "BYSETPOS", "BYYEARDAY"),
    *("BYWEEKNO", "BYHOUR", "BYEASTER", "WKST", "DTSTART"),
)


class HostileInputs:
    """Draws inputs from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - the same inputs each time

    def text(self) -> str:
        """Return a text: a known trap, several of them, or noise."""
        match self.random.randrange(4):
            case 0 | 1:
                return self.random.choice(TEXTS)
            case 2:
                return "".join(self.random.choices(TEXTS, k=self.random.randrange(4)))
            case _:
                count = self.random.randrange(20)
                return "".join(chr(self.random.randrange(0x3000)) for _ in range(count))

    def argument(self) -> str:
        """Return a text that a command line can have."""
        return self.text().replace("\x00", "").encode(errors="ignore").decode()[:100_000]

    def stored_text(self) -> str:
        """Return a text that a client of Postgres can send."""
        return self.text().encode(errors="ignore").decode()

    def path(self) -> str:
        """Return a JMESPath, or what looks like one."""
        steps = self.random.choices(STEPS, k=self.random.randrange(24))
        return self.random.choice(("data", "data.a", "@", "payload", "item")) + "".join(steps)

    def recurrence(self) -> str:
        """Return a recurrence rule, or what looks like one."""
        random = self.random
        parts = [f"FREQ={random.choice(('YEARLY', 'YEARLY', 'DAILY', 'SECONDLY', 'MONTHLY'))}"]
        for _ in range(random.randrange(5)):
            number = random.choice((0, 1, 2, 5, 29, 30, 31, 53, 366, 9_999, 999_999, -1, 10**30))
            parts += [f"{random.choice(RULE_PARTS)}={random.choice((number, number, self.text()))}"]
        return ";".join(parts)

    def value(self, depth: int = 0) -> Any:  # noqa: ANN401 - any JSON
        """Return a JSON value, sometimes a deep, wide or long one."""
        random = self.random
        if depth == 0 and random.randrange(_LARGE_ONE_IN) == 0:
            return self._large_value()
        kinds: tuple[Callable[[], object], ...] = (
            self.text,
            self.text,
            self.path,
            lambda: random.choice([None, True, False, 0, -1, 1.5, 2**63, -(2**70), 1e308]),
        )
        if depth < _DEPTH_MAX:
            kinds += (
                lambda: [self.value(depth + 1) for _ in range(random.randrange(4))],
                lambda: {self.text(): self.value(depth + 1) for _ in range(random.randrange(4))},
            )
        return random.choice(kinds)()

    def _large_value(self) -> object:
        match self.random.randrange(3):
            case 0:
                return self.nested(self.random.choice((33, 300, 1_500)))
            case 1:
                return [0] * self.random.choice((1_000, 30_000))
            case _:
                return "x" * self.random.choice((2_000, 270_000))

    def nested(self, depth: int) -> object:
        """Return lists within lists."""
        found: object = 1
        for _ in range(depth):
            found = [found]
        return found

    def mutated(self, document: object, changes_max: int = 3) -> Any:  # noqa: ANN401 - any JSON
        """Return a copy of a JSON document with some of its parts replaced, removed or doubled."""
        copy = orjson.loads(orjson.dumps(document))
        for _ in range(self.random.randrange(changes_max + 1)):
            copy = self._changed(copy)
        return copy

    def _changed(self, found: object) -> object:
        random = self.random
        if isinstance(found, dict) and found and random.randrange(8):
            members = cast("dict[str, object]", found)
            name = random.choice(list(members))
            match random.randrange(5):
                case 0:
                    del members[name]
                case 1:
                    members[self.text()] = self.value()
                case _:
                    members[name] = self._changed(members[name])
            return members
        if isinstance(found, list) and found and random.randrange(8):
            listed = cast("list[object]", found)
            place = random.randrange(len(listed))
            listed[place] = self._changed(listed[place])
            return listed
        return self.value()

    def document(self, originals: Sequence[object]) -> bytes:
        """Return one of the documents as JSON, mutated; sometimes with damaged bytes."""
        text = encoded(self.mutated(self.random.choice(originals)))
        return self.damaged(text) if self.random.randrange(4) == 0 else text

    def damaged(self, content: bytes) -> bytes:
        """Return bytes with some replaced, cut off or repeated."""
        random, damaged = self.random, bytearray(content)
        for _ in range(random.randrange(1, 4)):
            at = random.randrange(len(damaged) + 1)
            match random.randrange(4):
                case 0:
                    damaged[at : at + 1] = bytes([random.randrange(256)])
                case 1:
                    del damaged[at:]
                case 2:
                    damaged[at:at] = damaged[at : at + random.randrange(200)] * 3
                case _:
                    damaged[at:at] = self.text().encode(errors="surrogatepass")
        return bytes(damaged)


def encoded(value: object) -> bytes:
    """Return JSON, whatever depth or number it has."""
    match value:
        case dict():
            members = cast("dict[str, object]", value)
            parts = [quoted(name) + b":" + encoded(each) for name, each in members.items()]
            return b"{" + b",".join(parts) + b"}"
        case list():
            depth, inner = 0, cast("list[object]", value)
            while len(inner) == 1 and isinstance(inner[0], list):
                depth, inner = depth + 1, cast("list[object]", inner[0])
            parts = [encoded(each) for each in inner]
            return b"[" * (depth + 1) + b",".join(parts) + b"]" * (depth + 1)
        case str():
            return quoted(value)
        case int() if not isinstance(value, bool):
            return str(value).encode()
        case _:
            return orjson.dumps(value)


def quoted(text: str) -> bytes:
    """Return a text as JSON; half a surrogate pair is an escape."""
    escaped = _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return f'"{escaped}"'.encode()
