"""The witness: one child process that answers many questions, each within a second of CPU."""

import json
import selectors
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path
from time import monotonic, thread_time
from types import TracebackType
from typing import Any, Final, Self, TypeGuard, final

from dueledger.ledger.schedule import Cron, Rrule
from dueledger.ledger.witness.questions import NotAsked, WitnessQuestion, ask_about

ANSWER_SECONDS: Final = 1.0
"""The limit of an answer in CPU time, which the kernel keeps."""

_ELAPSED_FACTOR: Final = 10
"""So many times as long is waited: a busy machine must not change what is said of a schedule."""

_START_SECONDS: Final = 10.0
_READ_BYTES: Final = 65_536
_LIBRARIES: Final = Path(__file__).with_name("libraries.py")


class Agreement(StrEnum):
    """Whether a library finds the times that we find."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    NOT_WITNESSED = "not_witnessed"


@dataclass(frozen=True, slots=True)
class WitnessedTimes:
    """The nominal local times of a schedule by our expansion and by a library.

    `reason` says why it is not witnessed; `package` is None if none was asked.
    """

    agreement: Agreement
    package: str | None = None
    ours: tuple[datetime, ...] = ()
    theirs: tuple[datetime, ...] = ()
    reason: str | None = None

    @property
    def parts_after(self) -> int:
        """Return how many times both have before they part."""
        both = zip(self.ours, self.theirs, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], both))

    def __str__(self) -> str:
        if self.agreement is Agreement.AGREES:
            return f"{self.package} agrees on the next {len(self.ours)} times"
        if self.agreement is Agreement.NOT_WITNESSED:
            return f"not witnessed: {self.reason}"
        number = self.parts_after
        ours, theirs = (_nth(times, number) for times in (self.ours, self.theirs))
        return f"{self.package} disagrees from time {number + 1} on: here {ours}, there {theirs}"


def is_witnessed(when: object) -> TypeGuard[Cron | Rrule]:
    """Return whether a library exists for this kind of `when`. Fixed rates need none."""
    return isinstance(when, Cron | Rrule)


@final
class Witness:
    """Asks the libraries, in a child process that starts at the first question.

    One that takes too long is killed, and the next question starts another. `cpu_seconds` is what
    questions and answers have taken so far.
    """

    def __init__(self, answer_seconds: float = ANSWER_SECONDS) -> None:
        self._answer_seconds = answer_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: dict[str, WitnessedTimes] = {}
        self._of_process = 0.0
        self.cpu_seconds = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def ask(self, when: Cron | Rrule, since: datetime) -> WitnessedTimes:
        """Return both sides of the next times of a schedule from `since` on."""
        began = thread_time()
        try:
            asked = ask_about(when, since)
        except NotAsked as refusal:
            return WitnessedTimes(Agreement.NOT_WITNESSED, reason=str(refusal))
        finally:
            self.cpu_seconds += thread_time() - began
        line = json.dumps(asked.question)
        if line not in self._answers:
            self._answers[line] = self._compare(asked, line)
        return self._answers[line]

    def _compare(self, asked: WitnessQuestion, line: str) -> WitnessedTimes:
        library = f"{asked.package} {version(asked.package)}"
        answer = self._exchange(line)
        if isinstance(answer, str):
            reason = f"{library} {answer}"
            return WitnessedTimes(Agreement.NOT_WITNESSED, library, asked.ours, reason=reason)
        theirs = tuple(map(datetime.fromisoformat, answer))
        agreement = Agreement.AGREES if theirs == asked.ours else Agreement.DISAGREES
        return WitnessedTimes(agreement, library, asked.ours, theirs)

    def _exchange(self, line: str) -> list[str] | str:
        """Return the times that the library finds, or why there is no answer."""
        process = self._process or self._start()
        if process is None or process.stdin is None:
            return "cannot be started"
        try:
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
        except OSError:
            received = None
        else:
            received = self._read(process, self._answer_seconds * _ELAPSED_FACTOR)
        if received is None:
            return self._describe_end()
        spent: float = received["cpu_seconds"]
        self.cpu_seconds += spent - self._of_process
        self._of_process = spent
        refusal: str | None = received.get("refusal")
        return received["times"] if refusal is None else f"cannot read it: {refusal}"

    def _describe_end(self) -> str:
        """End the process that gave no answer, and say why."""
        process = self._process
        code = None if process is None else process.poll()
        self.cpu_seconds += self._answer_seconds
        self._end()
        if code in {None, -signal.SIGPROF}:
            return f"gave no answer within {self._answer_seconds:g} s"
        return f"ended without an answer, with code {code}"

    def _start(self) -> subprocess.Popen[bytes] | None:
        command = [sys.executable, "-P", str(_LIBRARIES), str(self._answer_seconds)]
        self._process = process = subprocess.Popen(  # noqa: S603 - a list of our own, no shell
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self._of_process = 0.0
        if self._read(process, _START_SECONDS) is None:
            self._end()
        return self._process

    def _read(self, process: subprocess.Popen[bytes], seconds: float) -> dict[str, Any] | None:
        """Return the next line of the process, or None if it ends or takes longer."""
        if process.stdout is None:
            return None
        deadline, text = monotonic() + seconds, b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not text.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - monotonic())):
                    return None
                if not (part := process.stdout.read(_READ_BYTES)):
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(_START_SECONDS)
                    return None
                text += part
        return json.loads(text)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with process:  # closes its pipes and waits for it
                pass


def _nth(times: tuple[datetime, ...], number: int) -> str:
    return times[number].isoformat() if number < len(times) else "nothing more"
