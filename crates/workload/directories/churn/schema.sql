create table account (
    id bigint not null,
    balance numeric(15, 2) not null,
    note text not null
);
