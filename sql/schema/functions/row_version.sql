-- One expression, so that it is inlined. Of a transaction number alone there is no hash; of its text it takes twice as long.
create function ledger.row_version(key bigint, tableoid oid, ctid tid, xmin xid) returns bigint
  language sql immutable parallel safe
  return hash_array_extended(array[xmin], hashtidextended(ctid, key # tableoid::bigint));

comment on function ledger.row_version is
  'A hash of which version of a row this is: each write of the row, of any column, makes another. A transaction number is used '
  'again after 4 billion others, and after a restore: `key` names the server''s start.';
