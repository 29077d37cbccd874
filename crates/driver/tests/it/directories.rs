//! Transactions of workload directories: parameters, glued names, expected errors, retries, facts, pauses and classes of clients.

use std::collections::BTreeMap;
use std::fmt::Write;

use model::experiment::case::directory::WorkloadDirectory;
use model::load::drive::LoadEnding;
use model::load::{LoadSpec, OnError, Protocol, ScriptSpec};
use testbed::Pg;
use wire::Conninfo;

use crate::order::{Driving, Story, drive, load};

const PROTOCOLS: [Protocol; 3] = [Protocol::Simple, Protocol::Extended, Protocol::Prepared];

/// What `workload.toml` says of a transaction after its name, and its script.
type Transaction<'a> = (&'a str, &'a str, &'a str);

/// A load of a directory with these transactions, and whatever follows them in its `workload.toml`.
fn load_of(target: &Conninfo, transactions: &[Transaction], more: &str) -> LoadSpec {
    let mut manifest = "format = 1\nname = \"t\"\ntitle = \"T\"\nabout = \"tests\"\nsource = \"own\"\n\
                        licence = \"MIT OR Apache-2.0\"\nscale = \"nothing\"\n"
        .to_string();
    let mut texts = BTreeMap::new();
    let mut weights = Vec::new();
    for (name, declared, source) in transactions {
        write!(manifest, "[[transaction]]\nname = \"{name}\"\n{declared}\n").unwrap();
        texts.insert(format!("transactions/{name}.sql"), source.to_string());
        weights.push(format!("{name} = 1"));
    }
    writeln!(manifest, "{more}\n[variants]\nplain = {{weights = {{{}}}}}", weights.join(", ")).unwrap();
    texts.insert("workload.toml".to_string(), manifest);
    texts.insert("schema.sql".to_string(), String::new());
    let directory =
        WorkloadDirectory { name: "t".to_string(), data_seed: 1, texts, ..WorkloadDirectory::default() };
    let script = |(name, _, source): &Transaction| ScriptSpec {
        name: name.to_string(),
        tag: name.to_string(),
        weight: 1,
        source: source.to_string(),
    };
    LoadSpec {
        scripts: transactions.iter().map(script).collect(),
        directory: Some(Box::new(directory)),
        ..load(target, "")
    }
}

/// Counts of an expected error, of all intervals of a script.
fn fact(story: &Story, script: u32, name: &str) -> u64 {
    let of_script = story.intervals.iter().filter(|interval| interval.script == script);
    of_script.filter_map(|interval| interval.facts.get(name)).sum()
}

#[test]
fn parameters_are_the_same_rows_in_every_protocol() {
    let pg = Pg::shared();
    let database = pg.database();
    pg.execute(&database, "create table seen (client int, n int, word text, day date, part numeric)");
    let declared = "params = {n = \"uniform(1, 1000000)\", word = \"ascii(12)\", \
                    day = \"date('2024-01-01') + uniform(0, 300)\", part = \"decimal(uniform(-99, 99), 2)\"}";
    let source = "insert into seen values (:client_id, :n, :word, :day, :part);";
    let mut rows = Vec::new();
    for protocol in PROTOCOLS {
        let mut load = load_of(&pg.socket(&database), &[("put", declared, source)], "");
        (load.protocol, load.n_clients, load.transactions_per_client) = (protocol, 2, Some(50));
        let story = drive(load);
        assert_eq!(story.outcomes(), (100, 0, 0, 0), "{protocol:?} {:?}", story.done);
        let sql = "select md5(string_agg(seen::text, ',' order by client, n, word)) || count(distinct word) from seen";
        rows.push(pg.ask(&database, sql));
        pg.execute(&database, "truncate seen");
    }
    assert!(rows[0].ends_with("100") && rows[0] == rows[1] && rows[1] == rows[2], "{rows:?}");
}

