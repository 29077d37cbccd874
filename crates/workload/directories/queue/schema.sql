create table job (
    id bigserial,
    queue text not null,
    priority smallint not null,
    run_at timestamptz not null default now(),
    attempts smallint not null default 0,
    payload jsonb not null
);
create table job_log (
    job_id bigint not null,
    done_at timestamptz not null default now()
);
