-- Put back what the edits named in the setting changed. Of a row, the value of its first column with a name like
-- `item_no` finds it quickly.
do $$
declare
  logged record;
  key text;
  value text;
  affected bigint;
begin
  for logged in select * from damage.log where edit = any (string_to_array(current_setting('damage.undo'), '|'))
    order by log_no desc
  loop
    select attname into key from pg_attribute
    where attrelid = logged.relation and attnum > 0
    order by attname in ('item_no', 'run_no', 'fence', 'event_no', 'definition_no', 'item_id', 'business_key') desc,
      attname = 'item_no' desc, attname = 'run_no' desc, attnum
    limit 1;
    if logged.became is not null then
      execute format('select (($1)::%s).%I::text', logged.relation, key) into value using logged.became;
      execute format(
        'delete from only %1$s where ctid = any (array('
        'select ctid from only %1$s t where t.%2$I = %3$L and t::text = $1 limit 1))',
        logged.relation, key, value)
      using logged.became;
      get diagnostics affected = row_count;
      if affected <> 1 then
        raise exception 'the edit % of % cannot be undone: %', logged.edit, logged.relation, logged.became;
      end if;
    end if;
    if logged.was is not null then
      execute format('insert into %1$s overriding system value select (($1)::%1$s).*', logged.relation)
      using logged.was;
    end if;
  end loop;
end $$
