-- List the kinds that redact fields of payloads, each with these fields.
-- returns: zero or more
-- roles: auditor, reconciler
-- index: none
-- locks: none
select k.tenant, k.name as kind, k.redacted_fields
from ledger.kind k
where k.redacted_fields <> '{}'
