//! Streams of statements in, directories out: each role, and what hostile streams do.

use std::collections::BTreeMap;

use crate::balance::OmissionReason;
use crate::directory::{MadeDirectory, Making, make};
use crate::log::{
    BatchPart, ExecutedStatement, LoggedSession, LoggedValue, Protocol, StatementSink, VirtualTransaction,
};
use crate::privacy::Privacy;
use crate::reader::{CaptureWindow, LogReader, SessionChoice, WindowChoice};
use crate::role::{FormFacts, SlotColumn, SlotFacts};
use crate::statement::places::SlotUse;
use crate::template::reservoir::Mixer;

/// 2024-02-29 12:00 UTC.
const BEGAN_US: i64 = 1_709_208_000_000_000;

/// A statement of session 1 at a time after 12:00, for 100 µs.
pub(super) fn statement(text: &str, parameters: &[&str], at_us: i64) -> ExecutedStatement {
    let value = |text: &&str| match *text {
        "NULL" => LoggedValue::Null,
        text => text.strip_suffix("...").map_or_else(
            || LoggedValue::Text(text.to_string()),
            |text| LoggedValue::Truncated(text.to_string()),
        ),
    };
    ExecutedStatement {
        session: 1,
        start_us: BEGAN_US + at_us,
        duration_us: Some(100),
        parse_us: 1,
        bind_us: 2,
        protocol: Protocol::Extended,
        text: text.to_string(),
        parameters: parameters.iter().map(value).collect(),
        transaction: None,
        xid: 0,
        query_id: 0,
        error: None,
        batch: BatchPart::ALONE,
        is_fetch: false,
    }
}

/// What 40 executions of these statements become; `parameters` makes the values of each execution.
fn captured(
    texts: &[&str],
    parameters: impl Fn(usize) -> Vec<Vec<String>>,
    facts: &BTreeMap<u32, FormFacts>,
) -> anyhow::Result<MadeDirectory> {
    let mut reader = LogReader::new(WindowChoice::All);
    for n in 0..40usize {
        let values = parameters(n);
        for (at, text) in texts.iter().enumerate() {
            let own: Vec<&str> = values.get(at).into_iter().flatten().map(String::as_str).collect();
            reader.executed(statement(text, &own, n as i64 * 10_000_000 + at as i64 * 200));
        }
    }
    let mut read = reader.finish();
    made(&mut read, facts)
}

fn made(
    read: &mut crate::reader::ReadLog,
    facts: &BTreeMap<u32, FormFacts>,
) -> anyhow::Result<MadeDirectory> {
    let making = Making {
        name: "shop",
        privacy: Privacy::Values,
        key: [1; 32],
        facts,
        statistics: None,
        server: None,
        system_identifier: None,
        log: "test",
        n_clients: None,
    };
    make(read, &making)
}

/// Role and expression of the last variable.
fn check(
    texts: &[&str],
    parameters: impl Fn(usize) -> Vec<Vec<String>>,
    facts: Option<SlotFacts>,
    expected: (&str, &str),
) {
    let facts = facts.map(|facts| (0, FormFacts { slots: vec![facts] })).into_iter().collect();
    let made = captured(texts, parameters, &facts).unwrap();
    let template = &made.summary.templates[0];
    let variable = template.variables.last().unwrap();
    let manifest = String::from_utf8(made.files["workload.toml"].clone()).unwrap();
    let line = manifest.lines().find(|line| line.starts_with(&format!("{} = ", variable.name)));
    let expression = line.map_or("", |line| line.split_once(" = ").unwrap().1.rsplit_once("  #").unwrap().0);
    assert_eq!((variable.role, expression), expected, "{texts:?}\n{manifest}");
}

fn key_column(is_unique: bool) -> SlotFacts {
    SlotFacts {
        type_name: "bigint".to_string(),
        column: Some(SlotColumn {
            table: "t".to_string(),
            column: "id".to_string(),
            usage: SlotUse::Equality,
            is_unique,
            is_indexed: true,
            has_default: false,
            least: Some(1),
            most: Some(9000),
        }),
    }
}

