"""Edits of the columns of a ledger's rows, each of which is put back."""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import asyncpg
import orjson

from dueledger.ledger.store import Connection, Record

NOBODY: Final = 4711
"""A number that no row has."""
ACTOR_COLUMNS: Final = frozenset(
    {"actor_no", "allocator_no", "paused_by", "resumed_by", "topic_actor_no", "worker_no"}
)
COLUMNS: Final = """
select table_name || '.' || column_name as name,
  case data_type when 'ARRAY' then udt_name else data_type end as data_type,
  is_nullable = 'YES' as is_nullable
from information_schema.columns
where table_schema = 'ledger' and table_name = any ($1::text[]) and is_generated = 'NEVER'
order by table_name, ordinal_position
"""
# Rows with and without a value alternate; of each, those of a definition and open ones come first:
# what a service emitted, nothing else says.
ROWS: Final = """
select t::text as was, to_jsonb(t) as columns from ledger.{table} t
where to_jsonb(t) ->> 'name' is distinct from 'reconciler:test' -- its passes are what finds
order by
  row_number() over (
    partition by t.{column} is null
    order by to_jsonb(t) ->> 'definition_no' is null, to_jsonb(t) ->> 'closed_at' is not null,
      md5($1 || t::text)),
  t.{column} is null
limit $2
"""
# Of each kind of row some.
ANY_ROWS: Final = """
select t.was, t.columns from (
  select t::text as was, to_jsonb(t) as columns, ctid from ledger.{table} t
  where to_jsonb(t) ->> 'name' is distinct from 'reconciler:test'
) t
order by row_number() over (
  partition by t.columns ->> 'event', t.columns ->> 'kind', t.columns ->> 'type',
    t.columns ->> 'closed_at' is null, t.columns ->> 'definition_no' is null,
    t.columns ->> 'run_no' is null
  order by md5($1 || t.was))
limit $2
"""
OTHERS: Final = """
select to_jsonb(o.value) from (
  select distinct on (t.{column}::text) t.{column} as value from ledger.{table} t
  where t.{column}::text is distinct from $2
) o
order by md5($1 || o.value::text) limit 1
"""
ACTORS: Final = """
select to_jsonb(a.actor_no) from ledger.actor a where a.actor_no::text is distinct from $2
order by md5($1 || a.name) limit 2
"""
DELETE: Final = "delete from ledger.{table} t where t::text = $1"
INSERT: Final = """
insert into ledger.{table} ({columns}) overriding system value
select {columns} from jsonb_populate_record($1::text::ledger.{table}, $2::jsonb)
returning {table}::text
"""
WRITTEN: Final = """
select string_agg(quote_ident(column_name), ', ') from information_schema.columns
where table_schema = 'ledger' and table_name = $1 and is_generated = 'NEVER'
"""
CHECKS: Final = """
select conname as name, pg_get_constraintdef(oid) as definition from pg_constraint
where conrelid = $1::text::regclass and contype = 'c' and coninhcount = 0
"""


@dataclass(frozen=True, slots=True)
class Edited:
    """A row that was edited, as it was and as it is; `columns` are those before."""

    table: str
    was: str
    became: str
    columns: Mapping[str, Any]
    value: Any


