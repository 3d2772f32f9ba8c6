create function ledger.is_decider(kind text, name text) returns boolean
  language sql immutable parallel safe
return kind in ('person', 'key', 'oidc') and lower(split_part(name, ':', 1)) = kind;

comment on function ledger.is_decider is
  'Whether an actor may decide what a person may: one registered by an operator''s login, an API key, or a subject of tokens, under its prefix.';
