"""The privileges that statements need, as the server's own plans list them."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from dueledger.ledger.store import Connection
from dueledger.ledger.store.statements import parse_statement

_PERMISSIONS: Final = re.compile(
    r"\{RTEPERMISSIONINFO :relid (?P<relid>\d+) :inh \w+ :requiredPerms (?P<verbs>\d+)"
    r" :checkAsUser 0 :selectedCols \(b(?P<select>[\d ]*)\)"
    r" :insertedCols \(b(?P<insert>[\d ]*)\) :updatedCols \(b(?P<update>[\d ]*)\)\}"
)
"""Of tables that are read or written with the caller's own rights."""
_FUNCTION: Final = re.compile(r"\{FUNCEXPR :funcid (\d+)")
_SEQUENCE: Final = re.compile(r"\bnextval\('(ledger\.\w+)'")
_VERBS: Final = {1: "insert", 2: "select", 4: "update", 8: "delete"}
_FIRST_COLUMN: Final = -7
"""The system column by which column numbers begin in the server's sets."""

ANY_COLUMN: Final = "any"
"""A row lock needs the update of some column."""


class Privilege(NamedTuple):
    """A verb on a table, its column, a function or a sequence."""

    verb: str
    object: str
    column: str = ""


# Functions with the rights of their caller that read or write: calls that plan all of a body.
CALLER_FUNCTIONS: Final = {
    "accounting": "select * from ledger.accounting()",
    "approval_above": "select ledger.approval_above(row('cancel', null, null, null, null, null, "
    "null, true, now(), 1, null, null, null, null, null)::ledger.item_filter, '{}', true)",
    "count_outcomes": "select ledger.count_outcomes(array[1], array[1], array[1], array[1])",
    "completed_since": "select ledger.completed_since(1, 'key', now())",
    "examine_items": "select * from ledger.examine_items(row('cancel', null, null, null, "
    "null, null, null, true, now(), 1, null, null, null, null, null)::ledger.item_filter, 0, 1)",
    "examine_flow_items": "select * from ledger.examine_flow_items(row('cancel', null, null, null, "
    "null, null, null, true, now(), 1, null, null, null, null, null)::ledger.item_filter, 1)",
    "find_claim": "select * from ledger.find_claim(1, now(), 'token')",
    "find_run": "select * from ledger.find_run(1, now())",
    "find_due_at": "select ledger.find_due_at('2027-03-01', 1)",
    "find_ended_at": "select ledger.find_ended_at('2027-03-01', 1)",
    "find_endings": "select * from ledger.find_endings("
    "array[1], array[date '2027-03-01'], array[1], array[1])",
    "find_items": "select * from ledger.find_items(array[row("
    "'2027-03-01', array[1], 1, 1, null)::ledger.item_group])",
    "find_item_columns": "select * from ledger.find_item_columns(array[row("
    "'2027-03-01', array[1], 1, 1, null)::ledger.item_group])",
    "find_published_claim": "select * from ledger.find_published_claim(1, now())",
    "find_retired": "select ledger.find_retired(array[gen_random_uuid()])",
    "find_topic_run": "select * from ledger.find_topic_run(1, now(), 1)",
    "list_in_flight": "select * from ledger.list_in_flight(array[1])",
    "list_runs": "select * from ledger.list_runs(array[1], now(), now())",
    "fit_bytes": "select ledger.fit_bytes('{\"(0,1)\"}', 1)",
    "match_items": "select * from ledger.match_items(row('cancel', null, null, null, "
    "null, null, null, true, now(), 1, null, null, null, null, null)::ledger.item_filter, 0, 1, 1)",
    "not_before": "select ledger.not_before(1, now())",
    "record_outcomes": "select * from ledger.record_outcomes(array[row("
    "1, '2027-03-01', 1, 6, 1, 1, true, false, 1, null, 'x', null)::ledger.item_outcome], 1)",
}


class PrivilegeReader:
    """Reads what statements need on a connection of the database's owner."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._notices: list[str] = []
        self._relations: dict[int, str] = {}
        self._columns: dict[tuple[int, int], str] = {}
        self._functions: dict[int, str] = {}
        self._of_functions: dict[str, set[Privilege]] = {}

    async def open(self) -> None:
        """Read the catalog, and let the server send its plans."""
        fetch = self._connection.fetch
        for row in await fetch(
            "select a.attrelid::bigint, c.oid::regclass::text as relation, a.attnum, a.attname"
            " from pg_attribute a join pg_class c on c.oid = a.attrelid"
            " where c.relnamespace in ('ledger'::regnamespace, 'ledger_migration'::regnamespace)"
        ):
            self._relations[row["attrelid"]] = row["relation"]
            self._columns[row["attrelid"], row["attnum"]] = row["attname"]
        for row in await fetch(
            "select p.oid::bigint, p.proname from pg_proc p"
            " where p.pronamespace = 'ledger'::regnamespace"
        ):
            self._functions[row["oid"]] = row["proname"]
        self._connection.add_log_listener(self._listen)
        await self._connection.execute(
            "set debug_print_parse = on; set debug_print_plan = on; set debug_pretty_print = off"
        )
        for name, call in CALLER_FUNCTIONS.items():
            self._of_functions[name] = await self._heard("begin", call, "rollback")

    def _listen(self, _: object, notice: object) -> None:
        plan = f"{notice!s} {getattr(notice, 'detail', '')}"
        self._notices.append(" ".join(plan.split()))  # its lines are broken anywhere

    async def read(self, path: Path) -> set[Privilege]:
        """Return what the statement needs of its caller."""
        text = parse_statement(path).text
        needed = await self._heard(
            f"prepare heard as {text}", f"explain (generic_plan) {text}", "deallocate heard"
        )
        needed.update(Privilege("usage", name) for name in _SEQUENCE.findall(text))
        calls: set[str] = set()
        while more := {each.object for each in needed} & self._of_functions.keys() - calls:
            calls |= more
            needed.update(*(self._of_functions[name] for name in more))
        return needed

    async def _heard(self, *commands: str) -> set[Privilege]:
        """Return what the server says that commands need, while it sends its plans."""
        self._notices.clear()
        await self._connection.execute("set client_min_messages = log")
        for command in commands:
            await self._connection.execute(command)
        await self._connection.execute("reset client_min_messages")
        await asyncio.sleep(0)  # listeners are called by the event loop
        return set(self._privileges())

    def _privileges(self) -> Iterator[Privilege]:
        for notice in self._notices:
            for oid in _FUNCTION.findall(notice):
                if name := self._functions.get(int(oid)):
                    yield Privilege("execute", name)
            for found in _PERMISSIONS.finditer(notice):
                yield from self._of_table(found)

    def _of_table(self, found: re.Match[str]) -> Iterator[Privilege]:
        relation = int(found["relid"])
        if relation not in self._relations:
            return
        for bit, verb in _VERBS.items():
            if not int(found["verbs"]) & bit:
                continue
            columns = [] if verb == "delete" else [int(each) for each in found[verb].split()]
            for column in self._named(relation, columns) or [ANY_COLUMN]:
                yield Privilege(verb, self._relations[relation], column)

    def _named(self, relation: int, columns: list[int]) -> list[str]:
        numbers = [each + _FIRST_COLUMN for each in columns]
        return [
            name
            for (table, number), name in self._columns.items()
            if table == relation
            and number > 0
            and (number in numbers or 0 in numbers)  # 0: the row
        ]