fn one(text: impl Into<String>) -> Vec<Vec<String>> {
    vec![vec![text.into()]]
}

#[test]
fn each_role_has_its_rule() {
    let select = ["select a from t where id = $1"];
    check(&select, |_| one("5"), None, ("constant", "\"5\""));
    check(&select, |_| one("it's"), None, ("constant", "\"'it''s'\""));
    check(&select, |n| one((n % 7).to_string()), None, ("key", "\"draw.id\""));
    check(
        &select,
        |n| one((n * n % 97).to_string()),
        Some(key_column(true)),
        (
            "key",
            // 97 has 49 squares; of 40 numbers all are different.
            "\"near(draw.id, 1, 9000)\"",
        ),
    );
    check(
        &select,
        |n| one((n.max(10) % 30).to_string()),
        Some(key_column(true)),
        (
            "key",
            // Eleven times 10, and 29 others once each.
            "\"choose(chance(0.7250), near(draw.id, 1, 9000), draw.id)\"",
        ),
    );
    check(
        &["delete from t where id = $1"],
        |n| one((n + 100).to_string()),
        None,
        ("consumed", "\"draw.id\""),
    );
    check(
        &["insert into t (id) values ($1)"],
        |n| one((n + 100).to_string()),
        None,
        ("fresh", "\"choose(draw.reused == 1, uniform(180, 2147483647), draw.id)\""),
    );
    let uuid = |n: usize| one(format!("6f1c2f6e-7c42-4b5c-9d2e-0a1b2c3d4e{n:02x}"));
    check(&["insert into t (id) values ($1)"], uuid, None, ("fresh", "\"uuid()\""));
    let text_column = SlotFacts {
        type_name: "text".to_string(),
        column: Some(SlotColumn { usage: SlotUse::Inserted, ..key_column(true).column.unwrap() }),
    };
    check(
        &["insert into t (id) values ($1)"],
        |n| one(format!("ORD-{n:03}")),
        Some(text_column),
        ("fresh", "\"pattern('???-###')\""),
    );
    let clock = |n: usize| {
        let minute = n * 10 / 60;
        one(format!("2024-02-29 14:{minute:02}:{:02}.5+02", n * 10 % 60))
    };
    check(&["update t set at = $1"], clock, None, ("clock", "\"now() + seconds(draw.at_after_s)\""));
    check(&["select a from t where b >= $1"], |n| one(n.to_string()), None, ("range", "\"draw.b\""));
    check(
        &["update t set doc = $1"],
        |n| one(format!("{}{n}", "x".repeat(2000))),
        None,
        ("opaque", "\"alnum(2001, 2002)\""),
    );
    check(&["update t set doc = $1"], |n| one(format!("abc{n}...")), None, ("opaque", "\"alnum(4, 5)\""));
    check(&["update t set n = $1"], |n| one((n * 7 % 13).to_string()), None, ("value", "\"draw.n\""));
}

#[test]
fn links_and_returned_values_are_variables_of_what_comes_before() {
    let texts = ["begin", "select a from t where id = $1", "insert into u (t) values ($1)", "commit"];
    let values = |n: usize| {
        let id = (n * 31 % 40).to_string();
        vec![vec![], vec![id.clone()], vec![id], vec![]]
    };
    let found = captured(&texts, values, &BTreeMap::new()).unwrap();
    let script = String::from_utf8(found.files["transactions/insert-u.sql"].clone()).unwrap();
    assert_eq!(script, "begin;\nselect a from t where id = :id;\ninsert into u (t) values (:id);\ncommit;\n");

    let texts =
        ["begin", "insert into t (a) values ($1) returning id", "insert into u (t) values ($1)", "commit"];
    let values = |n: usize| vec![vec![], vec![(n % 3).to_string()], vec![(1000 + n).to_string()], vec![]];
    let found = captured(&texts, values, &BTreeMap::new()).unwrap();
    let script =
        String::from_utf8(found.files.values().find(|bytes| bytes.starts_with(b"begin")).unwrap().clone())
            .unwrap();
    assert!(script.contains("returning id \\gset s2_\ninsert into u (t) values (:s2_id);"), "{script}");
}

