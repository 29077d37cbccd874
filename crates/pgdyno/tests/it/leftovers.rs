//! Databases that a killed pgdyno leaves on a server: which of them `clean --server` removes, and which it must not.

use std::process::Command;

use nix::sys::signal::Signal;
use testbed::{PASSWORD, Pg};

use crate::tool::{PACE, Place, Running, wait_until};

/// Three runs on a database that is replaced by copies.
fn start(place: &Place, server: &str, database: &str, scale: &str) -> Running {
    place.start(runs(place, server, database, scale))
}

fn runs(place: &Place, server: &str, database: &str, scale: &str) -> Command {
    let args = "run -c 2 --ramp-up 0s --measure 20s --repeats 3 --set prepare.settle=false -o out";
    let args = args.split_whitespace();
    place.command(
        &args
            .chain([PACE, "--scale", scale, "--server", server, "--replace-database", database])
            .collect::<Vec<_>>(),
    )
}

fn ours(pg: &Pg) -> String {
    pg.ask("postgres", r"select coalesce(string_agg(datname, ' ' order by 1), '') from pg_database where datname like 'pgdyno\_%'")
}

/// Exit code and output of `clean --server`.
fn clean(place: &Place, server: &str, code: i32) -> String {
    place.run(&["clean", "--server", server]).expect(code).stderr
}

#[test]
fn exactly_the_databases_that_a_killed_pgdyno_made_are_removed() {
    let (place, pg) = (Place::new(), Pg::start());
    let database = pg.database();
    let server = pg.admin_target(&database);
    let mut admin = pg.admin("postgres");
    admin.execute("create database pgdyno_mine").unwrap();
    let sums = "select count(*) || ' ' || sum(abalance) from pgbench_accounts";

    // Killed while a copy is made, which the server then ends by itself.
    let killed = start(&place, &server, &database, "10");
    let is_copying = "select count(*) > 0 from pg_stat_activity where query like 'create database \"pgdyno%' and state = 'active'";
    wait_until("a copy that is made", || pg.ask("postgres", is_copying) == "t");
    killed.signal(Signal::SIGKILL);
    killed.wait();
    wait_until("the end of the copy", || pg.ask("postgres", is_copying) == "f");
    let left = ours(&pg);
    assert_eq!(left.split(' ').count(), 2, "{left}");
    let said = clean(&place, &server, 1);
    assert!(said.contains("removed database `pgdyno_"), "{said}");
    assert!(said.contains("left database `pgdyno_mine`: it has no mark of pgdyno"), "{said}");
    assert_eq!(ours(&pg), "pgdyno_mine");
    assert_eq!(pg.ask(&database, sums), "1000000 0");

    // Killed during the load: there is a template.
    std::fs::remove_dir_all(place.path("out")).unwrap();
    let killed = start(&place, &server, &database, "10");
    place.wait_for_load("out", 1);
    assert!(clean(&place, &server, 1).contains("a running pgdyno uses it"), "it is not taken from who runs");
    killed.signal(Signal::SIGKILL);
    killed.wait();
    wait_until("the end of its sessions", || {
        pg.ask("postgres", "select count(*) from pg_stat_activity where application_name = 'pgdyno'") == "0"
    });
    assert_eq!(ours(&pg).split(' ').count(), 2);
    assert!(clean(&place, &server, 1).contains("removed database `pgdyno_"));
    assert_eq!(ours(&pg), "pgdyno_mine");
    admin.execute("drop database pgdyno_mine").unwrap();
    assert!(clean(&place, &server, 0).contains("no databases left behind by pgdyno"));
    place.expect_clean();
}

#[test]
fn who_cannot_drop_the_tables_that_stay_is_not_asked_to() {
    let (place, pg) = (Place::new(), Pg::start());
    let database = pg.database_of("postgres");
    place.run(&["init", "--scale", "1", "--server", &pg.admin_target(&database)]).expect(0);
    let hint = "stay; this removes them: DROP TABLE public.pgbench_accounts, ";
    let said = clean(&place, &pg.admin_target(&database), 0);
    assert!(said.contains(hint), "{said}");

    let visitor = format!("host=127.0.0.1 port={} user=bench password={PASSWORD} dbname={database}", pg.port);
    let said = clean(&place, &visitor, 0);
    assert!(!said.contains(hint), "{said}");
    assert!(
        said.contains(
            "stay; role `bench` cannot remove them, their owner (`postgres`) or a superuser can: DROP TABLE \
             public.pgbench_accounts, "
        ),
        "{said}"
    );
    place.expect_clean();
}

#[test]
fn a_server_that_takes_its_time_is_given_up() {
    let (place, pg) = (Place::new(), Pg::shared());
    // Each session takes five seconds to begin.
    let server = format!("{} options='-c post_auth_delay=5'", pg.admin_target(&pg.database()));
    let ended = place.run(&["clean", "--server", &server, "--timeout", "2s"]).expect(1);
    assert!(ended.stderr.contains("`clean` has not ended after 2 s (--timeout)"), "{ended:?}");
    place.run(&["clean", "--timeout", "2s"]).expect(1);
}

#[test]
fn a_database_replaced_when_pgdyno_was_killed_is_removed_only_if_nobody_used_it() {
    let (place, pg) = (Place::new(), Pg::start());
    for is_used in [false, true] {
        let database = pg.database();
        // Each session of pgdyno takes a second to begin: there is time between the change of names and the drop.
        let server = format!("{} options='-c post_auth_delay=1'", pg.admin_target(&database));
        let killed = start(&place, &server, &database, "1");
        let replaced = "select count(*) from pg_shdescription where description like 'pgdyno %replaced%'";
        wait_until("the change of names", || pg.ask("postgres", replaced) == "1");
        killed.signal(Signal::SIGKILL);
        killed.wait();
        std::fs::remove_dir_all(place.path("out")).ok();
        assert_eq!(
            pg.ask(&database, "select count(*) from pgbench_accounts"),
            "100000",
            "the database is whole"
        );
        let old = ours(&pg);
        wait_until("the end of its sessions", || {
            pg.ask("postgres", "select count(*) from pg_stat_activity where application_name = 'pgdyno'")
                == "0"
        });
        let mut admin = pg.admin("postgres");
        admin.execute(&format!("alter database {old} allow_connections true")).unwrap();
        if is_used {
            pg.admin(&old).execute("create table diary (t text)").unwrap();
        }
        let said = clean(&place, &pg.admin_target(&database), i32::from(is_used));
        if is_used {
            assert!(
                said.contains(&format!(
                    "left database `{old}`: it contains something that pgdyno did not make"
                )),
                "{said}"
            );
            assert_eq!(pg.ask(&old, "select count(*) from diary"), "0");
            // Without the database that it was, it may be all that is left.
            admin.execute(&format!("drop database {database}")).unwrap();
            let said = clean(&place, &pg.admin_target("postgres"), 1);
            assert!(said.contains("may be all that is left of it: rename it"), "{said}");
        } else {
            assert!(said.contains(&format!("removed database `{old}`")), "{said}");
            assert_eq!(ours(&pg), "");
        }
    }
    place.expect_clean();
}
