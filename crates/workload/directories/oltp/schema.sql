-- {n} is the number of the table: this statement runs once for each of sbtest1 to sbtestN.
create table sbtest{n} (
    id serial,
    k integer default 0 not null,
    c char(120) default '' not null,
    pad char(60) default '' not null
);
