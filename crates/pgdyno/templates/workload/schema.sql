-- The tables, without a schema in front of their names. Keys and indexes follow the rows (after.sql): that loads faster.
create table product (
    id integer not null,
    name varchar(80) not null,
    price numeric(8, 2) not null,
    in_stock bigint not null
);
create table purchase (
    id bigint not null,
    customer integer not null,
    bought_at timestamptz not null,
    total numeric(12, 2) not null
);
create table purchase_line (
    purchase_id bigint not null,
    line integer not null,
    product_id integer not null,
    quantity integer not null
);
