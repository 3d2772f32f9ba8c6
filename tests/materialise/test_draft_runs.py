"""Items emitted as columns are the items that their drafts say, one by one."""

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.materialise import Materialiser, MaterialiserSettings
from dueledger.ledger.rules.draft_runs import DraftRun
from dueledger.ledger.rules.schedule_drafts import draft_window, expand_schedule
from dueledger.ledger.store import Connection
from dueledger.ledger.store.item_runs import ItemRun, split_runs

from .conftest import DAY, SetSchedule, SetTime, tick_until_idle

FOLD_DAY = datetime(2027, 11, 7, tzinfo=UTC)
NEW_YORK = "America/New_York"
OFTEN = {"cron": "*/10 * * * *", "timezone": NEW_YORK, "gap": "skip", "fold": "both"}
SCHEDULES: dict[str, dict[str, Any]] = {
    "twice": {"when": OFTEN},
    "spans": {"when": {"every": "PT1007S", "anchor": "2027-01-01T00:00:00.25Z"}},
    "terms": {
        "when": OFTEN,
        "sla": {"start_within": "PT5M", "complete_within": "PT1H"},
        "labels": {"region": "north"},
        "lane": "region",
        "payload": {"n": 1},
        "overlap": "skip",
    },
    "alone": {"when": OFTEN, "sla": {"complete_within": "PT2H"}, "overlap": "cancel_other"},
    "kept": {
        "when": {"cron": "0 * * * *", "timezone": "UTC"},
        "calendar": {"weekend": ["mon"], "roll": "skip"},
    },
    "moved": {"when": OFTEN, "smear": "PT5M"},
}
COLUMNS = (
    "business_key, cycle, effective_date, due_at, start_by, complete_by, nominal, zone, decision,"
    " smear_seconds, tzdata, overlap, payload::text as payload, labels::text as labels"
)


def documents(kind: str) -> dict[str, dict[str, Any]]:
    common = {"tenant": "acme", "kind": kind}
    return {
        name: {"definition": name, "business_key": name} | common | each
        for name, each in SCHEDULES.items()
    }


def test_a_run_has_the_drafts_that_are_made_one_by_one_where_some_were_missed() -> None:
    end = FOLD_DAY + timedelta(days=1)
    for name, document in documents("Tick").items():
        definition = parse_definition(document)
        window = expand_schedule(definition, FOLD_DAY, end)
        run = draft_window(definition, window, end).drafts
        assert isinstance(run, DraftRun) == (name != "moved")
        assert len(run) == len(window.occurrences) > 20
        second = window.occurrences[1].due_at
        one_by_one = draft_window(definition, window, end, owed_from=second).drafts
        assert not isinstance(one_by_one, DraftRun)
        assert [run[place] for place in range(1, len(run))] == one_by_one
        assert run[1:] == one_by_one
        assert run[1:] != one_by_one[1:]


def test_runs_are_split_into_batches_that_lose_none_and_repeat_none() -> None:
    definition = parse_definition(documents("Tick")["terms"])
    window = expand_schedule(definition, FOLD_DAY, FOLD_DAY + timedelta(hours=3))
    drafts = draft_window(definition, window, FOLD_DAY + timedelta(hours=3)).drafts
    assert isinstance(drafts, DraftRun)
    runs = [ItemRun(number, drafts[:count], FOLD_DAY) for number, count in enumerate((18, 0, 3, 7))]
    everything = [(run.definition_no, draft) for run in runs for draft in run.drafts]
    for most in (1, 5, 7, 18, 28, 100):
        batches = list(split_runs(runs, most))
        counts = [sum(len(run.drafts) for run in batch) for batch in batches]
        assert counts[:-1] == [most] * (len(counts) - 1)
        assert 0 < counts[-1] <= most
        split = [
            (run.definition_no, draft) for batch in batches for run in batch for draft in run.drafts
        ]
        assert split == everything


async def test_g1_the_rows_of_a_run_are_its_drafts(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    settings: MaterialiserSettings,
    connection: Connection,
    kind: str,
) -> None:
    await set_time(FOLD_DAY)
    numbers = {
        name: await set_schedule(name, effective_from=FOLD_DAY, **document)
        for name, document in SCHEDULES.items()
    }
    await tick_until_idle(materialiser)
    until = FOLD_DAY + timedelta(seconds=DAY + settings.materialise_stride_seconds)
    for name, document in documents(kind).items():
        definition = parse_definition(document)
        window = expand_schedule(definition, FOLD_DAY, until)
        rows = await connection.fetch(
            f"select {COLUMNS} from ledger.due_item i"  # noqa: S608 - constants
            " where definition_no = $1 and not exists (select from ledger.transition t"
            " where t.item_no = i.item_no and t.effective_date = i.effective_date)"
            " order by due_at, cycle",
            numbers[name],
        )
        drafts = list(draft_window(definition, window, until).drafts)
        assert len(rows) == len(drafts)
        for row, draft in zip(rows, drafts, strict=True):
            found = dict(row)
            assert orjson.loads(found.pop("payload")) == orjson.loads(draft.payload)
            assert (found.pop("labels") is None) == (draft.labels is None)
            assert found == {field: getattr(draft, field) for field in found}
