create function ledger.calling_role() returns name
  language sql stable parallel safe
  return coalesce(nullif(current_setting('role', true), 'none')::name, session_user);

comment on function ledger.calling_role is
  'The role that `set role` chose, else the login: within a function with its owner''s rights, current_user is the owner.';
