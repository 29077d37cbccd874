alter table document add primary key (id);
create index document_body on document using gin (body jsonb_path_ops);
create index document_customer on document (((body ->> 'customer')::integer));
select setval(pg_get_serial_sequence('document', 'id'), (select max(id) from document));