#[test]
fn what_an_insert_returned_is_used_in_the_rounds_of_a_loop() {
    let mut reader = LogReader::new(WindowChoice::All);
    for n in 0..40i64 {
        let id = (100 + n).to_string();
        let mut at = n * 1_000_000;
        let mut send = |text: &str, values: &[&str]| {
            at += 200;
            reader.executed(statement(text, values, at));
        };
        send("begin", &[]);
        send("insert into t (a) values ($1) returning id", &["x"]);
        for line in 0..1 + n % 3 {
            send("insert into u (t, n) values ($1, $2)", &[&id, &line.to_string()]);
        }
        send("commit", &[]);
    }
    let mut read = reader.finish();
    let found = made(&mut read, &BTreeMap::new()).unwrap();
    let script = String::from_utf8(found.files["transactions/insert-u.sql"].clone()).unwrap();
    let expected = "returning id \\gset s2_\n\\repeat loop1 :loop1_rounds\ninsert into u (t, n) values (:s2_id, :n);\n\\endrepeat\n";
    assert!(script.contains(expected), "{script}");
}

#[test]
fn what_lacks_values_is_left_out() {
    for (texts, value, reason) in [
        (["select a from t where id = $1"], "abc...", OmissionReason::Truncated),
        (["select lo_create($1)"], "1", OmissionReason::LargeObject),
    ] {
        let error = captured(&texts, |_| one(value), &BTreeMap::new()).unwrap_err().to_string();
        assert!(error.contains(reason.about()), "{error}");
    }
    let error = captured(&["select a from t where id = $1"], |_| Vec::new(), &BTreeMap::new())
        .unwrap_err()
        .to_string();
    assert!(error.contains("log_parameter_max_length"), "{error}");
}

#[test]
fn long_in_lists_become_arrays() {
    let list: Vec<String> = (1..=40).map(|n| n.to_string()).collect();
    let text = format!("select a from t where id in ({})", list.join(", "));
    let found = captured(&[&text], |_| Vec::new(), &BTreeMap::new()).unwrap();
    let script = String::from_utf8(found.files["transactions/select-t.sql"].clone()).unwrap();
    assert_eq!(script, "select a from t where id = any (:id);\n");
    let rows = String::from_utf8(zstd::decode_all(&found.files["draws/select-t.zst"][..]).unwrap()).unwrap();
    assert!(rows.starts_with("pgdyno draws 1\nid:text\n{1,2,3,"), "{rows}");
}

#[test]
fn what_is_rare_is_one_transaction() {
    let mut reader = LogReader::new(WindowChoice::All);
    for n in 0..130i64 {
        for again in 0..3 {
            let text = format!("select a{n} from t where id = $1");
            reader.executed(statement(&text, &[&n.to_string()], n * 1000 + again * 200));
        }
    }
    let mut read = reader.finish();
    let found = made(&mut read, &BTreeMap::new()).unwrap();
    assert_eq!(found.summary.balance.difference(), (0, 0));
    assert_eq!(found.summary.balance.reproduced.calls, 390, "{:?}", found.summary.balance);
    assert_eq!(found.summary.templates.len(), 101);
    let script = String::from_utf8(found.files["transactions/rest.sql"].clone()).unwrap();
    assert!(script.starts_with("\\if :shape = 1\nselect a"), "{script}");
    assert!(
        script.contains("where id = :r2_id;\n\\elif :shape = 3\n") && script.ends_with("\\endif\n"),
        "{script}"
    );
    let rows = String::from_utf8(zstd::decode_all(&found.files["draws/rest.zst"][..]).unwrap()).unwrap();
    let rows: Vec<&str> = rows.lines().collect();
    assert_eq!(rows.len(), 2 + 90);
    assert!(rows[1].starts_with("shape:int\tr1_id:int\tr2_id:int"), "{}", rows[1]);
    assert!(
        rows[2].starts_with("1\t") && rows[2].ends_with("\\N") && rows[91].starts_with("30\t\\N"),
        "{}",
        rows[91]
    );
}

