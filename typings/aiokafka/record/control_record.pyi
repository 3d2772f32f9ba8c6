from typing import Self

class ControlRecord:
    @classmethod
    def parse(cls, data: bytes) -> Self: ...

ABORT_MARKER: ControlRecord
