//! What a real server says of statements that it has never run.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

use dataset::inquiry::{ColumnUse, Described, Inquiry, InquiryLimits, describe};
use testbed::Pg;
use wire::Session;

const SCHEMA: &str = "\
create table t (id int generated always as identity primary key, a int, name varchar(20) unique, ts timestamptz default now(), \
  gone int, mood text not null default 'calm'); \
alter table t drop column gone; \
create index on t (a); \
create table pairs (x bigint, y int, note text, primary key (x, y)); \
create table p (id bigint primary key, v text) partition by range (id); \
create table p1 partition of p for values from (0) to (100); \
create table p2 partition of p for values from (100) to (200); \
create view both_of as select t.id as vid, p.v from t join p using (id); \
create schema app; \
create table app.\"Odd One\" (\"I d\" uuid primary key default gen_random_uuid()); \
create function app.touch(int) returns int language plpgsql as $$ begin insert into t (a) values ($1); return 1; end $$; \
create function app.twice(int) returns int immutable language sql as 'select $1 * 2'; \
insert into t (a, name) select g % 10, 'n' || g from generate_series(1, 1000) g; \
insert into pairs select g, g % 3 from generate_series(-5, 5) g; \
insert into p select g from generate_series(7, 150) g; \
analyze";

/// `$1: integer t.id = unique`, one line per parameter.
fn lines(described: &Described) -> Vec<String> {
    let line = |(index, one): (usize, &dataset::inquiry::ParameterFacts)| {
        let mut line = format!("${} {}", index + 1, one.type_name);
        if one.is_guessed {
            line.push_str(" guessed");
        }
        let Some(column) = &one.column else { return line };
        let reads = match column.reads {
            ColumnUse::None => "?",
            ColumnUse::Assigned => "set",
            ColumnUse::Range => "<",
            ColumnUse::Equality => "=",
            ColumnUse::Inserted => "insert",
        };
        line.push_str(&format!(" {reads} {}.{}", column.table, column.column));
        for (is, word) in [
            (column.unique, "unique"),
            (column.in_unique, "in_unique"),
            (column.indexed && !column.unique, "indexed"),
            (column.has_default, "default"),
            (!column.is_bare, "within"),
        ] {
            line.push_str(&if is { format!(" {word}") } else { String::new() });
        }
        if let (Some(least), Some(most)) = (column.least, column.most) {
            line.push_str(&format!(" {least}..{most}"));
        }
        line
    };
    described.parameters.iter().enumerate().map(line).collect()
}

fn session(pg: &Pg) -> Session {
    let database = pg.database_of("postgres");
    pg.execute(&database, SCHEMA);
    pg.admin(&database)
}

/// Stands as `ID` in the table below.
const ID: &str = "t.id unique default 1..1000";

