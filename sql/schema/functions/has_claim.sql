-- A function, so that the plan of a start or a reported outcome does not open every table partition of claims to ask it.
create function ledger.has_claim(fence bigint) returns boolean
  language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
  return exists (select from ledger.claim c where c.fence = has_claim.fence);
end $$;

comment on function ledger.has_claim is 'Whether a claim has this fence, whenever it was claimed.';
