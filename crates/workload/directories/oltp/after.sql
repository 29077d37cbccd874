alter table sbtest{n} add primary key (id);
create index k_{n} on sbtest{n} (k);
select setval(pg_get_serial_sequence('sbtest{n}', 'id'), (select max(id) from sbtest{n}));