#[test]
fn a_name_with_a_variable_is_a_table_of_its_own_in_every_protocol() {
    let pg = Pg::shared();
    let database = pg.database();
    for table in 1..=3 {
        pg.execute(&database, &format!("create table t{table} (f0 int, f1 int)"));
    }
    let declared = "params = {t = \"uniform(1, 3)\", f = \"uniform(0, 1)\"}";
    let source =
        "begin;\ninsert into t:t (f:f) values (:t * 10 + :f);\nselect f:f from t:t where f:f = 1;\nend;";
    for protocol in PROTOCOLS {
        for lazy_parse in [false, true] {
            let mut load = load_of(&pg.socket(&database), &[("put", declared, source)], "");
            (load.protocol, load.lazy_parse, load.transactions_per_client) = (protocol, lazy_parse, Some(60));
            let story = drive(load);
            assert_eq!(story.outcomes(), (60, 0, 0, 0), "{protocol:?} {:?}", story.done);
        }
    }
    let sql = "select count(*) || ' ' || count(distinct v) from (select coalesce(f0, f1) v from t1 where f0 = 10 or f1 = 11 \
               union all select coalesce(f0, f1) from t2 where f0 = 20 or f1 = 21 \
               union all select coalesce(f0, f1) from t3 where f0 = 30 or f1 = 31) as one";
    assert_eq!(pg.ask(&database, sql), "360 6");
}

#[test]
fn pipelines_find_the_statements_of_their_names() {
    let pg = Pg::shared();
    let database = pg.database();
    pg.execute(&database, "create table t1 (n int); create table t2 (n int)");
    let source = "\\startpipeline\ninsert into t:t values (1);\ninsert into t:t values (2);\n\\endpipeline";
    for (protocol, lazy_parse) in
        [(Protocol::Extended, false), (Protocol::Prepared, false), (Protocol::Prepared, true)]
    {
        let declared = "params = {t = \"uniform(1, 2)\"}";
        let mut load = load_of(&pg.socket(&database), &[("put", declared, source)], "");
        (load.protocol, load.lazy_parse, load.transactions_per_client) = (protocol, lazy_parse, Some(20));
        assert_eq!(drive(load).outcomes(), (20, 0, 0, 0), "{protocol:?}");
    }
    let sql = "select (select count(*) from t1) + (select count(*) from t2)";
    assert_eq!(pg.ask(&database, sql), "120");
}

#[test]
fn expected_errors_are_neither_failures_nor_commits() {
    let pg = Pg::shared();
    let database = pg.database();
    pg.execute(&database, "create table t (id int primary key)");
    let declared = "expected = [\"23505\"]\nparams = {id = \"uniform(1, 20)\"}";
    for source in ["insert into t values (:id);", "begin;\ninsert into t values (:id);\nend;"] {
        for on_error in [OnError::Continue, OnError::EndClient] {
            pg.execute(&database, "truncate t");
            let mut load = load_of(&pg.socket(&database), &[("put", declared, source)], "");
            (load.on_error, load.transactions_per_client) = (on_error, Some(200));
            let story = drive(load);
            let counts = story.done.counts;
            assert!(counts.committed <= 20 && counts.committed + counts.expected == 200, "{counts:?}");
            assert_eq!((counts.failed, story.done.errors.len(), story.done.clients_lost), (0, 0, 0));
            assert_eq!(pg.ask(&database, "select count(*) from t"), counts.committed.to_string());
            let latencies: u64 = story.intervals.iter().map(|interval| interval.latency.n).sum();
            assert_eq!(latencies, counts.committed, "an expected error has no latency");
        }
    }
    // Any other error fails.
    let source = "select 1 / (:id::int - :id::int);";
    let mut load = load_of(&pg.socket(&database), &[("put", declared, source)], "");
    load.transactions_per_client = Some(3);
    assert_eq!(drive(load).outcomes(), (0, 3, 0, 0));
}

