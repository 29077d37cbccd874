//! Data of workload directories: loaded, marked, checked, proved before, and harmless whatever their SQL wants.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use dataset::directory::bounds::LoadBounds;
use dataset::directory::checks::{self, Outcomes};
use dataset::directory::load::{DirectoryRequest, load};
use dataset::directory::marks::DirectoryState;
use dataset::directory::{DirectoryData, guest, trial};
use dataset::session;
use generator::{Choice, Directory, Instance};
use testbed::TestServer;
use wire::Conninfo;
use wire::session::Session;
use workload::Schema;

static STOP: AtomicBool = AtomicBool::new(false);
const STATEMENT_MAX: Duration = Duration::from_secs(30);

const MANIFEST: &str = "\
format = 1
name = \"shop\"
title = \"Shop\"
about = \"Orders and their lines.\"
source = \"own\"
licence = \"MIT\"
scale = \"1,000 orders\"

[[table]]
name = \"orders\"
rows = \"1000 * scale\"
[table.columns]
id = \"row + 1\"
customer = \"concat('Customer ', zeros(row % 100, 3))\"

[[table]]
name = \"line\"
each = \"orders\"
lines = \"uniform(1, 5)\"
[table.columns]
orders = \"parent + 1\"
number = \"line + 1\"
amount = \"decimal(uniform(1, 99999), 2)\"

[[table]]
name = \"log\"
rows = \"0\"

[[transaction]]
name = \"note\"

[[check]]
name = \"orders\"
title = \"no order is lost\"
when = \"load, run\"

[[check]]
name = \"lines\"
title = \"no line is lost\"
when = \"load, run\"

[[check]]
name = \"noted\"
title = \"each note is there\"
when = \"run\"
";

const SCHEMA: &str = "\
create table orders (id int not null, customer varchar(12) not null);
create table line (orders int not null, number smallint not null, amount numeric(9, 2) not null);
create table log (id bigserial, at timestamptz default now());
create view totals as select orders, sum(amount) from line group by orders;
create function noted() returns bigint language sql as 'select count(*) from log';
";

fn files() -> BTreeMap<String, String> {
    let files = [
        ("workload.toml", MANIFEST),
        ("schema.sql", SCHEMA),
        (
            "after.sql",
            "alter table orders add primary key (id);\nalter table line add primary key (orders, number);\n\
             alter table line add foreign key (orders) references orders;\n\
             select setval('log_id_seq', 1000);\n",
        ),
        ("transactions/note.sql", "INSERT INTO log DEFAULT VALUES;\n"),
        (
            "checks/orders.sql",
            "select count(*) as rows, :rows_orders as expected from orders having count(*) <> :rows_orders;\n",
        ),
        (
            "checks/lines.sql",
            "select count(*) as rows from line having count(*) <> :rows_line -- all of them\n",
        ),
        ("checks/noted.sql", "select noted() as noted where noted() <> :committed_note + :unknown_note;"),
    ];
    files.into_iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
}

