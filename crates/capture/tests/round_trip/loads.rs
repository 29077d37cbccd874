//! Loads of our own: skewed keys, loops, sequences, errors, and what cannot be replayed.

use std::fmt::Write;

use capture::balance::OmissionReason;
use capture::privacy::Privacy;
use testbed::run;

use crate::{ALL, Source, keep, rows, text};

/// The path of a file with this script.
fn script(source: &Source, name: &str, text: &str) -> String {
    let path = source.server.path(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Executes SQL while the server logs.
fn psql(source: &Source, sql: &str) {
    let path = script(source, "load.sql", sql);
    source.logged(ALL, || {
        run(source.server.client("psql", "postgres").args(["-q", "-o", "/dev/null", "-f", &path]));
    });
}

#[test]
fn the_exponent_of_zipf_is_found() {
    let source = Source::start();
    let text =
        "\\set aid random_zipfian(1, 100000, 1.2)\nselect abalance from pgbench_accounts where aid = :aid;\n";
    let path = script(&source, "zipf.sql", text);
    let made =
        source.captured(ALL, &["-c", "4", "-t", "10000", "-M", "prepared", "-f", &path], Privacy::Values);
    let template = made.summary.templates.iter().max_by_key(|one| one.n).unwrap();
    assert_eq!(template.n, 40_000);
    let variable = &template.variables[0];
    let exponent = variable.exponent.unwrap();
    assert!((exponent / 1.2 - 1.0).abs() < 0.05, "{exponent}");
    assert_eq!((variable.role, variable.name.as_str()), ("key", "aid"));
    // Of 10,000 draws of this distribution, about 14 % are of keys that are drawn once.
    assert!((0.08..0.22).contains(&variable.unseen.unwrap()), "{:?}", variable.unseen);
}

#[test]
fn loops_of_different_lengths_are_one_template() {
    let source = Source::start();
    let mut sql = String::from("create table item (id int, n int);\n");
    for order in 0..60 {
        sql.push_str("begin;\n");
        for line in 0..1 + order % 4 {
            writeln!(
                sql,
                "select n from item where id = {};\ninsert into item (id, n) values ({}, {order});",
                1000 + order * 7 + line,
                1000 + order * 7 + line
            )
            .unwrap();
        }
        sql.push_str("commit;\n");
    }
    psql(&source, &sql);
    let made = source.made(Privacy::Values).unwrap();
    keep(&made, "loops");
    let template = made.summary.templates.iter().max_by_key(|one| one.n).unwrap();
    assert_eq!(template.n, 60);
    let expected = "\
-- pgdyno: extended
begin;
\\repeat loop1 :loop1_rounds
select n from item where id = :id;
insert into item (id, n) values (:id, :n);
\\endrepeat
commit;
";
    assert_eq!(text(&made, "transactions/insert-item.sql"), expected);
    let of_loop = rows(&made, "draws/insert-item.loop1.zst");
    assert_eq!(of_loop[1], "row:int\tid:int\tn:int");
    assert_eq!(of_loop.len(), 2 + 60 / 4 * (1 + 2 + 3 + 4));
    assert_eq!(rows(&made, "draws/insert-item.zst")[1..3], ["loop1_rounds:int", "1"]);
}

#[test]
fn returned_fresh_consumed_and_clock_have_their_roles() {
    let source = Source::start();
    let mut sql = String::from(
        "create table parent (id serial primary key, name text, at timestamptz);\ncreate table child (parent int, u uuid);\n\\gset\n",
    );
    // The log has milliseconds, and the clock must not spread by more than 1 % of the values.
    for n in 0..30 {
        write!(
            sql,
            "select clock_timestamp() - interval '1 hour' as at, gen_random_uuid() as u \\gset\n\
             begin;\ninsert into parent (name, at) values ('name {}', :'at') returning id \\gset\n\
             insert into child (parent, u) values (:id, :'u');\ncommit;\ndelete from parent where id = :id;\nselect pg_sleep(0.3);\n",
            n % 7
        )
        .unwrap();
    }
    psql(&source, &sql);
    let made = source.made(Privacy::Values).unwrap();
    keep(&made, "roles");
    let role = |template: &str, variable: &str| {
        let template = made.summary.templates.iter().find(|one| one.name == template).unwrap();
        template.variables.iter().find(|one| one.name == variable).map(|one| one.role)
    };
    assert_eq!(role("insert-parent", "at"), Some("clock"), "{:#?}", made.summary.templates);
    assert_eq!(role("insert-parent", "u"), Some("fresh"));
    assert_eq!(role("insert-parent", "s2_id"), Some("returned"));
    assert_eq!(role("insert-parent", "name"), Some("value"));
    assert_eq!(role("delete-parent", "id"), Some("consumed"));
    let manifest = text(&made, "workload.toml");
    assert!(
        manifest.contains("u = \"uuid()\"") && manifest.contains("now() + seconds(draw.at_after_s)"),
        "{manifest}"
    );
    assert!(manifest.contains("draws_order = \"once\""), "{manifest}");
    assert!(text(&made, "transactions/insert-parent.sql").contains("returning id \\gset s2_\n"));
}

#[test]
fn what_is_left_out_has_its_reason_and_the_sum_is_exact() {
    let source = Source::start();
    let mut sql = String::from(
        "create table t (a int primary key, b text);\ncopy t from stdin;\n1\tx\n\\.\nvacuum t;\nlisten x;\n",
    );
    sql.push_str("set work_mem = '8MB';\nselect pg_advisory_lock(5);\n");
    for n in 0..30 {
        writeln!(sql, "select b from t where a = {n} and b = 'joe.smith@example.com';").unwrap();
    }
    sql.push_str(
        "insert into t values (1, 'x');\nalter role postgres password 'geheim42';\nbegin;\nselect 1;\n",
    );
    psql(&source, &sql);
    let made = source.made(Privacy::Hashed).unwrap();
    keep(&made, "left-out");
    let balance = &made.summary.balance;
    assert_eq!(balance.difference(), (0, 0));
    for reason in [
        OmissionReason::Copy,
        OmissionReason::Ddl,
        OmissionReason::Maintenance,
        OmissionReason::Listen,
        OmissionReason::SessionState,
        OmissionReason::AdvisoryLock,
        OmissionReason::Incomplete,
    ] {
        assert!(balance.left_out.contains_key(&reason), "{reason}: {balance:?}");
    }
    for (name, bytes) in &made.files {
        let bytes =
            if name.ends_with(".zst") { zstd::decode_all(&bytes[..]).unwrap() } else { bytes.clone() };
        let text = String::from_utf8(bytes).unwrap();
        for hidden in ["geheim42", "joe.smith", "example.com"] {
            assert!(!text.contains(hidden), "{name} has {hidden}");
        }
    }
    assert!(text(&made, "README.md").contains("Hashed values find no rows in a real copy"));
}