#[test]
fn errors_that_a_transaction_names_are_tried_again_with_the_same_parameters() {
    let pg = Pg::shared();
    let database = pg.database();
    pg.execute(
        &database,
        "create sequence tries; create table t (id int, n bigint); \
         create function flaky(id int) returns int language plpgsql as $$ declare n bigint := nextval('tries'); \
         begin if n % 3 <> 0 then raise exception 'again %', id using errcode = 'P0009'; end if; return id; end $$",
    );
    let source = "begin;\ninsert into t values (:id, 0);\nselect flaky(:id);\nend;";
    let declared = "retry = [\"P0009\"]\nparams = {id = \"uniform(1, 1000000)\"}";
    let mut load = load_of(&pg.socket(&database), &[("put", declared, source)], "");
    load.transactions_per_client = Some(10);
    let story = drive(load);
    let counts = story.done.counts;
    assert_eq!(story.outcomes(), (10, 0, 0, 0), "{counts:?}");
    assert_eq!((counts.retried, counts.retries), (10, 20));
    assert_eq!(pg.ask(&database, "select count(distinct id) from t"), "10");
    // Not more often than the load says, if it says a number.
    let mut bounded = load_of(&pg.socket(&database), &[("put", declared, source)], "");
    (bounded.transactions_per_client, bounded.max_tries) = (Some(4), 2);
    let story = drive(bounded);
    assert_eq!(story.done.errors.get("P0009"), Some(&story.done.counts.failed));
    assert!(story.done.counts.failed > 0, "{:?}", story.done);
}

#[test]
fn facts_are_summed_over_committed_transactions() {
    let pg = Pg::shared();
    let database = pg.database();
    pg.execute(&database, "create table t (id int primary key)");
    let source = "\\set got 0\nbegin;\nselect count(*) + 7 as got from t where id = :id \\gset\ninsert into t values (:id);\nend;";
    let declared = "expected = [\"23505\"]\nparams = {id = \"uniform(1, 20)\"}\nfacts = {got = \"got\", is_odd = \"id % 2 == 1\"}";
    let mut load = load_of(&pg.socket(&database), &[("put", declared, source)], "");
    load.transactions_per_client = Some(200);
    let story = drive(load);
    let n = story.done.counts.committed;
    assert_eq!(fact(&story, 0, "got"), 7 * n, "{:?}", story.done);
    assert_eq!(
        fact(&story, 0, "is_odd").to_string(),
        pg.ask(&database, "select count(*) from t where id % 2 = 1")
    );
}

#[test]
fn a_fact_that_cannot_be_computed_ends_its_client() {
    let pg = Pg::shared();
    let database = pg.database();
    let declared = "facts = {ratio = \"1 / zero\"}";
    let source = "\\set zero 0\nselect :zero;";
    let story = drive(load_of(&pg.socket(&database), &[("one", declared, source)], ""));
    assert_eq!((story.done.ending, story.done.counts.committed), (LoadEnding::ConnectionsLost, 1));
    assert!(story.done.messages["script"].contains("fact \"ratio\": division by zero"), "{:?}", story.done);
}

#[test]
fn what_cannot_be_driven_is_refused_before_the_load() {
    let pg = Pg::shared();
    let database = pg.database();
    let check = |declared: &str, source: &str, expected: &str| {
        let load = load_of(&pg.socket(&database), &[("one", declared, source)], "");
        let order = model::load::drive::DriveOrder::new(load, None);
        let message = Driving::start_with(&serde_json::to_string(&order).unwrap()).failure();
        assert!(message.contains(expected), "{message}");
    };
    check("params = {n = \"uniform(1, 2000)\"}", "select 1 from t:n;", "compiled 2000 times");
    check("params = {n = \"uniform(1, \"}", "select :n;", "workload.toml:");
    check("", "\\shell echo\nselect 1;", "runs a command of the client's machine");
}

#[test]
fn a_pause_after_a_transaction_is_no_latency() {
    let pg = Pg::shared();
    let database = pg.database();
    let of = |declared: &str| {
        let mut load = load_of(&pg.socket(&database), &[("one", declared, "select 1;")], "");
        load.window.measure_s = 2;
        drive(load)
    };
    for think in ["think = \"100ms\"", "think = {mean = \"100ms\"}"] {
        let story = of(think);
        let n = story.done.counts.committed;
        assert!((5..=45).contains(&n), "{think}: {:?}", story.done.counts);
        let mean_ns = story.intervals.iter().map(|interval| interval.latency.sum).sum::<f64>() / n as f64;
        assert!(mean_ns < 50e6, "{think}: {mean_ns}");
    }
}

