//! `pgdyno capture plan` on a real server: its text does what it says, its text to undo restores, and it changes nothing itself.

use serde_json::Value;
use testbed::{ClusterOptions, PASSWORD, TestServer, run};

use crate::tool::Place;

const OPTIONS: ClusterOptions = ClusterOptions {
    settings: &["logging_collector=on", "shared_preload_libraries=pg_stat_statements", "shared_buffers=32MB"],
    hba: None,
    has_tcp: true,
    certificate: None,
    is_on_disk: false,
    bin_dir: None,
};

fn plan(place: &Place, target: &str) -> Value {
    let ended = place.run(&["capture", "plan", "--server", target, "--for", "1s", "--json"]).expect(0);
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

fn texts<'a>(way: &'a Value, key: &str) -> Vec<&'a str> {
    way[key].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn the_plan_can_be_done_and_undone_and_changes_nothing_itself() {
    let place = Place::new();
    let server = TestServer::start(&OPTIONS);
    server.execute("postgres", "create extension pg_stat_statements");
    server.execute("postgres", "alter system set log_min_duration_statement = '10000'");
    server.execute("postgres", "select pg_reload_conf()");
    let altered = "select coalesce(string_agg(name || '=' || setting, ' ' order by name), '') from pg_file_settings \
                   where sourcefile like '%auto.conf'";
    let before = server.ask("postgres", altered);

    let found = plan(&place, &server.admin_target("postgres"));
    assert_eq!(server.ask("postgres", altered), before, "it changes nothing");
    assert!(found["statements_per_s"].as_f64().unwrap() > 0.0, "{found}");
    let ids: Vec<&str> =
        found["ways"].as_array().unwrap().iter().map(|way| way["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["sample", "full", "statistics"]);
    for way in found["ways"].as_array().unwrap() {
        assert_eq!(texts(way, "missing"), [""; 0], "{way}");
    }
    for number in [0, 1] {
        let way = &found["ways"][number];
        texts(way, "do").iter().for_each(|sql| server.execute("postgres", sql));
        let again = plan(&place, &server.admin_target("postgres"));
        assert_eq!(texts(&again["ways"][number], "do"), [""; 0], "everything is set: {again}");
        texts(way, "undo").iter().for_each(|sql| server.execute("postgres", sql));
        assert_eq!(server.ask("postgres", altered), before, "{way}");
    }

    let text = place
        .run(&["capture", "plan", "--server", &server.admin_target("postgres"), "--for", "1s"])
        .expect(0)
        .stdout;
    assert!(text.contains("1. log 100% of all transactions"), "{text}");
    assert!(
        text.ends_with("Nothing was changed. Then: pgdyno capture log FILE... -o shop.workload\n"),
        "{text}"
    );
}

#[test]
fn a_role_without_rights_is_given_the_grants_that_it_needs() {
    let place = Place::new();
    let server = TestServer::start(&OPTIONS);
    server.execute("postgres", &format!("create role weak login password '{PASSWORD}'"));
    let target = format!("host=127.0.0.1 port={} user=weak dbname=postgres password={PASSWORD}", server.port);
    let found = plan(&place, &target);
    let missing = texts(&found["ways"][0], "missing").join("\n");
    assert!(
        missing.contains("role weak must not reload: grant execute on function pg_reload_conf() to weak"),
        "{missing}"
    );
    assert_eq!(found["statements_per_s"], Value::Null, "{found}");
    let statistics = texts(&found["ways"][2], "missing").join("\n");
    assert!(statistics.contains("create extension pg_stat_statements"), "{statistics}");
    assert!(statistics.contains("grant pg_read_all_stats to weak"), "{statistics}");

    // The grants that it names are enough.
    for grant in texts(&found["ways"][0], "missing") {
        let (_, sql) = grant.split_once(": ").unwrap();
        server.execute("postgres", sql);
    }
    let found = plan(&place, &target);
    assert_eq!(texts(&found["ways"][0], "missing"), [""; 0], "{found}");
    let mut psql = server.client("psql", "postgres");
    psql.env("PGUSER", "weak").args(["-X", "-v", "ON_ERROR_STOP=1"]);
    for sql in texts(&found["ways"][0], "do") {
        psql.args(["-c", sql]);
    }
    run(&mut psql);
    assert_eq!(
        server.ask(
            "postgres",
            "select count(*) from pg_file_settings where name = 'log_transaction_sample_rate'"
        ),
        "1"
    );
}
