//! What loading may drop: tables, partitions and routines that carry pgdyno's own mark, in one schema, and nothing
//! else.

use testbed::Pg;
use wire::Session;

use crate::tool::{Ended, Place, wait_until};

/// A database of a server that other tests share, and pgdyno's view of it.
pub(crate) struct Database {
    pub(crate) place: Place,
    pub(crate) pg: std::sync::Arc<Pg>,
    pub(crate) name: String,
}

impl Database {
    pub(crate) fn new() -> Database {
        let pg = Pg::shared();
        let name = pg.database();
        Database { place: Place::new(), pg, name }
    }

    pub(crate) fn server(&self, search_path: &str) -> String {
        format!("{} options='-c search_path={search_path}'", self.pg.admin_target(&self.name))
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.session().execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    fn session(&self) -> Session {
        self.pg.admin(&self.name)
    }

    pub(crate) fn ask(&self, sql: &str) -> String {
        self.pg.ask(&self.name, sql)
    }

    /// `pgdyno init` of scale 1, with the schemas `search_path`.
    pub(crate) fn init(&self, search_path: &str, args: &str) -> Ended {
        let server = self.server(search_path);
        let all = ["init", "-s", "1", "--server", &server];
        self.place.run(&all.into_iter().chain(args.split_whitespace()).collect::<Vec<_>>())
    }

    /// Waits until `init` waits for a lock of `locker`, executes `sql`, and releases the lock.
    #[track_caller]
    fn change_behind_the_lock(&self, locker: &mut Session, sql: &str) {
        let waiting = "select count(*) from pg_locks where not granted and database = (select oid from pg_database \
                       where datname = current_database())";
        wait_until("a wait for the lock", || self.ask(waiting) == "1");
        self.execute(sql);
        locker.execute("commit").unwrap();
    }

    /// Fails the test unless `init` refuses and says each of `expected`.
    #[track_caller]
    pub(crate) fn expect_refusal(&self, search_path: &str, args: &str, expected: &[&str]) {
        let refused = self.init(search_path, args).expect(1);
        for part in expected {
            assert!(refused.stderr.contains(part), "{part}\n{}", refused.stderr);
        }
    }
}

#[test]
fn routines_of_users_with_other_arguments_or_in_other_schemas_survive() {
    let database = Database::new();
    database.execute(
        "create schema app; \
         create function app.payment(int, numeric) returns int language sql as 'select 1'; \
         create function app.tpcc_report() returns int language sql as 'select 2'; \
         create function public.delivery(text) returns int language sql as 'select 3'; \
         create function public.tpcc_stock_level(int, int, int) returns int language sql as 'select 4'; \
         create function public.slev(int, int, int) returns int language sql as 'select 5'; \
         create procedure public.delivery(int, int, timestamp) language sql as 'select 6'",
    );
    let theirs = "select string_agg(p.oid::text, ' ' order by p.oid) from pg_proc p \
                  where prolang = (select oid from pg_language where lanname = 'sql') and pronamespace in \
                  ('app'::regnamespace, 'public'::regnamespace)";
    let before = database.ask(theirs);
    for workload in ["tproc-c", "tpcc"] {
        // Twice: the second load drops the tables of the first.
        database.init("app,public", &format!("-w {workload} --replace")).expect(0);
        assert_eq!(database.ask(theirs), before, "{workload}");
    }
    database.init("app,public", "-w tpcc").expect(0);
    let ours = "select count(*) from pg_proc where pronamespace = 'app'::regnamespace and proname ~ '^tpcc_' \
                and prolang <> (select oid from pg_language where lanname = 'sql')";
    assert_eq!(database.ask(ours), "10");
    let left = "select count(*) from pg_proc where pronamespace = 'app'::regnamespace and proname = 'neword'";
    assert_eq!(database.ask(left), "0", "routines of the data that was replaced went with it");
    database.place.expect_clean();
}

#[test]
fn a_users_routine_of_the_same_signature_is_named_and_kept() {
    let database = Database::new();
    database.execute(
        "create function public.slev(int, int, int) returns int language sql as 'select 5'; \
         create function public.tpcc_stock_level(int, int, int) returns int language sql as 'select 4'",
    );
    for (workload, name) in [("tproc-c", "slev"), ("tpcc", "tpcc_stock_level")] {
        let expected = format!("public.{name}(integer, integer, integer)");
        database.expect_refusal("public", &format!("-w {workload}"), &[&expected, "--replace"]);
        assert_eq!(database.ask(&format!("select public.{name}(1, 1, 1) between 4 and 5")), "t");
        assert_eq!(database.ask("select count(*) from pg_tables where schemaname = 'public'"), "0");
    }
}

#[test]
fn a_mark_on_one_table_says_nothing_about_a_table_of_another_schema() {
    let database = Database::new();
    database.execute("create schema app");
    database.init("app", "-w tpcc").expect(0);
    database.execute(
        "create schema own; create table own.customer (name text); create table own.orders (id int); \
         insert into own.customer values ('Ada')",
    );
    database.expect_refusal("own,app", "-w tpcc", &["customer", "orders", "--replace"]);
    assert_eq!(database.ask("select name from own.customer"), "Ada");
    // Nor for one of its own schema.
    database.execute("alter table own.customer set schema public");
    database.execute("drop table app.customer; alter table public.customer set schema app");
    database.expect_refusal("app", "-w tpcc", &["`app.customer`", "--replace"]);
    assert_eq!(database.ask("select name from app.customer"), "Ada");
    assert_ne!(database.ask("select count(*) from app.stock"), "0", "nothing else is touched either");
    // With consent it goes, in its schema only.
    database.init("app,own", "-w tpcc --replace").expect(0);
    assert_eq!(database.ask("select count(*) from app.customer"), "30000");
    assert_eq!(database.ask("select count(*) from own.orders"), "0");
    database.place.expect_clean();
}

#[test]
fn acid_tests_restore_only_rows_that_they_set_aside() {
    let database = Database::new();
    database.init("public", "-w tpcc").expect(0);
    database.execute("create table pgdyno_acid_item (i_id int, i_price numeric); insert into pgdyno_acid_item values (1, 7)");
    let server = database.server("public");
    let check = ["check", "--acid", "-w", "tpcc", "--acid-load", "1s", "--server", &server];
    let refused = database.place.run(&check).expect(1);
    assert!(refused.stderr.contains("`public.pgdyno_acid_item`"), "{}", refused.stderr);
    assert_eq!(database.ask("select i_price from pgdyno_acid_item"), "7");
    database.execute("drop table pgdyno_acid_item");
    database.place.run(&check).expect(0);
    // The tests write to every table, so all must be pgdyno's.
    database.execute("comment on table new_order is null");
    let refused = database.place.run(&check).expect(1);
    assert!(refused.stderr.contains("`public.new_order`"), "{}", refused.stderr);
}

#[test]
fn a_copy_of_a_mark_on_another_object_and_that_of_a_changed_routine_prove_nothing() {
    let database = Database::new();
    database.init("public", "").expect(0);
    // As after somebody restored a dump, or moved tables about.
    for table in ["pgbench_branches", "pgbench_tellers"] {
        database.execute(&format!(
            "alter table {table} rename to former; create table {table} (note text); insert into {table} values ('mine'); \
             do $$ begin execute format('comment on table {table} is %L', obj_description('former'::regclass)); end $$"
        ));
        database.expect_refusal("public", "", &[&format!("`public.{table}`"), "--replace"]);
        assert_eq!(database.ask(&format!("select note from {table}")), "mine");
        database.execute(&format!("drop table {table}; alter table former rename to {table}"));
    }
    database.init("public", "").expect(0);

    // As with a server in FIPS mode, which has no MD5.
    database.execute("alter function pg_catalog.md5(text) rename to md5_without_fips");
    database.init("public", "-w tproc-c").expect(0);
    let one = "(select oid from pg_proc where proname = 'slev' order by oid limit 1)";
    database.execute(&format!(
        "do $$ begin execute replace(pg_get_functiondef({one}), 'count(distinct', '/* tuned */ count(distinct'); end $$"
    ));
    database.expect_refusal("public", "-w tproc-c", &["`public.slev(", "somebody changed", "--replace"]);
    assert_eq!(database.ask(&format!("select prosrc like '%tuned%' from pg_proc where oid = {one}")), "t");
    database.init("public", "-w tproc-c --replace").expect(0);
    database.init("public", "-w tproc-c").expect(0);
}

#[test]
fn objects_that_depend_on_the_tables_are_named_and_kept() {
    let database = Database::new();
    database.init("public", "").expect(0);
    database.execute(
        "create view totals as select sum(bbalance) from pgbench_branches; \
         create table notes (bid int references pgbench_branches, note text)",
    );
    // `--replace` does not permit dropping these.
    for args in ["", "--replace"] {
        database.expect_refusal("public", args, &["view public.totals", "notes"]);
    }
    assert_eq!(database.ask("select count(*) from totals, pgbench_accounts"), "100000");
}

#[test]
fn objects_that_would_be_dropped_silently_with_the_tables_are_named_and_kept() {
    let database = Database::new();
    database.init("public", "").expect(0);
    database
        .execute("create sequence invoices owned by pgbench_history.tid; select setval('invoices', 4711)");
    for args in ["", "--replace"] {
        database.expect_refusal("public", args, &["sequence `public.invoices`", "owned by"]);
    }
    assert_eq!(database.ask("select last_value from invoices"), "4711");
    database.execute(
        "alter sequence invoices owned by none; \
         create table ledger (like pgbench_history) partition by list (bid); \
         alter table ledger attach partition pgbench_history default; \
         insert into ledger (bid, filler) values (7, 'mine')",
    );
    for args in ["", "--replace"] {
        database.expect_refusal("public", args, &["`public.ledger`", "`public.pgbench_history`"]);
    }
    assert_eq!(database.ask("select bid from ledger"), "7");
    database.execute("alter table ledger detach partition pgbench_history");
    // A sequence for a column's default is dropped with the column, as for any table: with consent.
    database.execute("alter table pgbench_history add id serial");
    database.expect_refusal("public", "", &["column `id` of `public.pgbench_history`", "--replace"]);
    database.init("public", "--replace").expect(0);
    database.place.expect_clean();
}

#[test]
fn additions_of_others_to_the_tables_are_named_and_kept() {
    let database = Database::new();
    database.init("public", "").expect(0);
    // Privileges that every new table gets are no reason to refuse.
    let role = format!("reader_{}", database.name);
    database.execute(&format!(
        "create role {role}; alter default privileges in schema public grant select on tables to {role}"
    ));
    database.init("public", "").expect(0);
    database.init("public", "").expect(0);
    let hung = [
        (
            "trigger `audit` of `public.pgbench_tellers`",
            "create function noted() returns trigger language plpgsql as 'begin return new; end'; \
             create trigger audit before insert on pgbench_tellers for each row execute procedure noted()",
            "drop trigger audit on pgbench_tellers",
        ),
        (
            "rule `quiet` of `public.pgbench_branches`",
            "create rule quiet as on delete to pgbench_branches do instead nothing",
            "drop rule quiet on pgbench_branches",
        ),
        (
            "policy `own` of `public.pgbench_accounts`",
            "create policy own on pgbench_accounts using (bid = 1)",
            "drop policy own on pgbench_accounts",
        ),
        (
            "row-level security of `public.pgbench_accounts`",
            "alter table pgbench_accounts enable row level security",
            "alter table pgbench_accounts disable row level security",
        ),
        (
            "publication `sent` of `public.pgbench_history`",
            "create publication sent for table pgbench_history",
            "drop publication sent",
        ),
        (
            "statistics `related` of `public.pgbench_accounts`",
            "create statistics related on bid, abalance from pgbench_accounts",
            "drop statistics related",
        ),
        (
            "privileges of everybody of `public.pgbench_branches`",
            "grant select on pgbench_branches to public",
            "revoke select on pgbench_branches from public",
        ),
        (
            "privileges on column `tid` of `public.pgbench_tellers`",
            &format!("grant update (tid) on pgbench_tellers to {role}"),
            &format!("revoke update (tid) on pgbench_tellers from {role}"),
        ),
        (
            "the comment on a column of `public.pgbench_accounts`",
            "comment on column pgbench_accounts.aid is 'mine'",
            "comment on column pgbench_accounts.aid is null",
        ),
    ];
    database.execute("insert into pgbench_history (tid, filler) values (4711, 'there')");
    for (what, make, undo) in hung {
        database.execute(make);
        database.expect_refusal("public", "", &[what, "--replace"]);
        assert_eq!(database.ask("select trim(filler) from pgbench_history"), "there", "{what}");
        database.execute(undo);
    }
    // With consent they are dropped.
    database.execute("create statistics related on bid, abalance from pgbench_accounts");
    database.init("public", "--replace").expect(0);
    assert_eq!(database.ask("select count(*) from pg_statistic_ext"), "0");
    database.execute(&format!("drop owned by {role}; drop role {role}"));
    database.place.expect_clean();
}

/// What is named, what makes it, and what undoes that.
const ADDED: [(&str, &str, &str); 10] = [
    (
        "column `note` of `public.pgbench_history`",
        "alter table pgbench_history add note text; \
         insert into pgbench_history (tid, note) values (1, 'mine')",
        "alter table pgbench_history drop note",
    ),
    (
        "the type of column `filler` of `public.pgbench_branches`",
        "alter table pgbench_branches alter filler type text",
        "alter table pgbench_branches alter filler type char(88)",
    ),
    (
        "the default of column `abalance` of `public.pgbench_accounts`",
        "alter table pgbench_accounts alter abalance set default 42",
        "alter table pgbench_accounts alter abalance drop default",
    ),
    (
        "NOT NULL of column `bid` of `public.pgbench_tellers`",
        "alter table pgbench_tellers alter bid set not null",
        "alter table pgbench_tellers alter bid drop not null",
    ),
    (
        "index `by_branch` of `public.pgbench_accounts`",
        "create index by_branch on pgbench_accounts (bid)",
        "drop index by_branch",
    ),
    (
        "index `twin` of `public.pgbench_tellers`",
        "create unique index twin on pgbench_tellers (tid)",
        "drop index twin",
    ),
    (
        "index `one_each` of `public.pgbench_tellers`",
        "alter table pgbench_tellers add constraint one_each unique (tid, bid)",
        "alter table pgbench_tellers drop constraint one_each",
    ),
    (
        "constraint `positive` of `public.pgbench_tellers`",
        "alter table pgbench_tellers add constraint positive check (tid > 0)",
        "alter table pgbench_tellers drop constraint positive",
    ),
    (
        "constraint `within` of `public.pgbench_tellers`",
        "alter table pgbench_tellers add constraint within foreign key (bid) references pgbench_branches",
        "alter table pgbench_tellers drop constraint within",
    ),
    (
        "storage parameter `autovacuum_enabled=false` of `public.pgbench_tellers`",
        "alter table pgbench_tellers set (autovacuum_enabled = false)",
        "alter table pgbench_tellers reset (autovacuum_enabled)",
    ),
];

#[test]
fn definitions_of_others_in_the_tables_are_named_and_kept() {
    let database = Database::new();
    for args in ["--partitions 2", ""] {
        database.init("public", args).expect(0);
        for (what, make, undo) in ADDED {
            database.execute(make);
            database.expect_refusal("public", args, &[what, "--replace"]);
            database.execute(undo);
        }
        database.init("public", args).expect(0);
    }
    // With consent they are dropped.
    database.execute("create index by_branch on pgbench_accounts (bid)");
    database.init("public", "--replace").expect(0);
    assert_eq!(database.ask("select to_regclass('by_branch') is null"), "t");
    for (workload, what) in
        [("tpcc", "index `mine` of `public.orders`"), ("tproc-c", "index `mine` of `public.orders`")]
    {
        database.init("public", &format!("-w {workload} --replace")).expect(0);
        database.init("public", &format!("-w {workload}")).expect(0);
        database.execute("create unique index mine on orders (o_w_id, o_d_id, o_c_id, o_id)");
        database.expect_refusal("public", &format!("-w {workload}"), &[what, "--replace"]);
        database.execute("drop index mine");
    }
    database.place.expect_clean();
}

#[test]
fn rows_that_neither_a_load_nor_a_workload_makes_are_named_and_kept() {
    let database = Database::new();
    database.init("public", "").expect(0);
    for (table, row) in [
        ("pgbench_accounts", "100001, 1, 7, 'mine'"),
        ("pgbench_tellers", "-1, 1, 7, 'mine'"),
        ("pgbench_branches", "2, 7, 'mine'"),
    ] {
        database.execute(&format!("insert into {table} values ({row})"));
        database.expect_refusal("public", "", &["rows", &format!("`public.{table}`"), "--replace"]);
        database.execute(&format!("delete from {table} where filler = 'mine'"));
    }
    database.execute("insert into pgbench_history values (1, 1, 1, 1, now(), 'like those of a run')");
    database.init("public", "").expect(0);
    database.init("public", "-w tpcc --replace").expect(0);
    database.execute("insert into item values (100001, 1, 'mine', 1, 'mine')");
    database.expect_refusal("public", "-w tpcc", &["rows", "`public.item`", "--replace"]);
    database.init("public", "-w tpcc --replace").expect(0);
}

#[test]
fn a_load_adds_no_key_to_a_table_that_somebody_creates_meanwhile() {
    let database = Database::new();
    let server = database.server("public");
    let args = ["init", "-s", "10", "--streams", "1", "--server", &server];
    let running = database.place.start(database.place.command(&args));
    let copying = "select count(*) from pg_stat_activity where datname = current_database() and state = 'active' \
                   and query ~ '^copy .*pgbench_accounts'";
    wait_until("the rows of accounts", || database.ask(copying) == "1");
    // Runs after the rows, whose lock it waits for, and before the key.
    database.execute(
        "begin; lock table pgbench_accounts in share update exclusive mode; \
         alter table pgbench_accounts rename to former; \
         create table pgbench_accounts (aid int, note text); insert into pgbench_accounts values (1, 'mine'); commit",
    );
    let ended = running.wait().expect(1);
    assert!(ended.stderr.contains("public.pgbench_accounts"), "{}", ended.stderr);
    let keys = "select count(*) from pg_index where indrelid = 'pgbench_accounts'::regclass";
    assert_eq!(database.ask(keys), "0", "{}", ended.stderr);
    assert_eq!(database.ask("select note from pgbench_accounts"), "mine");
}

#[test]
fn a_load_neither_marks_nor_empties_a_table_that_somebody_creates_meanwhile() {
    let database = Database::new();
    let server = database.server("public");
    let args = ["init", "-s", "20", "--streams", "1", "--server", &server];
    let running = database.place.start(database.place.command(&args));
    wait_until("the tables", || database.ask("select to_regclass('pgbench_history') is not null") == "t");
    // One stream takes the accounts first, and the history last.
    let mut locker = database.session();
    locker.execute("begin; lock table pgbench_history in share update exclusive mode").unwrap();
    database.execute("create table heir (note text) inherits (pgbench_tellers); insert into heir values (1, 1, 1, '', 'mine')");
    database.change_behind_the_lock(
        &mut locker,
        "begin; alter table pgbench_branches rename to former; create table pgbench_branches (note text); \
         insert into pgbench_branches values ('mine'); commit",
    );
    let ended = running.wait().expect(1);
    assert!(
        ended.stderr.contains("somebody replaced, renamed or dropped `public.pgbench_branches`"),
        "{}",
        ended.stderr
    );
    assert_eq!(database.ask("select obj_description('pgbench_branches'::regclass) is null"), "t");
    assert_eq!(database.ask("select note from heir"), "mine");
    // The next load therefore leaves it alone.
    database.expect_refusal("public", "", &["`public.pgbench_branches`", "--replace"]);
    assert_eq!(database.ask("select note from pgbench_branches"), "mine");
}

#[test]
fn a_load_empties_no_table_to_which_its_mark_was_copied() {
    let database = Database::new();
    let server = database.server("public");
    let args = ["init", "-s", "2", "--streams", "1", "--server", &server];
    let running = database.place.start(database.place.command(&args));
    wait_until("the tables", || database.ask("select to_regclass('pgbench_history') is not null") == "t");
    // One stream takes the accounts first, then the tellers, then the branches.
    let mut locker = database.session();
    locker.execute("begin; lock table pgbench_tellers in share update exclusive mode").unwrap();
    database.change_behind_the_lock(
        &mut locker,
        "begin; alter table pgbench_branches rename to former; create table pgbench_branches (like former); \
         insert into pgbench_branches values (7, 1, 'mine'); \
         do $$ begin execute format('comment on table pgbench_branches is %L', obj_description('former'::regclass)); end $$; \
         commit",
    );
    let ended = running.wait().expect(1);
    assert!(ended.stderr.contains("somebody replaced table `public.pgbench_branches`"), "{}", ended.stderr);
    assert_eq!(database.ask("select trim(filler) from pgbench_branches"), "mine");
}

#[test]
fn a_users_partition_or_table_of_the_same_name_is_named_and_kept() {
    let database = Database::new();
    database.init("public", "--partitions 2").expect(0);
    database.execute(
        "alter table pgbench_accounts detach partition pgbench_accounts_2; drop table pgbench_accounts_2; create table mine (like pgbench_accounts); \
         insert into mine values (60000, 1, 42, ''); \
         alter table pgbench_accounts attach partition mine for values from (50001) to (maxvalue)",
    );
    database.expect_refusal("public", "--partitions 2", &["`public.mine`"]);
    database.expect_refusal("public", "--partitions 2 --replace", &["`public.mine`"]);
    assert_eq!(database.ask("select abalance from mine"), "42");
    database.execute("alter table pgbench_accounts detach partition mine");
    database.init("public", "--partitions 2").expect(0);

    database.execute("drop table pgbench_history; create table pgbench_history (note text)");
    database.expect_refusal("public", "", &["`public.pgbench_history`", "--replace"]);
    database.execute("drop table pgbench_history; create view pgbench_history as select 1");
    database.expect_refusal("public", "--replace", &["`public.pgbench_history` is a view"]);
    assert_eq!(database.ask("select count(*) from mine"), "1");
}

#[test]
fn a_table_that_is_swapped_during_the_wait_for_its_lock_is_kept() {
    let database = Database::new();
    database.init("public", "").expect(0);
    let mut locker = database.session();
    locker.execute("begin; select count(*) from pgbench_branches").unwrap();
    let server = database.server("public");
    let running = database.place.start(database.place.command(&["init", "-s", "1", "--server", &server]));
    database.change_behind_the_lock(
        &mut locker,
        "begin; alter table pgbench_history rename to kept_history; create table pgbench_history (note text); \
         insert into pgbench_history values ('mine'); commit",
    );
    let refused = running.wait().expect(1);
    assert!(refused.stderr.contains("`public.pgbench_history`"), "{}", refused.stderr);
    assert_eq!(database.ask("select note from pgbench_history"), "mine");
    assert_eq!(database.ask("select count(*) from pgbench_accounts"), "100000");
}