#[test]
fn classes_of_clients_run_what_is_theirs_with_settings_of_their_own() {
    let pg = Pg::shared();
    let database = pg.database();
    pg.execute(&database, "create table seen (client int, what text, mem text)");
    let put = "insert into seen values (:client_id, 'put', current_setting('work_mem'));";
    let take = "insert into seen values (:client_id, 'take', current_setting('work_mem'));";
    let sessions = "[[session]]\nname = \"few\"\nclients = 1\nweights = {take = 1}\n\
                    settings = {work_mem = \"7MB\"}\n\
                    [[session]]\nname = \"many\"\nshare = 1.0\nweights = {put = 1}\nsettings = {work_mem = \"9MB\"}\n";
    let mut load = load_of(&pg.socket(&database), &[("put", "", put), ("take", "", take)], sessions);
    (load.n_clients, load.n_threads, load.transactions_per_client) = (4, 2, Some(5));
    let story = drive(load);
    assert_eq!(story.outcomes(), (20, 0, 0, 0), "{:?}", story.done);
    let sql = "select string_agg(what || mem || n, ' ' order by what) from \
               (select what, mem, count(*) || '/' || count(distinct client) n from seen group by 1, 2) as one";
    assert_eq!(pg.ask(&database, sql), "put9MB15/3 take7MB5/1");
}

#[test]
fn transactions_in_an_order_follow_each_other() {
    let pg = Pg::shared();
    let database = pg.database();
    pg.execute(&database, "create table seen (id serial, client int, what text)");
    let put = |what: &str| format!("insert into seen (client, what) values (:client_id, '{what}');");
    let (a, b, c) = (put("a"), put("b"), put("c"));
    let order = "[[session]]\nname = \"all\"\nshare = 1.0\norder = [\"c\", \"a\", \"c\", \"b\"]\n";
    let transactions = [("a", "", a.as_str()), ("b", "", b.as_str()), ("c", "", c.as_str())];
    let mut load = load_of(&pg.socket(&database), &transactions, order);
    (load.n_clients, load.transactions_per_client) = (2, Some(6));
    drive(load);
    let sql = "select string_agg(what, ' ' order by client) from \
               (select client, string_agg(what, '' order by id) what from seen group by 1) as one";
    assert_eq!(pg.ask(&database, sql), "cacbca cacbca");
}

#[test]
fn a_timeout_is_the_server_s() {
    let pg = Pg::shared();
    let database = pg.database();
    let declared = "timeout = \"50ms\"\nexpected = [\"57014\"]";
    let mut load = load_of(&pg.socket(&database), &[("one", declared, "select pg_sleep(30);")], "");
    load.transactions_per_client = Some(3);
    let counts = drive(load).done.counts;
    assert_eq!((counts.expected, counts.failed, counts.committed), (3, 0, 0), "{counts:?}");
}

#[test]
fn loops_draw_their_parameters_in_each_round() {
    let pg = Pg::shared();
    let database = pg.database();
    pg.execute(&database, "create table t (k int, n int); create table u0 (n int); create table u1 (n int)");
    let source = "-- pgdyno: extended\nbegin;\n\\repeat line :n\ninsert into t values (:k, :v);\n\
                  insert into u:w values (:v);\n\\endrepeat\nend;";
    let declared = "params = {n = \"uniform(0, 3)\", k = \"uniform(1, 1000000)\"}\n\
                    each = {line = {v = \"uniform(1, 1000000)\", w = \"uniform(0, 1)\"}}";
    for protocol in PROTOCOLS {
        let mut load = load_of(&pg.socket(&database), &[("one", declared, source)], "");
        (load.protocol, load.transactions_per_client) = (protocol, Some(40));
        assert_eq!(drive(load).outcomes(), (40, 0, 0, 0), "{protocol:?}");
    }
    let sql = "select count(*) from (select count(*) n from t group by k) as one where n > 9";
    assert_eq!(pg.ask(&database, sql), "0", "three rounds at most, in each protocol");
    let sql = "select count(*) > 100 and count(*) = 3 * count(distinct n) from t";
    assert_eq!(pg.ask(&database, sql), "t", "each protocol drew the same");
    let sql = "select (select count(*) from t) = (select count(*) from u0) + (select count(*) from u1)";
    assert_eq!(pg.ask(&database, sql), "t");
}
