//! pgdyno called as pgbench, compared with the installed pgbench: the same statements reach the server, and the
//! same words the user.

mod cluster;
mod connections;
mod layout;
mod output;
mod signals;
mod statements;
mod workloads;

// Few tests, because each starts a server.

#[test]
fn the_same_statements_reach_the_server() {
    let cluster = cluster::Cluster::start();
    statements::tables_are_made_by_the_same_statements(&cluster);
    statements::builtin_scripts_send_the_same(&cluster);
    statements::scripts_send_the_same(&cluster);
    statements::variables_without_a_value_are_sent_the_same(&cluster);
}

#[test]
fn the_database_contains_the_same_data_afterwards() {
    let cluster = cluster::Cluster::start();
    layout::streams_leave_what_one_session_leaves(&cluster);
    layout::streams_are_sessions(&cluster);
    workloads::scripts_leave_the_same(&cluster);
}

#[test]
fn messages_for_the_user_are_the_same() {
    let cluster = cluster::Cluster::start();
    // The first time, the server raises notices that there is nothing to drop.
    for who in [cluster::Who::Genuine, cluster::Who::Ours] {
        assert_eq!(cluster.run(who, "-i -q").code, Some(0));
    }
    output::results_have_the_same_form(&cluster);
    output::errors_have_the_same_words(&cluster);
    output::a_file_for_results_is_made_before_the_load(&cluster);
    output::logs_have_the_same_form(&cluster);
    connections::settings_have_the_same_effect(&cluster);
    connections::newer_keywords_are_taken(&cluster);
    connections::failures_have_the_same_words(&cluster);
}

#[test]
fn the_exit_codes_are_the_same() {
    let cluster = cluster::Cluster::start();
    for who in [cluster::Who::Genuine, cluster::Who::Ours] {
        assert_eq!(cluster.run(who, "-i -q").code, Some(0));
    }
    output::the_banner_is_read_by_the_patterns_of_parsers(&cluster);
    signals::signals_kill(&cluster);
    signals::ctrl_c_ends_the_loop_of_a_shell(&cluster);
}