/// Statements, whether they only read, and what is known of their parameters.
const PARAMETERS: &[(&str, Option<bool>, &[&str])] = &[
    ("select * from t where id = $1;", Some(true), &["$1 integer = ID"]),
    ("select 1", Some(true), &[]),
    (
        "select a, sum(p.id) from t join p on p.id = t.id where t.a = $1 and p.v like $2 and t.ts > now() - $3::interval \
         group by a having count(*) > $4 limit $5",
        Some(true),
        &[
            "$1 integer = t.a indexed 0..9",
            "$2 text ? p.v",
            "$3 interval < t.ts default within",
            "$4 bigint",
            "$5 bigint",
        ],
    ),
    (
        "select * from t where id in ($1, $2, 7) or a between $3 and $4",
        Some(true),
        &[
            "$1 integer = ID",
            "$2 integer = ID",
            "$3 integer < t.a indexed 0..9",
            "$4 integer < t.a indexed 0..9",
        ],
    ),
    ("select * from t where name = any ($1)", Some(true), &["$1 text[] = t.name unique"]),
    ("select * from t where name = $1::varchar", Some(true), &["$1 character varying = t.name unique"]),
    ("select * from t where lower(name) = lower($1)", Some(true), &["$1 text = t.name unique within"]),
    ("select * from both_of where vid = $1 and v = $2", Some(true), &["$1 integer = ID", "$2 text = p.v"]),
    ("select v from p where id >= $1", Some(true), &["$1 bigint < p.id unique 7..150"]),
    (
        "select note from pairs where x = $1 and y = $2",
        Some(true),
        &["$1 bigint = pairs.x in_unique indexed -5..5", "$2 integer = pairs.y in_unique"],
    ),
    (
        "insert into t (name, a, mood) values ($1, $2, lower($3)) returning id",
        Some(false),
        &[
            "$1 character varying insert t.name unique",
            "$2 integer insert t.a indexed 0..9",
            "$3 text insert t.mood default within",
        ],
    ),
    (
        "insert into pairs (y, x) values ($1, $2), ($3, $4) on conflict (x, y) do update set note = $5",
        Some(false),
        &[
            "$1 integer insert pairs.y in_unique",
            "$2 bigint insert pairs.x in_unique indexed -5..5",
            "$3 integer insert pairs.y in_unique",
            "$4 bigint insert pairs.x in_unique indexed -5..5",
            "$5 text set pairs.note",
        ],
    ),
    (
        "insert into p select id, $1 from t where a = $2",
        Some(false),
        &["$1 text insert p.v", "$2 integer = t.a indexed 0..9"],
    ),
    (
        "update t set mood = $1, a = a + $2 where id = $3",
        Some(false),
        &["$1 text set t.mood default", "$2 integer set t.a indexed within 0..9", "$3 integer = ID"],
    ),
    (
        "update p set v = $2 where id = $1",
        Some(false),
        &["$1 bigint = p.id unique 7..150", "$2 text set p.v"],
    ),
    ("delete from t where id = any ($1)", Some(false), &["$1 integer[] = ID"]),
    ("select * from t where id = $1 for update", Some(false), &["$1 integer = ID"]),
    ("select nextval('t_id_seq'), $1::int", Some(false), &["$1 integer"]),
    ("select app.touch($1)", None, &["$1 integer"]),
    (
        "select app.twice(a), random(), clock_timestamp() from t where id = $1",
        Some(true),
        &["$1 integer = ID"],
    ),
    (
        "select * from app.\"Odd One\" where \"I d\" = $1",
        Some(true),
        &["$1 uuid = Odd One.I d unique default"],
    ),
    (
        "select t.id from t left join pairs on pairs.x = t.id and pairs.x = $1",
        Some(true),
        &["$1 bigint = pairs.x in_unique indexed -5..5"],
    ),
];

#[test]
fn parameters_have_types_columns_and_ranges() {
    let pg = Pg::shared();
    let mut session = session(&pg);
    let mut inquiry = Inquiry::begin(&mut session, InquiryLimits::default()).unwrap();
    for (sql, reads_only, expected) in PARAMETERS {
        let described = inquiry.describe(sql).unwrap();
        assert_eq!(described.refused, None, "{sql}");
        let expected: Vec<String> = expected.iter().map(|line| line.replace("ID", ID)).collect();
        assert_eq!(lines(&described), expected, "{sql}: {described:?}");
        assert_eq!(described.reads_only, *reads_only, "{sql}: {described:?}");
    }
    inquiry.end().unwrap();
    assert_eq!(
        session.query("select count(*)::int, max(id) from public.t").unwrap().scalar(),
        Some("1000"),
        "nothing was executed"
    );
    assert_eq!(session.query("select count(*) from pg_prepared_statements").unwrap().scalar(), Some("0"));
}

#[test]
fn a_parameter_without_a_type_gets_one_that_its_values_fit() {
    let pg = Pg::shared();
    let mut session = session(&pg);
    let mut inquiry = Inquiry::begin(&mut session, InquiryLimits::default()).unwrap();
    let mut check = |sql: &str, fits: &[&str], expected: &[&str]| {
        let described = inquiry.describe_fitting(sql, &mut |_, name| fits.contains(&name)).unwrap();
        assert_eq!(described.refused, None, "{sql}");
        assert_eq!(lines(&described), expected, "{sql}");
    };
    let all = ["int8", "numeric", "timestamptz", "text"];
    check("select $1 + $2", &all, &["$1 bigint guessed", "$2 bigint"]);
    check("select $1 + $2 /* $3 */", &all[1..], &["$1 numeric guessed", "$2 numeric"]);
    check("select date_trunc('day', $1)", &all[2..], &["$1 timestamp with time zone guessed"]);
    check(
        "select * from t where id = any (array[$1, $2])",
        &all,
        &["$1 bigint guessed = t.id unique default 1..1000", "$2 bigint = t.id unique default 1..1000"],
    );
    check("select $1 is null", &all, &["$1 bigint guessed"]);
    let described = inquiry.describe_fitting("select $1 + $2", &mut |_, _| false).unwrap();
    assert_eq!(described.refused.unwrap().sqlstate, "42725");
}

