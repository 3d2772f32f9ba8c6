create table ledger.emitter_tenant (
  login name not null,
  tenant text not null,
  primary key (login, tenant)
);

comment on table ledger.emitter_tenant is
  'The tenants for which a login may emit. A login without a row may emit for each tenant.';
