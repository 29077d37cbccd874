//! What users changed about tables and routines that pgdyno loaded: named, and not reset by the next load.

use crate::belongings::Database;

/// What is named, what makes it, and what undoes that.
type Change = (&'static str, &'static str, &'static str);

/// Of pgbench's tables, `ROLE` being a role of the test.
const OF_TABLES: [Change; 13] = [
    (
        "the owner `ROLE` of `public.pgbench_tellers`",
        "alter table pgbench_tellers owner to ROLE",
        "alter table pgbench_tellers owner to postgres",
    ),
    (
        "UNLOGGED of `public.pgbench_history`",
        "alter table pgbench_history set unlogged",
        "alter table pgbench_history set logged",
    ),
    (
        "the replica identity of `public.pgbench_tellers`",
        "alter table pgbench_tellers replica identity full",
        "alter table pgbench_tellers replica identity default",
    ),
    (
        "CLUSTER ON `pgbench_tellers_pkey` of `public.pgbench_tellers`",
        "alter table pgbench_tellers cluster on pgbench_tellers_pkey",
        "alter table pgbench_tellers set without cluster",
    ),
    (
        "the options of column `abalance` of `public.pgbench_accounts`",
        "alter table pgbench_accounts alter abalance set (n_distinct = 5)",
        "alter table pgbench_accounts alter abalance reset (n_distinct)",
    ),
    (
        "the storage of column `filler` of `public.pgbench_accounts`",
        "alter table pgbench_accounts alter filler set storage plain",
        "alter table pgbench_accounts alter filler set storage extended",
    ),
    (
        "the collation of column `filler` of `public.pgbench_branches`",
        "alter table pgbench_branches alter filler type char(88) collate \"C\"",
        "alter table pgbench_branches alter filler type char(88) collate \"default\"",
    ),
    (
        "the compression of column `filler` of `public.pgbench_branches`",
        "alter table pgbench_branches alter filler set compression pglz",
        "alter table pgbench_branches alter filler set compression default",
    ),
    (
        "the statistics target of column `aid` of `public.pgbench_accounts`",
        "alter table pgbench_accounts alter aid set statistics 500",
        "alter table pgbench_accounts alter aid set statistics -1",
    ),
    (
        "the name of primary key `mine` of `public.pgbench_tellers`",
        "alter index pgbench_tellers_pkey rename to mine",
        "alter index mine rename to pgbench_tellers_pkey",
    ),
    (
        "the comment on index `pgbench_branches_pkey` of `public.pgbench_branches`",
        "comment on index pgbench_branches_pkey is 'mine'",
        "comment on index pgbench_branches_pkey is null",
    ),
    (
        "the comment on constraint `pgbench_branches_pkey` of `public.pgbench_branches`",
        "comment on constraint pgbench_branches_pkey on pgbench_branches is 'mine'",
        "comment on constraint pgbench_branches_pkey on pgbench_branches is null",
    ),
    (
        "storage parameter `autovacuum_enabled=false` of `public.pgbench_branches`",
        "alter table pgbench_branches set (autovacuum_enabled = false)",
        "alter table pgbench_branches reset (autovacuum_enabled)",
    ),
];

/// Of a partition.
const OF_PARTITIONS: [Change; 3] = [
    (
        "UNLOGGED of `public.pgbench_accounts_2`",
        "alter table pgbench_accounts_2 set unlogged",
        "alter table pgbench_accounts_2 set logged",
    ),
    (
        "index `of_one` of `public.pgbench_accounts_1`",
        "create index of_one on pgbench_accounts_1 (bid)",
        "drop index of_one",
    ),
    (
        "the owner `ROLE` of `public.pgbench_accounts_1`",
        "alter table pgbench_accounts_1 owner to ROLE",
        "alter table pgbench_accounts_1 owner to postgres",
    ),
];

/// Of routines.
const OF_ROUTINES: [Change; 8] = [
    (
        "the owner `ROLE` of function `public.tpcc_delivery",
        "alter function tpcc_delivery owner to ROLE",
        "alter function tpcc_delivery owner to postgres",
    ),
    (
        "the revoked EXECUTE of everybody of procedure `public.tpcc_payment_p",
        "revoke all on procedure tpcc_payment_p from public",
        "grant execute on procedure tpcc_payment_p to public",
    ),
    (
        "privileges of ROLE of function `public.tpcc_delivery",
        "grant execute on function tpcc_delivery to ROLE",
        "revoke execute on function tpcc_delivery from ROLE",
    ),
    (
        "SECURITY DEFINER of function `public.tpcc_payment",
        "alter function tpcc_payment security definer",
        "alter function tpcc_payment security invoker",
    ),
    (
        "SET work_mem of procedure `public.tpcc_new_order_p",
        "alter procedure tpcc_new_order_p set work_mem = '7MB'",
        "alter procedure tpcc_new_order_p reset work_mem",
    ),
    (
        "COST of function `public.tpcc_stock_level",
        "alter function tpcc_stock_level cost 7",
        "alter function tpcc_stock_level cost 100",
    ),
    (
        "the volatility of function `public.tpcc_stock_level",
        "alter function tpcc_stock_level stable",
        "alter function tpcc_stock_level volatile",
    ),
    (
        "PARALLEL of function `public.tpcc_stock_level",
        "alter function tpcc_stock_level parallel safe",
        "alter function tpcc_stock_level parallel unsafe",
    ),
];

/// A role of the database, which ends with the test.
fn role_of(database: &Database) -> String {
    let role = format!("role_{}", database.name);
    database.execute(&format!("create role {role}; grant all on schema public to {role}"));
    role
}

/// Fails the test unless `init` names each change, keeps it, and names nothing once it is undone.
#[track_caller]
fn expect_named(database: &Database, args: &str, role: &str, changes: &[Change]) {
    for (what, make, undo) in changes {
        let [what, make, undo] = [what, make, undo].map(|text| text.replace("ROLE", role));
        database.execute(&make);
        database.expect_refusal("public", args, &[&what, "--replace"]);
        database.execute(&undo);
    }
    // All at once, one problem or not; with consent they go.
    let all = |at: usize| changes.iter().map(move |change| [change.0, change.1, change.2][at]);
    database.execute(&all(1).collect::<Vec<_>>().join("; ").replace("ROLE", role));
    let refused = database.init("public", args).expect(1).stderr;
    let n_named = all(0).filter(|what| refused.contains(&what.replace("ROLE", role))).count();
    assert!(n_named + 1 >= changes.len(), "a renamed index changes the words of another: {refused}");
    database.init("public", &format!("{args} --replace")).expect(0);
    database.init("public", args).expect(0);
}

#[test]
fn what_users_changed_about_tables_is_named_and_kept() {
    let database = Database::new();
    let role = role_of(&database);
    database.init("public", "").expect(0);
    expect_named(&database, "", &role, &OF_TABLES);
    database.init("public", "--partitions 2 --replace").expect(0);
    database.init("public", "--partitions 2").expect(0);
    expect_named(&database, "--partitions 2", &role, &OF_PARTITIONS);
    // A name that is taken makes the server choose another one for the key.
    database.execute("drop table pgbench_tellers; create sequence pgbench_tellers_pkey");
    database.init("public", "").expect(0);
    assert_eq!(database.ask("select to_regclass('pgbench_tellers_pkey1') is not null"), "t");
    database.init("public", "").expect(0);
    database.execute(&format!("drop owned by {role}; drop role {role}"));
    database.place.expect_clean();
}

#[test]
fn what_users_changed_about_routines_is_named_and_kept() {
    let database = Database::new();
    let role = role_of(&database);
    // Privileges that every new routine gets, or does not get, are no reason to refuse.
    let defaults = "alter default privileges in schema public grant execute on functions to";
    database.execute(&format!("{defaults} {role}"));
    database.init("public", "-w tpcc").expect(0);
    database.init("public", "-w tpcc").expect(0);
    database.execute(&format!(
        "alter default privileges in schema public revoke execute on functions from {role}"
    ));
    database.init("public", "-w tpcc --replace").expect(0);
    database.execute("alter default privileges revoke execute on functions from public");
    database.init("public", "-w tpcc").expect(0);
    database.init("public", "-w tpcc").expect(0);
    database.execute("alter default privileges grant execute on functions to public");
    database.init("public", "-w tpcc --replace").expect(0);
    expect_named(&database, "-w tpcc", &role, &OF_ROUTINES);
    database.execute(&format!("drop owned by {role}; drop role {role}"));
    database.place.expect_clean();
}

#[test]
fn all_that_keeps_a_load_from_replacing_tables_is_said_at_once() {
    let database = Database::new();
    database.init("public", "-w tpcc").expect(0);
    database.execute(
        "alter table stock rename to my_stock; create view stock as select 1 as one; \
         drop table item; create materialized view item as select 1 as one; \
         alter table district add mine text",
    );
    let expected = [
        "`public.stock` is a view",
        "`public.item` is a materialized view",
        "column `mine` of `public.district`",
    ];
    database.expect_refusal("public", "-w tpcc", &expected);
    // Consent to drop is none to drop views.
    database.expect_refusal("public", "-w tpcc --replace", &expected[..2]);
    database.place.expect_clean();
}

#[test]
fn clean_advises_to_drop_no_tables_with_something_of_others() {
    let database = Database::new();
    database.init("public", "").expect(0);
    database.execute("create schema other");
    database.init("other", "").expect(0);
    let server = database.server("public");
    let clean = || database.place.run(&["clean", "--server", &server]).expect(0).stderr;
    let (hint, look) = ("this removes them: DROP TABLE ", "look first at what others made or changed there");
    let said = clean();
    assert!(said.contains(hint) && !said.contains(look), "{said}");
    database.execute(
        "alter table pgbench_accounts add mine text; create view seen as select tid from pgbench_tellers; \
         create table pgbench_like (like pgbench_history); \
         do $$ begin execute format('comment on table pgbench_like is %L', obj_description('pgbench_history'::regclass)); end $$",
    );
    let said = clean();
    let line = said.lines().find(|line| line.contains(look)).unwrap_or_else(|| panic!("{said}"));
    for what in
        ["column `mine` of `public.pgbench_accounts`", "view public.seen", "table `public.pgbench_like`"]
    {
        assert!(line.contains(what), "{what}: {said}");
    }
    let advice = said.lines().find(|line| line.contains(hint)).unwrap_or_else(|| panic!("{said}"));
    assert!(!advice.contains("public.") && advice.contains("other.pgbench_accounts"), "{said}");

    database.execute("drop view seen; drop table pgbench_like; alter table pgbench_accounts drop mine");
    database.execute("insert into pgbench_tellers values (-7, 1, 7, 'mine')");
    let said = clean();
    assert!(said.contains(look) && said.contains("rows of `public.pgbench_tellers`"), "{said}");
    database.place.expect_clean();
}
