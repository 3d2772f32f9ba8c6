"""Why items have not happened yet: the closed list of hindrances, each with its texts.

`why`, `status`, `doctor` and docs/why.md use these. A text names facts in braces: `why` fills them
in. What stands in backticks can be run as it is printed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Hindrance(StrEnum):
    """Codes of `dueledger why` and `status`; they are stable."""

    ENDED = "ENDED"
    MOVED = "MOVED"
    # Its time, and decisions of people.
    NOT_DUE = "NOT_DUE"
    CLOCK_BEHIND = "CLOCK_BEHIND"
    RETRY = "RETRY"
    SNOOZED = "SNOOZED"
    PUT_OFF = "PUT_OFF"
    RELEASED = "RELEASED"
    EXPIRED = "EXPIRED"
    PARKED = "PARKED"
    PAUSED = "PAUSED"
    OPERATION_RUNS = "OPERATION_RUNS"
    OPERATION_WAITS = "OPERATION_WAITS"
    OPERATION_PAUSED = "OPERATION_PAUSED"
    OPERATION_UNAPPROVED = "OPERATION_UNAPPROVED"
    # Its key.
    BEHIND = "BEHIND"
    BEHIND_PARKED = "BEHIND_PARKED"
    BEHIND_RETRY = "BEHIND_RETRY"
    OVERLAP = "OVERLAP"
    KEY_FREE = "KEY_FREE"
    # Processes that claim, and their servers.
    READ_ONLY = "READ_ONLY"
    NO_ALLOCATOR = "NO_ALLOCATOR"
    ALLOCATOR_SILENT = "ALLOCATOR_SILENT"
    NO_DIRECT_WORKER = "NO_DIRECT_WORKER"
    DIRECT_WORKER_SILENT = "DIRECT_WORKER_SILENT"
    NO_DIRECT_HANDLER = "NO_DIRECT_HANDLER"
    KAFKA_DOWN = "KAFKA_DOWN"
    CLAIMS_FAIL = "CLAIMS_FAIL"
    # Limits of its flow.
    CIRCUIT_OPEN = "CIRCUIT_OPEN"
    CIRCUIT_PROBING = "CIRCUIT_PROBING"
    CONCURRENCY = "CONCURRENCY"
    RATE = "RATE"
    WINDOW = "WINDOW"
    SILENT_CONSUMER = "SILENT_CONSUMER"
    # Its topic, and the workers that read it.
    TOPIC_UNAVAILABLE = "TOPIC_UNAVAILABLE"
    NO_WORKER = "NO_WORKER"
    WORKER_SILENT = "WORKER_SILENT"
    NO_HANDLER = "NO_HANDLER"
    JOINING = "JOINING"
    NO_CREDIT = "NO_CREDIT"
    NOT_CLAIMED = "NOT_CLAIMED"
    # It is handed out.
    WITHDRAWN = "WITHDRAWN"
    NO_UPKEEP = "NO_UPKEEP"
    LAPSED = "LAPSED"
    NOT_PUBLISHED = "NOT_PUBLISHED"
    UNREAD = "UNREAD"
    PARTITION_STALLED = "PARTITION_STALLED"
    HANDLERS_STALLED = "HANDLERS_STALLED"
    SUSPECT = "SUSPECT"
    NOT_STARTED = "NOT_STARTED"
    # It runs.
    NO_OUTCOME_INTAKE = "NO_OUTCOME_INTAKE"
    AWAITS_OUTCOME = "AWAITS_OUTCOME"
    RUN_LOST = "RUN_LOST"
    RUN_SILENT = "RUN_SILENT"
    RUNNING = "RUNNING"


@dataclass(frozen=True, slots=True)
class HindranceText:
    """What is said of one item, what to do about it, and what `status` says of a flow.

    No remedy: one can only wait. No `of_flow`: it is a hindrance of single items.
    """

    sentence: str
    remedy: str | None = None
    of_flow: str | None = None


TEXTS: Final[Mapping[Hindrance, HindranceText]] = {
    Hindrance.ENDED: HindranceText("It ended as {state} at {at}: {reason}."),
    Hindrance.MOVED: HindranceText("It has moved on since it was {state}: ask again."),
    Hindrance.NOT_DUE: HindranceText(
        "It is not due before {until}, {wait} from now.",
        "`dueledger trigger {id} --reason …` makes it available now.",
    ),
    Hindrance.CLOCK_BEHIND: HindranceText(
        "It is available at {until}, which is past by the machine's clock; but the ledger's clock "
        "is simulated, and says {now}.",
        "`alter database {database} reset ledger.clock` ends that; restart the processes.",
    ),
    Hindrance.RETRY: HindranceText(
        "Attempt {attempt} failed; the next is not before {until}, {wait} from now.",
        "`dueledger trigger {id} --reason …` makes it available now.",
        "They wait for their next attempt.",
    ),
    Hindrance.SNOOZED: HindranceText(
        "Its handler snoozed it until {until}, {wait} from now.",
        "`dueledger trigger {id} --reason …` makes it available now.",
    ),
    Hindrance.PUT_OFF: HindranceText(
        "{by} snoozed it until {until}, {wait} from now: {reason}.",
        "`dueledger trigger {id} --reason …` makes it available now.",
    ),
    Hindrance.RELEASED: HindranceText(
        "Its worker released it, and no attempt was counted: {reason}. It is handed out again at "
        "{until}, {wait} from now.",
        "Remove the cause. `dueledger trigger {id} --reason …` makes it available now.",
    ),
    Hindrance.EXPIRED: HindranceText(
        "It was handed out, and no worker started it before its queue deadline; it is handed out "
        "again at {until}, {wait} from now.",
        "Check that the workers for {kind} keep up; one more: `{work}`.",
    ),
    Hindrance.PARKED: HindranceText(
        "It waits for a person since {at}: {reason}.",
        "`dueledger redrive {id} --reason …` starts it again; `dueledger write-off {id} "
        "--reason …` ends it.",
        "They wait for a person: `dueledger reviews`.",
    ),
    Hindrance.PAUSED: HindranceText(
        "Its flow is paused since {at} by {by}, {end}: {reason}.",
        "`dueledger resume {scope}` ends the pause.",
        "Paused. `dueledger flow pauses` shows by whom and why.",
    ),
    Hindrance.OPERATION_RUNS: HindranceText(
        "Operation {operation} ({verb}) is to change it: {done} of {matched} items are done.",
        "`dueledger operation show {operation}` shows how far it is.",
    ),
    Hindrance.OPERATION_WAITS: HindranceText(
        "Operation {operation} ({verb}) is to change it, and no process carries operations out: "
        "{last}.",
        "Start one: `{claim}`.",
    ),
    Hindrance.OPERATION_PAUSED: HindranceText(
        "Operation {operation} ({verb}) is to change it, and is paused: {done} of {matched} items "
        "are done.",
        "`dueledger operation resume {operation} --reason …` lets it go on.",
    ),
    Hindrance.OPERATION_UNAPPROVED: HindranceText(
        "Operation {operation} ({verb}) is to change it, and waits until a second person approves "
        "it.",
        "`dueledger operation approve {operation} --reason …`, by somebody else than who asked, "
        "lets it begin.",
    ),
    Hindrance.BEHIND: HindranceText(
        "It waits until another item of its key ends: {behind}.",
        "`dueledger why {behind}` explains that one.",
        "They wait until another item of their key ends.",
    ),
    Hindrance.BEHIND_PARKED: HindranceText(
        "It waits until another item of its key ends: {behind}, which waits for a person: "
        "{reason}.",
        "`dueledger redrive {behind} --reason …` starts that one again; `dueledger write-off "
        "{behind} --reason …` ends it.",
    ),
    Hindrance.BEHIND_RETRY: HindranceText(
        "It waits until another item of its key ends: {behind}, which failed and is retried at "
        "{until}.",
        "`dueledger trigger {behind} --reason …` retries that one now.",
    ),
    Hindrance.OVERLAP: HindranceText(
        "By `overlap` of its definition it waits until an earlier item ends: {behind}.",
        "`dueledger why {behind}` explains that one.",
    ),
    Hindrance.KEY_FREE: HindranceText(
        "It waited for its key, which is free now; the next pass of upkeep makes it available."
    ),
    Hindrance.READ_ONLY: HindranceText(
        "The database {database} accepts no writes: {reason}.",
        "On the primary: `set default_transaction_read_only = off`, then `alter database "
        "{database} reset default_transaction_read_only`; restart the processes.",
        "The database accepts no writes.",
    ),
    Hindrance.NO_ALLOCATOR: HindranceText(
        "It is due since {due}, and no allocator runs: {last}.",
        "Start one: `dueledger allocate`.",
        "No allocator runs: `dueledger allocate`.",
    ),
    Hindrance.ALLOCATOR_SILENT: HindranceText(
        "It is due since {due}, and no allocator responds: {name} on {host} has been silent since "
        "{seen}; it is stopped, or hangs.",
        "End it, and start another one: `dueledger allocate`.",
        "Their allocator is stopped, or hangs: `dueledger doctor` names it.",
    ),
    Hindrance.NO_DIRECT_WORKER: HindranceText(
        "It is due since {due}, and no direct worker runs: {last}.",
        "Start one: `{work}`.",
        "No direct worker runs: `dueledger work --direct module:handlers`.",
    ),
    Hindrance.DIRECT_WORKER_SILENT: HindranceText(
        "It is due since {due}, and no direct worker responds: {name} on {host} has been silent "
        "since {seen}; it is stopped, or hangs.",
        "End it, and start another one: `{work}`.",
        "Their direct worker is stopped, or hangs: `dueledger doctor` names it.",
    ),
    Hindrance.NO_DIRECT_HANDLER: HindranceText(
        "It is due since {due}, and no live direct worker has a handler for {kind}: {last}; those "
        "that live have handlers for {kinds}.",
        "Start one that has: `{work}`.",
        "No live direct worker has a handler for them.",
    ),
    Hindrance.KAFKA_DOWN: HindranceText(
        "Kafka has not responded to {name} since {at}: {failure}",
        "Start the brokers, or correct DUELEDGER_BOOTSTRAP_SERVERS; `dueledger doctor` tries each "
        "of them.",
        "Kafka does not respond: `dueledger doctor`.",
    ),
    Hindrance.CLAIMS_FAIL: HindranceText(
        "No process can claim it; the attempts of {name} fail since {at}: {failure}",
        "Remove the cause; the log has `tick.failed` with all of the error.",
        "The attempts to claim them fail: `dueledger doctor` says why.",
    ),
    Hindrance.CIRCUIT_OPEN: HindranceText(
        "Its flow failed too often: the circuit is open since {at}. A probe is allowed {rest} "
        "seconds after it opened.",
        "`dueledger flow set {flow} --circuit none` removes the circuit.",
        "Too many items failed: the circuit is open.",
    ),
    Hindrance.CIRCUIT_PROBING: HindranceText(
        "Its flow failed too often: the circuit is half-open since {at}, and one item, the probe, "
        "closes it or opens it again.",
        "`dueledger flow set {flow} --circuit none` removes the circuit.",
        "Too many items failed: the circuit is half-open, and waits for its probe.",
    ),
    Hindrance.CONCURRENCY: HindranceText(
        "Its flow may have {limit} items handed out and running at once, and has {in_flight}.",
        "`dueledger flow set {flow} --concurrency none` removes the limit.",
        "As many items are in flight as `flow set --concurrency` allows.",
    ),
    Hindrance.RATE: HindranceText(
        "Its flow is limited to {limit} items a second, and {before} items are before it: it "
        "starts at about {until}.",
        "`dueledger flow set {flow} --rate none` removes the limit.",
        "More items are due than `flow set --rate` allows.",
    ),
    Hindrance.WINDOW: HindranceText(
        "Its flow may have {limit} items handed out and not {settled}, and has {in_flight}.",
        "Check that its consumers keep up, or `dueledger flow set {flow} --window {more}`.",
        "As many items are handed out as `flow set --window` allows.",
    ),
    Hindrance.SILENT_CONSUMER: HindranceText(
        "No outcomes are reported for {topic}, so since {at} its flow is handed one item at a "
        "time.",
        "Check that the consumer of {topic} runs, and `dueledger work --outcomes`: the next "
        "reported outcome ends the limit.",
        "No outcomes are reported: one item is handed out at a time.",
    ),
    Hindrance.TOPIC_UNAVAILABLE: HindranceText(
        "Nothing can be published to {topic}: {reason}.",
        "Make the topic, or let the allocator's login make and write it; it is tried again every "
        "few seconds.",
        "Nothing can be published to their topic: `dueledger why` says why.",
    ),
    Hindrance.NO_WORKER: HindranceText(
        "It is due since {due}, and no worker runs that could take it: {last}.",
        "Start one: `{work}`.",
        "No live worker takes them: `dueledger work module:handlers`.",
    ),
    Hindrance.WORKER_SILENT: HindranceText(
        "No worker responds: {name} on {host} has been silent since {seen}; it is stopped, or "
        "hangs.",
        "End it, and start another one: `{work}`.",
        "Their worker is stopped, or hangs: `dueledger doctor` names it.",
    ),
    Hindrance.NO_HANDLER: HindranceText(
        "It is due since {due}, and no live worker reads {topic}: {last}; those that live have "
        "handlers for {kinds}.",
        "Start one that has a handler for {kind}: `{work}`.",
        "No live worker reads their topic.",
    ),
    Hindrance.JOINING: HindranceText(
        "It is due since {due}, and a worker that has a handler for {kind} has asked for no items "
        "of {topic} yet: it joins its consumer group.",
        "That takes seconds. If it lasts, see whether the worker reaches the brokers: `dueledger "
        "doctor` in its environment.",
        "Their worker joins its consumer group.",
    ),
    Hindrance.NO_CREDIT: HindranceText(
        "The workers of {topic} want {granted} items waiting for them, and {outstanding} "
        "are{since}.",
        "Start more of them: `{work}`.",
        "Their workers have as many items as they want: start more of them.",
    ),
    Hindrance.NOT_CLAIMED: HindranceText(
        "It is due since {due}, nothing known hinders it, and {before} items of its flow are "
        "before it.",
        "It is about to be claimed. If not, see `tick.failed` and `claim.refused` in the log of "
        "{name}.",
        "Nothing known hinders them: they are about to be claimed.",
    ),
    Hindrance.WITHDRAWN: HindranceText(
        "{by} asked to end it at {at}, while it was handed out: {reason}. It ends when its run "
        "or claim does."
    ),
    Hindrance.NO_UPKEEP: HindranceText(
        "{what}, and no process runs upkeep, which would release it: {last}.",
        "Start one: `{claim}`.",
    ),
    Hindrance.LAPSED: HindranceText("{what}; the next pass of upkeep releases it."),
    Hindrance.NOT_PUBLISHED: HindranceText(
        "It was claimed at {at} by {name} ({status}), and Kafka has not acknowledged it. It is "
        "claimed again if that does not happen until {until}."
    ),
    Hindrance.UNREAD: HindranceText(
        "It lies in partition {partition} of {topic} at offset {offset} since {at}, and no live "
        "worker reads it: {last}.",
        "Start one: `{work}`.",
    ),
    Hindrance.PARTITION_STALLED: HindranceText(
        "It lies in partition {partition} of {topic} at offset {offset}, and the worker that has "
        "the partition has read nothing{next} since {at}.",
        "Check that the worker reaches the brokers: `dueledger doctor` in its environment. It "
        "joins its group anew by itself; when the claim's deadline passes the item is handed out "
        "again.",
        "Handed out, and the worker gets no further: `dueledger doctor`.",
    ),
    Hindrance.HANDLERS_STALLED: HindranceText(
        "It lies in partition {partition} of {topic} at offset {offset}, and the worker that has "
        "the partition has begun nothing{next} since {at}.",
        "Look in the worker's log for handlers that hang, or start more workers. When the claim's "
        "deadline passes the item is handed out again.",
    ),
    Hindrance.SUSPECT: HindranceText(
        "Its worker died while it ran; it waits to run in a process of its own.",
        "Check that the workers for {kind} keep up; one more: `{work}`.",
    ),
    Hindrance.NOT_STARTED: HindranceText(
        "It lies in partition {partition} of {topic} at offset {offset} since {at}, and {before} "
        "items are before it there. It is handed out again if no worker starts it until {until}.",
        "Check that the workers for {kind} keep up; one more: `{work}`.",
        "Handed out, and not started yet.",
    ),
    Hindrance.NO_OUTCOME_INTAKE: HindranceText(
        "It lies in partition {partition} of {topic} at offset {offset} since {at}, and no "
        "process records outcomes: {last}.",
        "Start one: `dueledger work --outcomes`.",
    ),
    Hindrance.AWAITS_OUTCOME: HindranceText(
        "It lies in partition {partition} of {topic} at offset {offset} since {at}, and the "
        "topic's consumer has reported no outcome; it may until {until}.",
        "Check that the consumer of {topic} runs.",
    ),
    Hindrance.RUN_LOST: HindranceText(
        "{name} on {host} ran it and is gone, last seen at {seen}; its lease ends at {until}, or "
        "earlier if it lost its lock, and then it runs again."
    ),
    Hindrance.RUN_SILENT: HindranceText(
        "{name} on {host} runs it and has been silent since {seen}: it is stopped, or hangs. Its "
        "lease ends at {until}, and then it runs again."
    ),
    Hindrance.RUNNING: HindranceText(
        "{name} runs it now, since {at} (run {run}).", of_flow="Running."
    ),
}