#[test]
fn windows_cut_transactions_and_the_sum_stays_exact() {
    let window = CaptureWindow { from_us: BEGAN_US + 1000, to_us: BEGAN_US + 4000 };
    let mut reader = LogReader::new(WindowChoice::Between(window));
    for n in 0..60 {
        let text = if n % 3 == 0 {
            "begin"
        } else if n % 3 == 1 {
            "select 1"
        } else {
            "commit"
        };
        reader.executed(statement(text, &[], n * 100 + 50));
    }
    let mut read = reader.finish();
    let found = made(&mut read, &BTreeMap::new()).unwrap();
    let balance = &found.summary.balance;
    assert_eq!((balance.total.calls, balance.difference()), (30, (0, 0)));
    assert_eq!(balance.reproduced.calls, 27);
    assert_eq!(balance.left_out[&OmissionReason::WindowEdge].calls, 3);
    assert_eq!(read.n_outside, 30);
}

#[test]
fn hostile_streams_are_bounded_and_add_up() {
    let pieces = [
        "begin",
        "commit",
        "rollback",
        "select 1",
        "select $1, $2, $70000",
        "insert into t values ('",
        "copy t from stdin",
        ";",
        "",
        "set local a.b = 'x'",
        "set x = y",
        "select 1 in (1,2,3,4,5)",
        "savepoint a",
        "commit and chain",
        "fetch 5 from c",
        "declare c cursor for select $1",
        "prepare transaction 'x'",
        "select '\u{0}' || E'\\",
        "$$",
        "vacuum",
        "\u{feff}select",
        "(((((",
        "select a from t where b = 'x:y' and c like '%:z'",
        "update t set a = :b where c = $1",
    ];
    for seed in 0..60 {
        let mut mixer = Mixer::new(seed);
        let mut below = |n: usize| usize::try_from(mixer.below(n as u64)).unwrap();
        let mut reader = LogReader::new(WindowChoice::All);
        for n in 0..400i64 {
            let mut one = statement(pieces[below(pieces.len())], &["1", "NULL", "x..."][..below(4)], n * 50);
            one.session = below(5) as u32;
            one.start_us += below(3) as i64 * 1_000_000_000_000 - 1_000_000_000_000;
            one.duration_us = [None, Some(0), Some(1 << 40)][below(3)];
            one.protocol =
                [Protocol::Simple, Protocol::Extended, Protocol::Named("a".to_string())][below(3)].clone();
            one.transaction = Some(VirtualTransaction { backend: 3, local: below(4) as u64 });
            one.error = [None, None, Some(*b"25P02"), Some(*b"?????")][below(4)];
            one.is_fetch = below(20) == 0;
            one.batch = BatchPart { number: 1 + below(2) as u32, of: 2 };
            reader.executed(one);
            if below(50) == 0 {
                reader.session_ended(below(5) as u32, &LoggedSession::default());
            }
        }
        let mut read = reader.finish();
        // Whatever is made of it: either it adds up, or nothing of it can be replayed.
        if let Err(error) = made(&mut read, &BTreeMap::new()) {
            assert!(!error.to_string().contains("fault of pgdyno"), "{seed}: {error}");
        }
    }
}

#[test]
fn literals_of_statements_that_are_replayed_as_they_are_stay_only_in_clear() {
    let texts =
        ["begin", "set local \"claim.email\" = 'joe@example.com'", "select 1 from t where id = $1", "commit"];
    let mut reader = LogReader::new(WindowChoice::All);
    for n in 0..40i64 {
        for (at, text) in texts.iter().enumerate() {
            let own: &[&str] = if at == 2 { &["7"] } else { &[] };
            reader.executed(statement(text, own, n * 10_000_000 + at as i64 * 200));
            reader.executed(statement("select 2 from u where id = $1", &["8"], n * 10_000_000 + 5_000_000));
        }
    }
    let mut read = reader.finish();
    let facts = BTreeMap::new();
    let making = Making {
        name: "shop",
        privacy: Privacy::Hashed,
        key: [1; 32],
        facts: &facts,
        statistics: None,
        server: None,
        system_identifier: None,
        log: "test",
        n_clients: None,
    };
    let made = make(&mut read, &making).unwrap();
    for (name, bytes) in &made.files {
        assert!(!String::from_utf8_lossy(bytes).contains("joe@"), "{name}");
    }
}

