"""A finding by column, wherever it is recorded."""

from typing import Any, Protocol


class FindingRow(Protocol):
    """A finding by column, as `list_findings` has it."""

    def __getitem__(self, name: str, /) -> Any:  # noqa: ANN401 - values of a row
        ...