#[test]
fn what_the_server_refuses_or_does_not_plan_is_said_and_nothing_else_is_lost() {
    let pg = Pg::shared();
    let mut session = session(&pg);
    let mut inquiry = Inquiry::begin(&mut session, InquiryLimits::default()).unwrap();
    for (sql, sqlstate) in [
        ("select * from nowhere where id = $1", "42P01"),
        ("select $1 from t where", "42601"),
        ("drop table t; select 1", "42601"),
        ("select 1; drop table t", "42601"),
        ("select $1 + $2; drop table t", "42601"),
        ("select $65536", "54000"),
        ("select app.nothing($1)", "42883"),
    ] {
        let refused = inquiry.describe(sql).unwrap().refused;
        assert_eq!(
            refused.as_ref().map(|refused| refused.sqlstate.as_str()),
            Some(sqlstate),
            "{sql}: {refused:?}"
        );
    }
    for sql in ["begin", "commit", "set work_mem = '1MB'", "vacuum t", "listen x"] {
        let described = inquiry.describe(sql).unwrap();
        assert_eq!((described.refused, described.reads_only), (None, None), "{sql}");
        assert!(described.unknown[0].contains("utility"), "{sql}");
    }
    let hidden =
        "update t set mood = $2 where id = $3 and a >= (select min(id) from p where v = $4) and a <> $1";
    let described = inquiry.describe(hidden).unwrap();
    assert_eq!(described.parameters.len(), 4);
    assert!(described.parameters[3].column.is_some(), "{described:?}");
    inquiry.end().unwrap();
    assert_eq!(describe(&mut session, "select * from t where id = $1").unwrap().reads_only, Some(true));
}

#[test]
fn a_role_without_rights_learns_types_and_the_rest_is_unknown() {
    let pg = Pg::shared();
    let database = pg.database_of("postgres");
    pg.execute(&database, SCHEMA);
    pg.execute(&database, "create role reader; grant select (id) on t to reader");
    let mut session = pg.admin(&database);
    session.execute("set role reader").unwrap();
    let described = describe(&mut session, "select id from t where id = $1").unwrap();
    assert_eq!(lines(&described), ["$1 integer = t.id unique default 1..1000"], "{described:?}");
    let described = describe(&mut session, "select a from t where a = $1").unwrap();
    assert_eq!((lines(&described), described.reads_only), (vec!["$1 integer".to_string()], None));
    assert!(described.unknown[0].contains("permission denied"), "{described:?}");
    pg.execute(&database, "drop owned by reader; drop role reader");
}

#[test]
fn every_release_says_types_and_those_without_generic_plans_say_that_they_have_none() {
    let pg = Pg::shared();
    let database = pg.database_of("postgres");
    pg.execute(&database, "create table plain (id int primary key, name text)");
    let mut session = pg.admin(&database);
    let described = describe(&mut session, "select * from plain where id = $1 and name = $2").unwrap();
    let types: Vec<&str> = described.parameters.iter().map(|one| one.type_name.as_str()).collect();
    assert_eq!(types, ["integer", "text"]);
    if session.server_version_num() < 120_000 {
        assert!(described.unknown[0].contains("since PostgreSQL 12") && described.reads_only.is_none());
    } else {
        assert!(described.parameters[0].column.is_some() && described.reads_only == Some(true));
    }
    assert_eq!(describe(&mut session, "select $1 + $2").unwrap().parameters[0].type_name, "bigint");
}
