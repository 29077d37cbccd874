//! Tables and indexes in a tablespace of the user's server: all of them, in each layout, as a factor, and refused where it cannot be.

use std::process::Command;

use testbed::{PASSWORD, Pg};

use crate::tool::{PACE, Place, expect_sound};

const RUN: &str = "run -s 1 -c 1 --measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false";

/// Relations of the workload's tables by tablespace, each with how many it has; a table without storage is one of them too.
const RELATIONS: &str = "select string_agg(place || ' ' || n, ', ' order by place) from ( \
     select coalesce(t.spcname, 'default') as place, count(*) as n from pg_class c left join pg_tablespace t on t.oid = c.reltablespace \
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'i', 'p', 'I') group by 1) of";

/// A server with two tablespaces, one with a name that has to be quoted.
fn server() -> Pg {
    let pg = Pg::start();
    for (n, name) in ["fast", "a\"b C"].into_iter().enumerate() {
        let directory = pg.path(&format!("tablespace{n}"));
        testbed::run(testbed::as_server_user(Command::new("mkdir").arg(&directory)));
        let name = name.replace('"', "\"\"");
        pg.execute("postgres", &format!("create tablespace \"{name}\" location '{}'", directory.display()));
    }
    pg
}

fn args<'a>(text: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let pace = text.starts_with("run").then_some(PACE);
    text.split_whitespace().chain(pace).chain(more.iter().copied()).collect()
}

#[test]
fn a_load_puts_every_table_and_index_into_the_tablespace_that_is_asked_for() {
    let (place, pg) = (Place::new(), server());
    let check = |workload: &str, expected: &str| {
        let database = pg.database();
        let words = format!("init -s 1 -w {workload} --tablespace");
        let target = pg.admin_target(&database);
        place.run(&args(&words, &["a\"b C", "--server", &target])).expect(0);
        assert_eq!(pg.ask(&database, RELATIONS), expected, "{workload}");
        let kind = workload.split(' ').next().unwrap();
        place.run(&["check", "-w", kind, "--server", &target]).expect(0);
    };
    check("tpcb", "a\"b C 7");
    // Four tables, three partitions, the primary keys of all but history and of the partitions.
    check("tpcb --partitions 3 --streams 2", "a\"b C 13");
    check("tpcb --partitions 3 --partition-method hash", "a\"b C 13");
    check("tpcc", "a\"b C 19");
    check("tproc-c", "a\"b C 19");
    place.expect_clean();
}

#[test]
fn data_in_two_tablespaces_is_a_factor() {
    let (place, pg) = (Place::new(), server());
    let database = pg.database();
    let target = pg.admin_target(&database);
    let factor =
        ["--server", &target, "--set", "workload.tablespace=[\"fast\", \"pg_default\"]", "-o", "two"];
    let ended = place.run(&args(RUN, &factor)).expect(0);
    assert!(ended.stderr.contains("in tablespace `fast`"), "each load says where: {}", ended.stderr);
    let runs = place.results("two").runs;
    runs.iter().for_each(expect_sound);
    let mut places: Vec<_> = runs.iter().map(|run| run.record.case.workload.tablespace.as_deref()).collect();
    places.sort_unstable();
    assert_eq!(places, [Some("fast"), Some("pg_default")]);
    let page = std::fs::read_to_string(place.path("two/report.html")).unwrap();
    assert!(page.contains("one table in tablespace fast"), "the page says where data was");

    // Data elsewhere is other data, which is replaced only on request; measured as it is, it may be anywhere.
    place.run(&["init", "-s", "1", "--tablespace", "fast", "--server", &target]).expect(0);
    assert_eq!(pg.ask(&database, RELATIONS), "fast 7");
    let same = ["--server", &target, "--set", "workload.tablespace=fast", "-o", "same"];
    let used = place.run(&args(RUN, &same)).expect(0).stderr;
    assert!(used.contains("is unchanged: it is used, and not loaded again"), "{used}");
    let refused = place.run(&args(RUN, &["--server", &target, "-o", "no"])).expect(1).stderr;
    let expected = "but the data that was loaded before is one table in tablespace `fast`; give --set workload.tablespace=fast, or";
    assert!(refused.contains(expected), "{refused}");
    let other = ["--server", &target, "--set", "workload.tablespace=pg_default", "--no-restore", "-o", "no"];
    let refused = place.run(&args(RUN, &other)).expect(1).stderr;
    assert!(refused.contains("the existing data is one table in tablespace `fast`"), "{refused}");
    place.run(&args(RUN, &["--server", &target, "--no-restore", "-o", "as-it-is"])).expect(0);
    place.expect_clean();
}

#[test]
fn a_tablespace_that_cannot_be_used_is_named_before_anything_is_changed() {
    let (place, pg) = (Place::new(), server());
    let database = pg.database();
    let admin = pg.admin_target(&database);
    let bench = format!("postgresql://bench:{PASSWORD}@127.0.0.1:{}/{database}", pg.port);
    let check = |target: &str, name: &str, expected: &str| {
        let set = format!("workload.tablespace={name}");
        for command in [
            args(RUN, &["--server", target, "--set", &set, "-o", "no"]),
            args("init -s 1", &["--server", target, "--tablespace", name]),
        ] {
            let refused = place.run(&command).expect(1).stderr;
            assert!(refused.contains(expected), "{command:?}: {refused}");
        }
    };
    check(&admin, "quick", "the server has no tablespace `quick`; it has `a\"b C`, `fast`, `pg_default`");
    check(&admin, "pg_global", "`pg_global` is for the catalogs that all databases share");
    check(
        &bench,
        "fast",
        "`bench` cannot create tables in tablespace `fast`; let its owner run: grant create on",
    );
    let tables = "select count(*) from pg_tables where tablename like 'pgbench%'";
    assert_eq!(pg.ask(&database, tables), "0");

    let set = ["--set", "workload.tablespace=fast", "-o", "no"];
    let bin_dir = testbed::bin_dir().display().to_string();
    let embedded = place.run(&args(RUN, &[&set[..], &["--bin-dir", &bin_dir]].concat())).expect(1).stderr;
    assert!(embedded.contains("workload.tablespace needs a server by URL"), "{embedded}");
    let scripts = [&set[..], &["--server", &admin, "-f", "builtin:select-only"]].concat();
    let scripts = place.run(&args("run -c 1 --measure 2s", &scripts)).expect(1).stderr;
    assert!(scripts.contains("workload.tablespace is for tables that pgdyno loads"), "{scripts}");
    place.expect_clean();
}
