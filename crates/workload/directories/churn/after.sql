alter table account add primary key (id);
