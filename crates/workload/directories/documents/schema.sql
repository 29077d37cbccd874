create table document (
    id bigserial,
    body jsonb not null
);
