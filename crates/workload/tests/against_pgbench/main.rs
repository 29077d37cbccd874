//! The crate against the pgbench and the PostgreSQL that are installed: the same words, numbers, tables and rows.
//!
//! The tables of the unit tests were made with pgbench 15; this shows that they still are what pgbench says.

mod cluster;
mod language;
mod tables;

/// One test, because starting a server takes longer than everything else together.
#[test]
fn the_installed_pgbench_says_the_same() {
    let cluster = cluster::Cluster::start();
    language::expressions_have_equal_values(&cluster);
    language::errors_have_equal_words(&cluster);
    language::statements_are_split_equally(&cluster);
    language::scripts_are_chosen_equally(&cluster);
    language::clients_have_equal_streams(&cluster);
    tables::schemas_are_equal(&cluster);
    tables::rows_are_equal(&cluster);
    tables::builtin_scripts_send_the_same(&cluster);
    tables::checks_pass_after_a_run_and_find_what_is_broken(&cluster);
    tables::a_marker_is_read_back(&cluster);
}
