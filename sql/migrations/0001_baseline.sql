-- The baseline: the files of sql/schema, in an order that loads.

\ir ../schema/roles.sql
\ir ../schema/functions/clock.sql
\ir ../schema/functions/identity.sql

\ir ../schema/tables/cell.sql
\ir ../schema/tables/state.sql
\ir ../schema/tables/actor.sql
\ir ../schema/tables/kind.sql
\ir ../schema/tables/flow.sql
\ir ../schema/tables/pause.sql
\ir ../schema/tables/credit.sql
\ir ../schema/tables/definition.sql
\ir ../schema/tables/calendar.sql
\ir ../schema/tables/tz_change.sql
\ir ../schema/tables/event.sql
\ir ../schema/tables/due_item.sql
\ir ../schema/tables/transition.sql
\ir ../schema/tables/pending.sql
\ir ../schema/tables/claim.sql
\ir ../schema/tables/run.sql
\ir ../schema/tables/review.sql
\ir ../schema/tables/withdrawal.sql
\ir ../schema/tables/rejected_write.sql
\ir ../schema/tables/partition_span.sql
\ir ../schema/tables/reconciliation.sql
\ir ../schema/tables/finding.sql

\ir ../schema/functions/partition_start.sql
\ir ../schema/functions/make_partition.sql
\ir ../schema/functions/finish_month.sql
\ir ../schema/functions/lock_partitions.sql
\ir ../schema/functions/none_lost.sql
\ir ../schema/functions/assign_cell.sql
\ir ../schema/functions/lift_sequence.sql
\ir ../schema/functions/list_sequences.sql
\ir ../schema/functions/find_claim.sql
\ir ../schema/functions/register_actor.sql
\ir ../schema/functions/ensure_flows.sql
\ir ../schema/functions/emit_items.sql
\ir ../schema/functions/emit.sql
\ir ../schema/functions/emit_follower.sql
\ir ../schema/functions/finish_items.sql
\ir ../schema/functions/revise_items.sql
\ir ../schema/functions/move_items.sql
\ir ../schema/functions/not_before.sql
\ir ../schema/functions/record_outcomes.sql
\ir ../schema/functions/completed_since.sql
\ir ../schema/functions/tokens_now.sql

\ir ../schema/views/open_item.sql
\ir ../schema/views/accounting.sql

\ir ../schema/grants.sql
