//! Plans for servers of several kinds.

use super::*;

fn facts(settings: &[(&str, &str)]) -> SourceFacts {
    let setting = |(name, value): &(&str, &str)| {
        let value = (*value).to_string();
        ((*name).to_string(), SourceSetting { value, is_by_alter_system: false })
    };
    SourceFacts {
        version_num: 150_020,
        role: "me".to_string(),
        is_superuser: true,
        may_reload: true,
        sees_origins: true,
        sees_statements: true,
        has_statements: true,
        settings: settings.iter().map(setting).collect(),
        rates: SourceRates {
            seconds: 5.0,
            transactions_per_s: Some(8400.0),
            statements_per_s: Some(58_800.0),
            text_bytes: Some(60.0),
        },
        ..SourceFacts::default()
    }
}

const USUAL: &[(&str, &str)] = &[
    ("logging_collector", "on"),
    ("log_destination", "stderr"),
    ("compute_query_id", "auto"),
    ("log_parameter_max_length", "-1"),
    ("log_line_prefix", "%m [%p] "),
    ("log_disconnections", "on"),
    ("lc_messages", "C"),
];

#[test]
fn a_busy_server_is_sampled() {
    let plan = CapturePlan::new(&facts(&[USUAL, &[("log_destination", "csvlog")]].concat()));
    // Measured: 36 MB/s of csvlog for all prepared statements (2 lines each); here it may be 3 lines.
    assert!((16e6..17e6).contains(&plan.whole.least_per_s), "{:?}", plan.whole);
    assert!((36e6..60e6).contains(&plan.whole.most_per_s), "{:?}", plan.whole);
    let sample = &plan.ways[0];
    assert_eq!(sample.title, "log 1% of all transactions");
    assert!(sample.bytes_per_s.unwrap()[1] <= SAMPLE_BYTES_PER_S);
    assert_eq!(
        sample.commands,
        ["alter system set log_transaction_sample_rate = '0.01';", "select pg_reload_conf();"]
    );
    assert_eq!(sample.undo, ["alter system reset log_transaction_sample_rate;", "select pg_reload_conf();"]);
    assert_eq!(plan.ways.iter().map(|way| way.id).collect::<Vec<_>>(), ["sample", "full", "statistics"]);
}

#[test]
fn csvlog_is_added_where_it_can_be_and_a_prefix_set_where_not() {
    let with_collector = CapturePlan::new(&facts(USUAL));
    assert!(
        with_collector.ways[0]
            .commands
            .contains(&"alter system set log_destination = 'stderr', 'csvlog';".to_string())
    );
    let set = CapturePlan::new(&facts(&[USUAL, &[("log_destination", "stderr, csvlog")]].concat()));
    assert!(!set.ways[0].commands.concat().contains("log_destination"), "{set:?}");
    let without = CapturePlan::new(&facts(&[USUAL, &[("logging_collector", "off")]].concat()));
    let commands = &without.ways[0].commands;
    assert!(
        commands.contains(&"alter system set log_line_prefix = '%m [%p] %c %v %x %Q %q%u@%d ';".to_string()),
        "{commands:?}"
    );
    assert!(without.obstacles[0].starts_with("logging_collector is off"));
}

#[test]
fn a_server_at_rest_is_no_source() {
    let noted = |rate: Option<f64>| {
        let mut facts = facts(USUAL);
        facts.rates.transactions_per_s = rate;
        CapturePlan::new(&facts).obstacles.iter().any(|note| note.contains("while the application works"))
    };
    assert_eq!([Some(2.4), Some(4.0), None].map(noted), [true, false, false]);
}

#[test]
fn what_was_set_before_is_set_again() {
    let mut facts =
        facts(&[USUAL, &[("log_min_duration_statement", "500"), ("lc_messages", "de_DE.UTF-8")]].concat());
    facts.settings.get_mut("log_min_duration_statement").unwrap().is_by_alter_system = true;
    let full = &CapturePlan::new(&facts).ways[1];
    assert!(
        full.undo.contains(&"alter system set log_min_duration_statement = '500';".to_string()),
        "{full:?}"
    );
    assert!(full.undo.contains(&"alter system reset lc_messages;".to_string()), "{full:?}");
}

#[test]
fn a_role_that_does_not_see_files_is_warned_before_it_resets() {
    let plan = CapturePlan::new(&SourceFacts { sees_origins: false, ..facts(USUAL) });
    assert!(
        plan.ways[0].notes.iter().any(|note| note.contains("grant pg_read_all_settings to me")),
        "{plan:?}"
    );
    assert!(!plan.ways[2].notes.iter().any(|note| note.contains("pg_read_all_settings")), "{plan:?}");
}

#[test]
fn missing_rights_are_named() {
    let role = SourceFacts { is_superuser: false, may_reload: false, sees_statements: false, ..facts(USUAL) };
    let missing = |facts: &SourceFacts| CapturePlan::new(facts).ways[0].missing.join("\n");
    assert_eq!(
        missing(&role),
        "role me must not change them: grant alter system on parameter log_destination, log_transaction_sample_rate to me\n\
         role me must not reload: grant execute on function pg_reload_conf() to me"
    );
    let may = ["log_destination", "log_transaction_sample_rate"].map(str::to_string).to_vec();
    assert_eq!(missing(&SourceFacts { may_alter: may, may_reload: true, ..role.clone() }), "");
    assert!(
        missing(&SourceFacts { version_num: 140_000, ..role.clone() })
            .contains("only one may change log_destination")
    );
    assert!(
        missing(&SourceFacts { version_num: 110_000, ..role.clone() })
            .starts_with("PostgreSQL 11 has no log_transaction_sample_rate")
    );
    let statistics = &CapturePlan::new(&SourceFacts { has_statements: false, ..role }).ways[2];
    assert_eq!(statistics.missing.len(), 2);
}

#[test]
fn a_managed_service_gets_its_own_commands() {
    let facts = SourceFacts {
        is_superuser: false,
        service: ManagedService::from_mark("rds_superuser"),
        ..facts(USUAL)
    };
    let plan = CapturePlan::new(&facts);
    assert!(
        plan.ways[0].commands.iter().all(|command| command.starts_with("aws rds modify-db-parameter-group"))
    );
    assert!(plan.text(&facts).contains("Amazon RDS or Aurora"));
}

#[test]
fn what_is_not_counted_is_assumed_and_said() {
    let mut facts = facts(USUAL);
    facts.rates = SourceRates { seconds: 5.0, transactions_per_s: Some(1.0), ..SourceRates::default() };
    facts.has_statements = false;
    let plan = CapturePlan::new(&facts);
    assert_eq!(plan.ways[0].title, "log 100% of all transactions");
    assert!(
        plan.ways[0].notes.iter().any(|note| note.contains("7 of 200 bytes per transaction are assumed"))
    );
}
