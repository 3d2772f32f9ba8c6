-- Record that the topics of these holders are no longer silent: an outcome of one of their items was reported.
-- returns: zero
-- $1 holder_nos integer[]
-- index: silence_holder_no_key
-- locks: silence rows (for update, holder_no ascending)
delete from ledger.silence s
where s.holder_no = any (array(
  select q.holder_no from ledger.silence q where q.holder_no = any ($1::integer[]) order by q.holder_no for update))