fn instance_of(files: BTreeMap<String, String>, scale: u32) -> Arc<Instance> {
    let directory = Directory::new(files).unwrap();
    let choice = Choice { variant: None, options: BTreeMap::new(), scale, data_seed: None };
    let made = Instance::new(&directory, &choice);
    made.map(Arc::new).unwrap_or_else(|problems| {
        panic!("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    })
}

fn with(name: &str, text: &str) -> BTreeMap<String, String> {
    let mut files = files();
    files.insert(name.to_string(), text.to_string());
    files
}

/// A database in which a role without rights may make tables.
struct Bench {
    server: TestServer,
    database: String,
    schema: Schema,
}

impl Bench {
    fn start() -> Bench {
        let server = TestServer::start(&Default::default());
        let database = server.database_of("postgres");
        let bench = Bench { server, database, schema: Schema::named("public") };
        guest::make(&mut bench.owner(), &bench.schema).unwrap();
        bench
    }

    fn conninfo(&self) -> Conninfo {
        guest::conninfo(&self.server.socket(&self.database))
    }

    fn guest(&self) -> Session {
        session::open(&self.conninfo(), &STOP).unwrap()
    }

    fn owner(&self) -> Session {
        self.server.admin(&self.database)
    }

    fn data<'a>(&'a self, instance: &'a Arc<Instance>, scale: u32) -> DirectoryData<'a> {
        DirectoryData { name: "shop", scale, instance, schema: &self.schema }
    }

    fn load(&self, data: DirectoryData<'_>, may_replace: bool) -> Result<u64, String> {
        let request = DirectoryRequest {
            data,
            connect: &|| session::open(&self.conninfo(), &STOP),
            n_streams: Some(3),
            may_replace,
            schema_statement_max: STATEMENT_MAX,
            now: &|| "2026-11-29T16:00:00Z".to_string(),
            stop: &STOP,
        };
        load(&request, &mut |_| {}).map(|report| report.n_rows).map_err(|error| format!("{error:#}"))
    }

    fn problems(&self, files: BTreeMap<String, String>, longest: Duration) -> String {
        let instance = instance_of(files, 1);
        let found = trial::problems(&mut self.guest(), self.data(&instance, 1), longest).unwrap();
        found.join("\n")
    }

    fn ask(&self, sql: &str) -> String {
        self.server.ask(&self.database, sql)
    }
}

#[test]
fn a_directory_is_loaded_marked_and_checked() {
    let bench = Bench::start();
    let instance = instance_of(files(), 2);
    let data = bench.data(&instance, 2);
    assert_eq!(trial::problems(&mut bench.guest(), data, STATEMENT_MAX).unwrap(), Vec::<String>::new());
    assert_eq!(bench.ask("select count(*) from pg_class where relname in ('orders', 'line', 'log')"), "0");
    assert_eq!(data.state(&mut bench.guest()).unwrap(), DirectoryState::Absent);

    let n_rows = bench.load(data, false).unwrap();
    let lines: u64 = bench.ask("select count(*) from line").parse().unwrap();
    assert!(lines > 4000 && lines < 8000, "{lines}");
    assert_eq!((bench.ask("select count(*) from orders"), n_rows), ("2000".to_string(), 2000 + lines));
    assert_eq!(bench.ask("select customer from orders where id = 101"), "Customer 000");
    assert_eq!(bench.ask("select nextval('log_id_seq')"), "1001");
    assert_eq!(bench.ask("select tableowner from pg_tables where tablename = 'line'"), guest::GUEST);
    data.expect_whole(&mut bench.guest()).unwrap();
    assert_eq!(data.loaded_rows(&mut bench.guest()).unwrap(), BTreeMap::from([("line".to_string(), lines)]));
    let marks =
        "select count(*) from pg_description where description like 'pgdyno workload=directory:shop %'";
    assert_eq!(bench.ask(marks), "5", "three tables, a view and a function");

    // Loaded again, the same rows are there, and nothing twice.
    let digest = "select md5(string_agg(l::text, ',' order by orders, number)) from line l";
    let before = bench.ask(digest);
    assert_eq!(bench.load(data, false), Ok(n_rows));
    assert_eq!((bench.ask(digest), bench.ask(marks)), (before, "5".to_string()));

    // Data of another size is replaced with consent alone.
    let smaller = instance_of(files(), 1);
    let other = bench.data(&smaller, 1);
    let refused = bench.load(other, false).unwrap_err();
    assert!(refused.contains("has complete data of workload `shop` at scale 2"), "{refused}");
    assert!(other.expect_whole(&mut bench.guest()).is_err());
    bench.load(other, true).unwrap();
    assert_eq!(bench.ask("select count(*) from orders"), "1000");
    expect_violations(&bench, other);
}

/// Checks find what was lost, and know what was committed.
fn expect_violations(bench: &Bench, data: DirectoryData<'_>) {
    let check = |noted: u64| -> BTreeMap<String, String> {
        let mut session = bench.guest();
        data.enter(&mut session).unwrap();
        let rows = data.loaded_rows(&mut session).unwrap();
        let outcomes = BTreeMap::from([("note".to_string(), Outcomes { committed: noted, unknown: 0 })]);
        let checked =
            checks::after_run(&mut session, data.instance, &rows, Some(&outcomes), STATEMENT_MAX).unwrap();
        assert_eq!(checked.results.len(), 3);
        checked.violations()
    };
    assert_eq!(check(0), BTreeMap::new());
    bench.server.execute(&bench.database, "insert into log default values");
    assert_eq!(check(1), BTreeMap::new());
    assert_eq!(check(2), BTreeMap::from([("noted".to_string(), "each note is there: noted=1".to_string())]));
    // Where nobody counts, as in the replay of a trace, what needs the count is left out, and the others are made.
    let mut session = bench.guest();
    data.enter(&mut session).unwrap();
    let rows = data.loaded_rows(&mut session).unwrap();
    let uncounted = checks::after_run(&mut session, data.instance, &rows, None, STATEMENT_MAX).unwrap();
    let made: Vec<&str> = uncounted.results.iter().map(|result| result.id.as_str()).collect();
    assert_eq!((made, uncounted.violations()), (vec!["orders", "lines"], BTreeMap::new()));
    assert!(uncounted.unfinished["noted"].contains("counts transactions by name"), "{uncounted:?}");
    bench.server.execute(&bench.database, "delete from line where orders = 7");
    let broken = check(1);
    assert!(broken["lines"].starts_with("no line is lost: rows="), "{broken:?}");
    bench.server.execute(&bench.database, "delete from orders where id = 7");
    assert_eq!(check(1)["orders"], "no order is lost: rows=999 expected=1000");
}

#[test]
fn what_after_sql_makes_is_of_the_load_too_whatever_needs_it() {
    let mut bench = Bench::start();
    bench.schema = Schema::named("My-App");
    bench.server.execute(&bench.database, "create schema \"My-App\"");
    guest::make(&mut bench.owner(), &bench.schema).unwrap();
    // A name that is a keyword in some places, in a schema that has to be quoted.
    let renamed = |text: String| text.replace("log_id_seq", "time_id_seq").replace("from log", "from time");
    let mut all: BTreeMap<String, String> =
        files().into_iter().map(|(name, text)| (name, renamed(text))).collect();
    all.insert("workload.toml".to_string(), MANIFEST.replace("name = \"log\"", "name = \"time\""));
    all.insert("schema.sql".to_string(), renamed(SCHEMA.replace("create table log", "create table time")));
    all.insert("transactions/note.sql".to_string(), "INSERT INTO time DEFAULT VALUES;\n".to_string());
    // Views are dropped before functions, but this function needs a view.
    let after = all["after.sql"].clone()
        + "create view newest as select max(id) as id from orders;\n\
           create function later(newest) returns bigint language sql as 'select 1::bigint';\n\
           create type mood as enum ('good', 'bad');\n\
           create view \"Moods\" as select 'good'::mood as mood;\n";
    all.insert("after.sql".to_string(), after);
    let instance = instance_of(all, 1);
    let data = bench.data(&instance, 1);
    assert_eq!(trial::problems(&mut bench.guest(), data, STATEMENT_MAX).unwrap(), Vec::<String>::new());
    let n_rows = bench.load(data, false).unwrap();
    let relations = data.own_relations(&mut bench.guest()).unwrap();
    let expected =
        ["My-App.Moods", "My-App.line", "My-App.newest", "My-App.orders", "My-App.time", "My-App.totals"];
    let mut found: Vec<&str> = relations.iter().map(String::as_str).collect();
    found.sort_unstable();
    assert_eq!(found, expected);
    // What others make is not the load's, and nothing is dropped from under it.
    assert_eq!(bench.load(data, false), Ok(n_rows));
    bench.server.execute(&bench.database, "create view public.mine as select id from \"My-App\".newest");
    let refused = bench.load(data, false).unwrap_err();
    assert!(refused.contains("drop what an earlier load of workload `shop` has made"), "{refused}");
    assert!(refused.contains("depend on it"), "{refused}");
    data.expect_whole(&mut bench.guest()).unwrap();
    bench.server.execute(&bench.database, "drop view public.mine");
    assert_eq!(bench.load(data, false), Ok(n_rows));
}

#[test]
fn data_that_outgrows_its_plan_ends_its_load() {
    let bench = Bench::start();
    let bounds = LoadBounds { bytes_max: 4 << 20, statement_max: STATEMENT_MAX };
    let endless = "create table filler (text text);\n\
                   insert into filler select repeat('x', 500) from generate_series(1, 3000) a, generate_series(1, 3000) b;\n";
    let instance = instance_of(with("after.sql", endless), 1);
    let data = bench.data(&instance, 1);
    let stopped = bounds.keep(&mut bench.owner(), || bench.load(data, false).map_err(anyhow::Error::msg));
    let why = format!("{:#}", stopped.unwrap_err());
    assert!(
        why.contains("stopped: the SQL of the directory made") && why.contains("more than 4.00 MiB"),
        "{why}"
    );
    // Nor may one session's temporary files fill the disk: the role's own setting, which it cannot change.
    let sorts = "select count(*) from (select g from generate_series(1, 3000000) g order by random()) as s";
    let spilled = bounds.keep(&mut bench.owner(), || Ok(bench.guest().query(sorts).map(drop)?));
    let why = format!("{:#}", spilled.unwrap_err());
    assert!(why.contains("temporary file size exceeds temp_file_limit"), "{why}");
    assert_eq!(bench.ask("select count(*) from pg_db_role_setting"), "0");
    let kept = bounds.keep(&mut bench.owner(), || Ok(7));
    assert_eq!(kept.unwrap(), 7);
}

#[test]
fn what_a_load_would_find_after_an_hour_is_found_before() {
    let bench = Bench::start();
    let check = |name: &str, text: &str, expected: &[&str]| {
        let found = bench.problems(with(name, text), STATEMENT_MAX);
        for part in expected {
            assert!(found.contains(part), "{name}: {text}\n{found}\nexpected: {part}");
        }
        assert_eq!(bench.ask("select count(*) from pg_class where relname = 'orders'"), "0");
    };
    check("schema.sql", &SCHEMA.replace("varchar(12)", "varchar(8)"), &["customer", "12", "8"]);
    // A column that is too short hides nothing that is wrong elsewhere.
    let mut several = with("schema.sql", &SCHEMA.replace("varchar(12)", "varchar(8)"));
    several.insert("transactions/note.sql".to_string(), "INSERT INTO lag DEFAULT VALUES;\n".to_string());
    several.insert("checks/lines.sql".to_string(), "select nothing from line".to_string());
    let found = bench.problems(several, STATEMENT_MAX);
    for part in ["customer", "transactions/note.sql:1:13: relation \"lag\"", "checks/lines.sql:1:8: "] {
        assert!(found.contains(part), "{found}\nexpected: {part}");
    }
    check(
        "schema.sql",
        &SCHEMA.replace("create table log", "create tabel log"),
        &["schema.sql:3:8: ", "create tabel log", "^"],
    );
    let renamed = SCHEMA.replace("table log", "table logs").replace("from log", "from logs");
    check("schema.sql", &renamed, &["makes no table `log`"]);
    check(
        "schema.sql",
        &format!("{SCHEMA}insert into orders values (1, 'a');"),
        &["puts rows into `orders`"],
    );
    // The rows themselves: only the server knows what a constraint means.
    let constrained = SCHEMA
        .replace("customer varchar(12) not null", "customer varchar(12) check (customer not like '%099')");
    check("schema.sql", &constrained, &["the server does not take rows of `orders`", "23514"]);
    check("after.sql", "create unique index on orders (customer);", &["after.sql:1:", "23505"]);
    check("after.sql", "alter table orders add primary key (nr);", &["after.sql:1:", "nr"]);
    check(
        "checks/lines.sql",
        "select 1\nfrom line where number < :rows_line and amuont > 1",
        &["checks/lines.sql:2:41: column \"amuont\" does not exist (42703)", "^"],
    );
    check("checks/lines.sql", "select 1 from lines", &["checks/lines.sql:1:15: ", "42P01"]);
    check(
        "transactions/note.sql",
        "\\set a 1\nINSERT INTO log DEFAULT VALUES;\n  SELECT :a::int,\n    idd FROM log;\n",
        &[
            "transactions/note.sql:4:5: column \"idd\" does not exist (42703)",
            "\n      idd FROM log;\n      ^",
        ],
    );
    check("after.sql", "create schema other;", &["after.sql"]);
    check("checks/lines.sql", "delete from line", &["checks/lines.sql"]);
}

#[test]
fn hostile_sql_is_refused_or_bounded() {
    let bench = Bench::start();
    bench.server.execute(
        &bench.database,
        "create schema other; create table other.own (a int); create table public.own (a int)",
    );
    bench.server.execute(
        &bench.database,
        "grant all on schema other to public; grant all on all tables in schema other to public",
    );
    let check = |sql: &str, expected: &str| {
        let found = bench.problems(with("schema.sql", &format!("{SCHEMA}{sql};\n")), STATEMENT_MAX);
        assert!(found.contains(expected), "{sql}\n{found}\nexpected: {expected}");
        let instance = instance_of(with("schema.sql", &format!("{SCHEMA}{sql};\n")), 1);
        let loaded = bench.load(bench.data(&instance, 1), false);
        assert!(loaded.is_err(), "{sql}: {loaded:?}");
        assert_eq!(
            bench.ask("select count(*) from pg_class where relname in ('orders', 'evil')"),
            "0",
            "{sql}"
        );
    };
    check("copy log to program 'touch /tmp/evil'", "42501");
    check("copy log from '/etc/passwd'", "42501");
    check("select pg_read_file('/etc/passwd')", "42501");
    check("alter system set shared_buffers = '1GB'", "schema.sql:");
    check("create event trigger evil on ddl_command_start execute function noted()", "schema.sql:");
    check("create role evil superuser", "42501");
    check("alter role postgres password 'evil'", "42501");
    check("set role postgres", "42501");
    check("set session authorization postgres", "42501");
    check("create schema evil", "42501");
    check("create extension file_fdw", "schema.sql:");
    check("drop table public.own", "42501");
    check("create table other.evil (a int)", "table other.evil");
    check("insert into other.own values (1)", "other.own");
    check("create temp table evil (a int)", "pg_temp");
    check("set search_path = other; create table evil (a int)", "table other.evil");
    check("commit", "is about transactions");
    check("do $$ begin commit; end $$", "schema.sql:");
    check("select lo_create(0)", "large object");
    check("select 1 as a\\; commit\\; begin", "schema.sql:");
    check("\\! touch /tmp/evil", "is a command of psql");
    assert_eq!(bench.ask("select count(*) from other.own"), "0");
    assert_eq!(bench.ask("select count(*) from pg_roles where rolname = 'evil'"), "0");

    let began = Instant::now();
    for endless in ["select pg_sleep(1000)", "set statement_timeout = 0; select pg_sleep(1000)"] {
        let found =
            bench.problems(with("schema.sql", &format!("{SCHEMA}{endless};\n")), Duration::from_secs(1));
        assert!(found.contains("schema.sql:6:"), "{found}");
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    // What is in the way stays.
    bench.server.execute(&bench.database, "create table orders (a int)");
    let instance = instance_of(files(), 1);
    let refused = bench.load(bench.data(&instance, 1), true).unwrap_err();
    assert!(refused.contains("has a table that no load of workload `shop` made (orders)"), "{refused}");
}
