-- One expression, so that it is inlined.
create function ledger.item_id(tenant text, kind text, business_key text, cycle text, effective_date date) returns uuid
  language sql stable parallel safe
  return encode(
    set_bit(set_bit(set_bit(set_bit(set_bit(set_bit(
      substr(int4send(effective_date - date '1970-01-01'), 2) || substr(sha256(convert_to(
        tenant || chr(31) || kind || chr(31) || business_key || chr(31) || cycle || chr(31)
          || to_char(effective_date::timestamp, 'YYYY-MM-DD'), 'UTF8')), 1, 13),
      55, 1), 54, 0), 53, 0), 52, 0), 71, 1), 70, 0),
    'hex')::uuid;

comment on function ledger.item_id is
  'The id of an item: UUIDv8 (RFC 9562) of three bytes of the effective date, then bytes of a SHA-256, so that the index '
  'by id grows where its dates are. docs/identity.md has vectors.';

create function ledger.effective_date_of(id uuid) returns date
  language sql immutable parallel safe
  return date '1970-01-01'
    + ((get_byte(uuid_send(id), 0) << 16) + (get_byte(uuid_send(id), 1) << 8) + get_byte(uuid_send(id), 2));

comment on function ledger.effective_date_of is
  'The effective date in an item''s id: a look-up by id reads the one partition of due_item that may have it.';

create function ledger.least_id(effective_date date) returns uuid
  language sql immutable parallel safe
  return encode(substr(int4send(effective_date - date '1970-01-01'), 2) || decode(repeat('00', 13), 'hex'), 'hex')::uuid;

comment on function ledger.least_id is 'An id before those of all items of an effective date, and after those of the dates before.';

create function ledger.serial_of(kind_no integer, key text) returns bigint
  language sql immutable parallel safe
  return hashtextextended(key, kind_no);

comment on function ledger.serial_of is 'The hash of kind and key by which serial items wait for each other.';

create function ledger.usable_traceparent(traceparent text) returns text
  language sql immutable parallel safe
  return case when traceparent ~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' then traceparent end;

comment on function ledger.usable_traceparent is
  'The trace context, or null where it is not in the W3C form, as the recommendation asks.';