@dataclass(slots=True)
class Editor:
    """Edits columns of the ledger; the seed chooses rows and values."""

    connection: Connection
    seed: str
    rows_max: int
    _columns: str = ""

    async def edits(self, column: Record) -> AsyncGenerator[Edited]:
        """Change a column of some rows, one after another, and put each back.

        A value that its table refuses is left out, unless it refuses all of them: then without the
        checks of the table.
        """
        made = False
        async for edited in self._accepted(column):
            made = True
            yield edited
        if not made:
            async with self._unchecked(column["name"].split(".")[0]):
                async for edited in self._accepted(column):
                    yield edited

    async def removals(self, table: str) -> AsyncGenerator[Edited]:
        """Remove some rows of a table, one after another, and put each back."""
        self._columns = await self.connection.fetchval(WRITTEN, table)
        rows = await self.connection.fetch(ANY_ROWS.format(table=table), self.seed, self.rows_max)
        assert rows, table
        for row in rows:
            await self.connection.execute(DELETE.format(table=table), row["was"])
            yield Edited(table, row["was"], "", row["columns"], None)
            await self.connection.execute(
                INSERT.format(table=table, columns=self._columns), row["was"], "{}"
            )

    async def _accepted(self, column: Record) -> AsyncGenerator[Edited]:
        table, name = column["name"].split(".")
        query = ROWS.format(table=table, column=name)
        self._columns = await self.connection.fetchval(WRITTEN, table)
        rows = await self.connection.fetch(query, self.seed, self.rows_max)
        assert rows, table
        for row in rows:
            for value in await self._values(column, row["columns"][name]):
                edited = await self._edit(table, name, row, value)
                if edited is not None:
                    yield edited
                    await self._undo(edited)

    async def _values(self, column: Record, value: Any) -> list[Any]:  # noqa: ANN401 - of any type
        """Return other values: of its type, of other rows, of other actors."""
        table, name = column["name"].split(".")
        values = list(_others(value, column["data_type"], nullable=column["is_nullable"]))
        text = None if value is None else str(value)
        queries = [OTHERS.format(table=table, column=name)]
        if name in ACTOR_COLUMNS:
            queries.append(ACTORS)
        for query in queries:
            values += [row[0] for row in await self.connection.fetch(query, self.seed, text)]
        return [each for n, each in enumerate(values) if each not in values[:n]]

    async def _edit(
        self,
        table: str,
        name: str,
        row: Record,
        value: Any,  # noqa: ANN401 - of any type
    ) -> Edited | None:
        was, change = row["was"], orjson.dumps({name: value}).decode()
        try:
            async with self.connection.transaction():
                await self.connection.execute(DELETE.format(table=table), was)
                became = await self.connection.fetchval(
                    INSERT.format(table=table, columns=self._columns), was, change
                )
        except asyncpg.IntegrityConstraintViolationError:
            return None
        edited = Edited(table, was, became, row["columns"], value)
        if became != was:
            return edited
        await self._undo(edited)  # the value only looked like another
        return None

    async def _undo(self, edited: Edited) -> None:
        async with self.connection.transaction():
            deleted = await self.connection.execute(
                DELETE.format(table=edited.table), edited.became
            )
            assert deleted == "DELETE 1"
            await self.connection.execute(
                INSERT.format(table=edited.table, columns=self._columns), edited.was, "{}"
            )

    @asynccontextmanager
    async def _unchecked(self, table: str) -> AsyncGenerator[None]:
        """Lift the checks of a table."""
        checks = await self.connection.fetch(CHECKS, f"ledger.{table}")
        for check in checks:
            await self.connection.execute(
                f"alter table ledger.{table} drop constraint {check['name']}"
            )
        yield
        for check in checks:
            await self.connection.execute(
                f"alter table ledger.{table} add constraint {check['name']} {check['definition']}"
            )


def _others(value: Any, type_: str, *, nullable: bool) -> Iterator[Any]:  # noqa: ANN401 - of any type
    """Yield other values of a type."""
    if nullable and value is not None:
        yield None
    if type_ in {"smallint", "integer", "bigint", "double precision"}:
        yield from ((value or 0) + 1, max(0, (value or 0) - 1), NOBODY)
    elif type_ in {"date", "timestamp with time zone"}:
        at = datetime.fromisoformat(value if value and value != "infinity" else "2027-04-01")
        for by in (timedelta(days=1), -timedelta(days=3)):
            yield (at + by).isoformat()[: 10 if type_ == "date" else None]
    elif type_ == "bit varying":
        yield "".join("10"[int(bit)] for bit in value or "0")
    elif type_.startswith("_"):
        first, *others = reversed(value or (["acme"] if type_ == "_text" else [0]))
        # The last: of an open claim it is not started.
        last = first + 1 if isinstance(first, int) else "2027-04-30"
        yield [*reversed(others), last]
    elif type_ == "text":
        yield f"{value or ''}x"
        if value:
            yield ("a" if value[0] != "a" else "b") + value[1:]
    else:
        yield {
            "boolean": not value,
            "uuid": "00518e1a-afd2-82d7-9f6a-3b95e30f012d",
            "json": {"edited": True},
            "jsonb": {"edited": True},
        }[type_]
