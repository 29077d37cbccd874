-- Whether transactions wrote only to accounts and the history, not to tellers and branches.
select exists (select 1 from @.pgbench_history)
    and not exists (select 1 from @.pgbench_tellers where tbalance <> 0)
    and not exists (select 1 from @.pgbench_branches where bbalance <> 0)
