create table ledger.witnessed (
  definition_no bigint primary key references ledger.definition,
  agreement text not null,
  package text,
  reason text,
  times jsonb,
  asked_at timestamptz not null,
  constraint witnessed_agreement_known check (agreement in ('agrees', 'disagrees', 'not_witnessed')),
  constraint witnessed_disagreement_shown check ((agreement = 'disagrees') = (times is not null))
);

comment on table ledger.witnessed is
  'What a library that expands the same rule said about a version when it was asked last.';
comment on column ledger.witnessed.package is 'The package that was asked, and its version; null if none was asked.';
comment on column ledger.witnessed.reason is
  'Why there was no answer when it was asked last. A disagreement that was known before stays.';
comment on column ledger.witnessed.times is 'Where they differ, the nominal local times of both: `ours` and `theirs`.';
comment on column ledger.witnessed.asked_at is 'When it was asked, by the machine clock.';
