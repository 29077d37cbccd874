//! How data on a server by URL is put back before each run, and the proof that it was.

use std::collections::BTreeMap;

use model::phase::Phase;
use nix::sys::signal::Signal;

use crate::pg::{PASSWORD, Pg};
use crate::tool::{Ended, Place, wait_until};

/// Names of templates and copies.
const OURS: &str =
    "select coalesce(string_agg(datname, ' '), '') from pg_database where datname like 'pgdyno%'";

/// Three short runs on data of scale 1.
fn command(place: &Place, server: &str, measure: &str, more: &[&str]) -> std::process::Command {
    let args =
        "run -c 2 --ramp-up 0s --repeats 3 --scale 1 --set prepare.settle=false --set prepare.checksums=true";
    let mut args: Vec<&str> = args.split_whitespace().collect();
    args.extend(["--measure", measure, "--server", server]);
    args.extend(more);
    let mut command = place.command(&args);
    command.env("PGPASSWORD", PASSWORD);
    command
}

fn run(place: &Place, server: &str, more: &[&str]) -> Ended {
    place.start(command(place, server, "2s", more)).wait()
}

/// The facts of each restore, after a look at the fingerprints.
fn restores(place: &Place, out: &str) -> Vec<BTreeMap<String, String>> {
    let data = store::load_experiment(&place.path(out)).unwrap();
    let prints: Vec<_> = data.runs.iter().map(|run| run.record.fingerprint.clone().unwrap()).collect();
    assert_eq!(prints.len(), 3);
    for print in &prints {
        assert!(print.checksums["pgbench_accounts"].starts_with("100000:"), "{print:?}");
        assert!(print.relations["pgbench_accounts_pkey"].bytes > 1 << 20, "{print:?}");
        assert_eq!(print.contents_differ(&prints[0]), None);
        assert_eq!(print.sizes_differ(&prints[0]), None);
    }
    data.runs.iter().map(|run| run.record.phase(Phase::Restore).unwrap().detail.clone()).collect()
}

#[test]
fn the_database_is_copied_from_a_template_that_is_gone_afterwards() {
    let (place, pg) = (Place::new(), Pg::start());
    let database = pg.database();
    let server = format!("host=127.0.0.1 port={} user=bench dbname={database}", pg.port);
    pg.admin("postgres").execute("alter role bench createdb").unwrap();

    let killed = place.start(command(&place, &server, "20s", &["-o", "killed"]));
    let has_rows = "select count(*) > 0 from pgbench_history";
    wait_until("a template", || !pg.ask("postgres", OURS).is_empty());
    wait_until("the load", || {
        // While the database is replaced nobody may be in it.
        std::thread::sleep(std::time::Duration::from_secs(2));
        pg.ask(&database, has_rows) == "t"
    });
    killed.signal(Signal::SIGKILL);
    killed.wait();
    let left = pg.ask("postgres", OURS);
    assert_ne!(left, "", "nobody was there to drop it");

    run(&place, &server, &["-o", "out"]).expect(0);
    for (n, detail) in restores(&place, "out").iter().enumerate() {
        assert!(detail["seconds"].parse::<f64>().unwrap() < 30.0, "{detail:?}");
        assert!(
            detail["method"].ends_with("create database from a template, strategy file_copy"),
            "{detail:?}"
        );
        assert_eq!(detail.contains_key("load_seconds"), n == 0, "loaded once: {detail:?}");
    }
    assert_eq!(pg.ask("postgres", OURS), "", "no template is left, not even that of the one that was killed");
    assert_eq!(pg.ask(&database, has_rows), "t", "what the last run did is there to be seen");
    let owner = format!("select pg_get_userbyid(datdba) from pg_database where datname = '{database}'");
    assert_eq!(pg.ask("postgres", &owner), "bench");
    place.expect_clean();
}

#[test]
fn where_a_copy_would_lose_something_data_is_loaded_again_and_the_reason_told() {
    let pg = Pg::shared();
    for (make, expected) in [
        ("create table diary (t text)", "also holds `diary`"),
        ("alter database DB set work_mem = '8MB'", "settings of the database would be lost"),
        ("grant connect on database DB to bench", "privileges on the database would be lost"),
    ] {
        let (place, database) = (Place::new(), pg.database());
        let server = pg.admin_target(&database);
        pg.admin(&database).execute(&make.replace("DB", &database)).unwrap();
        run(&place, &server, &["-o", "out"]).expect(0);
        for detail in restores(&place, "out") {
            assert!(detail["method"].starts_with("loaded again, "), "{detail:?}");
            assert!(detail["no_template"].contains(expected), "{detail:?}");
        }
        let asked = run(&place, &server, &["--set", "prepare.restore_by=template", "-o", "asked"]);
        if make.contains("diary") {
            // Whoever asks for it takes the whole database along.
            asked.expect(0);
            assert_eq!(pg.ask(&database, "select count(*) from diary"), "0");
        } else {
            let asked = asked.expect(1);
            assert!(asked.stderr.contains(expected), "{}", asked.stderr);
        }
        place.expect_clean();
    }
}

#[test]
fn where_only_the_next_template_fails_the_run_has_its_data_and_the_next_one_loads() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    let runs = place.start(command(&place, &server, "4s", &["-o", "out"]));
    let is_first = format!(
        "select exists (select 1 from pg_stat_activity where datname = '{database}' and query ~* '^insert into pgbench_history')"
    );
    wait_until("the first run's load", || pg.ask("postgres", &is_first) == "t");
    // Such a database cannot be dropped, which is found out after it has changed its name.
    let mut admin = pg.admin("postgres");
    admin
        .execute(&format!("update pg_database set datistemplate = true where datname = '{database}'"))
        .unwrap();
    runs.wait().expect(0);
    let details = restores(&place, "out");
    let methods: Vec<&str> = details.iter().map(|detail| detail["method"].as_str()).collect();
    assert!(methods[1].ends_with("strategy file_copy"), "{methods:?}");
    assert!(details[1]["no_template"].contains("drop database `pgdyno_"), "{details:?}");
    assert!(methods[2].starts_with("loaded again, "), "{methods:?}");
    assert_eq!(details[1].get("no_template"), details[2].get("no_template"));
    admin.execute("update pg_database set datistemplate = false where datname like 'pgdyno%'").unwrap();
    place.expect_clean();
}
