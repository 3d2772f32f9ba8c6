"""The command `size`: what a ledger needs, computed without one."""

from typing import TYPE_CHECKING, Annotated

import typer

from dueledger.cli.options import JsonOption
from dueledger.cli.output import print_document, print_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dueledger.sizing import LedgerSize

app = typer.Typer(rich_markup_mode=None)


@app.command()
def size(
    items_per_day: Annotated[
        int, typer.Option("--items-per-day", min=1, max=10**12, help="Items due a day.")
    ],
    payload: Annotated[
        int, typer.Option("--payload", min=0, max=2**20, help="Bytes of a payload.")
    ],
    evidence: Annotated[
        int, typer.Option("--evidence", min=0, max=2**20, help="Bytes of what a handler returns.")
    ] = 0,
    key_chars: Annotated[
        int, typer.Option("--key-chars", min=1, max=1_000, help="Characters of a business key.")
    ] = 10,
    retention_days: Annotated[
        int, typer.Option("--retention-days", min=1, max=36_500, help="Days that items are kept.")
    ] = 400,
    ahead_days: Annotated[
        float,
        typer.Option(
            "--ahead-days",
            min=0,
            max=36_500,
            help="Days that items are emitted before they are due.",
        ),
    ] = 1.0,
    items_per_claim: Annotated[
        int,
        typer.Option(
            "--items-per-claim",
            min=1,
            max=20_000,
            help="Items claimed at a time: few where they are due evenly.",
        ),
    ] = 10,
    peak: Annotated[
        float | None,
        typer.Option(
            "--peak",
            min=0,
            help="Items a second at the peak; default: a day's items within one hour.",
        ),
    ] = None,
    direct: Annotated[
        bool, typer.Option("--direct", help="Workers claim themselves, without Kafka.")
    ] = False,
    json_: JsonOption = False,
) -> None:
    """Compute rows, disk, connections and cores for a number of items a day."""
    from dueledger.sizing import Load, size_of

    computed = size_of(
        Load(
            items_per_day,
            payload,
            retention_days=retention_days,
            evidence_bytes=evidence,
            key_chars=key_chars,
            ahead_days=ahead_days,
            items_per_claim=items_per_claim,
            peak_per_second=peak,
            is_direct=direct,
        )
    )
    if json_:
        print_document(computed.document())
        return
    for rows, columns in _tables(computed):
        print_rows(rows, columns, empty="")


def _tables(computed: "LedgerSize") -> "Iterator[tuple[list[dict[str, object]], list[str]]]":
    rows: list[dict[str, object]] = [
        {
            "table": name,
            "rows": count,
            "bytes_an_item": computed.bytes_per_item[name],
            "gigabytes": round(computed.disk_bytes[name] / 1e9, 2),
        }
        for name, count in computed.rows.items()
    ]
    rows.append({"table": "total", "gigabytes": round(computed.disk_bytes["total"] / 1e9, 2)})
    yield rows, ["table", "rows", "bytes_an_item", "gigabytes"]
    at = f"cores_at_{computed.peak_per_second:,.0f}_items_a_second"
    yield [{"of": name, at: each} for name, each in computed.cores.items()], ["of", at]
    column = "connections_each_at_most"
    rows = [
        {"process": name.replace("_", " "), column: count}
        for name, count in computed.connections_per_process.items()
    ]
    yield rows, ["process", column]