#[test]
fn a_backslash_outside_of_quotes_is_no_command_of_a_script() {
    let parameters = |_: usize| vec![vec!["1".to_string()], Vec::new()];
    let texts = ["select 1 from t where id = $1", "select 1 \\sleep 1000 s"];
    let made = captured(&texts, parameters, &BTreeMap::new()).unwrap();
    for (name, bytes) in &made.files {
        assert!(!name.starts_with("transactions/") || !bytes.contains(&b'\\'), "{name}");
    }
}

#[test]
fn a_value_does_not_swallow_the_word_after_it() {
    let parameters = |n: usize| vec![vec![n.to_string()]];
    let made = captured(&["select 1 from t where a = 'x'and id = $1"], parameters, &BTreeMap::new()).unwrap();
    let scripts = made.files.iter().filter(|(name, _)| name.starts_with("transactions/"));
    let texts: Vec<String> = scripts.map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).collect();
    assert!(texts.iter().all(|text| text.contains(" and id = ")), "{texts:?}");
}

#[test]
fn sessions_are_chosen_and_a_window_within_the_log_is_as_long_as_it_says() {
    let window = CaptureWindow { from_us: BEGAN_US + 10_000_000, to_us: BEGAN_US + 110_000_000 };
    let choice = SessionChoice { users: vec!["shop".to_string()], ..SessionChoice::default() };
    let mut reader = LogReader::new(WindowChoice::Between(window)).with_sessions(choice);
    let of =
        |user: Option<&str>| LoggedSession { user: user.map(str::to_string), ..LoggedSession::default() };
    for (id, user) in [(1, Some("shop")), (2, Some("other")), (3, None)] {
        reader.session_began(id, &of(user));
        // Once a minute, from before the window to after it.
        for n in 0..4 {
            let of_session =
                |text: &str| ExecutedStatement { session: id, ..statement(text, &["5"], n * 60_000_000) };
            reader.executed(of_session("select a from t where id = $1"));
            reader.executed(of_session("/* pgdyno */ select $1"));
        }
    }
    let read = reader.finish();
    assert_eq!(read.span, Some(window));
    // One of the four is in the window.
    assert_eq!((read.balance.total.calls, read.n_unwanted, read.n_outside), (1, 20, 3));
}

#[test]
fn errors_of_the_source_are_expected_of_what_begins_alike() {
    let mut reader = LogReader::new(WindowChoice::All);
    for n in 0..60 {
        let at = |step: i64| n * 1_000_000 + step * 1000;
        let fails = n % 3 == 0;
        reader.executed(statement("begin", &[], at(0)));
        let mut insert = statement("insert into t values ($1)", &["5"], at(1));
        insert.error = fails.then_some(*b"23505");
        reader.executed(insert);
        if !fails {
            reader.executed(statement("update t set a = $1", &["7"], at(2)));
        }
        reader.executed(statement(if fails { "rollback" } else { "commit" }, &[], at(3)));
        reader.executed(statement("select $1", &["7"], at(4)));
    }
    let made = made(&mut reader.finish(), &BTreeMap::new()).unwrap();
    let manifest = String::from_utf8(made.files["workload.toml"].clone()).unwrap();
    let with_error: Vec<&str> =
        manifest.split("[[transaction]]").filter(|one| one.contains("expected = [\"23505\"]")).collect();
    assert_eq!((made.summary.templates.len(), with_error.len()), (3, 2), "{manifest}");
}
