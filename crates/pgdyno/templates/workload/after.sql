-- What follows the rows. Statements on different tables run at the same time.
alter table product add primary key (id);
alter table purchase add primary key (id);
create index purchase_customer on purchase (customer, bought_at);
alter table purchase_line add primary key (purchase_id, line);
