//! pgdyno in pgbench's place, next to the pgbench that is installed: the same statements reach the server, and the
//! same words the user.

mod cluster;
mod layout;
mod output;
mod statements;
mod workloads;

/// One test, because starting a server takes longer than everything else together.
#[test]
fn the_installed_pgbench_does_the_same() {
    let cluster = cluster::Cluster::start();
    statements::tables_are_made_by_the_same_statements(&cluster);
    statements::builtin_scripts_send_the_same(&cluster);
    statements::scripts_send_the_same(&cluster);
    layout::streams_leave_what_one_session_leaves(&cluster);
    layout::streams_are_sessions(&cluster);
    workloads::scripts_leave_the_same(&cluster);
    output::results_have_the_same_form(&cluster);
    output::errors_have_the_same_words(&cluster);
    output::logs_have_the_same_form(&cluster);
}
