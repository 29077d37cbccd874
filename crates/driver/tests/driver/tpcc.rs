//! TPC-C on a real server: one warehouse is loaded once, and each test works on a copy of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dataset::streams::Streams;
use model::load::interval::Interval;
use model::load::{LoadSpec, OnError, Profiles, Protocol, ScriptSpec, Window};
use model::workload::Dataset;
use testbed::SharedServer;
use wire::{Conninfo, Session};
use workload::Schema;
use workload::tpcc::{
    self, Calls, Constants, Population, PopulationStyle, TABLES, Think, TpccConfig, TpccTable,
};

use crate::cluster::Cluster;
use crate::driven::{Driven, drive};

/// A server with a database `loaded` of one warehouse.
pub(crate) struct Supplier {
    pub(crate) cluster: Cluster,
    population: Population,
}

impl Supplier {
    /// The server that the tests share; it ends with the last test that uses it.
    pub(crate) fn shared() -> Arc<Supplier> {
        static SHARED: SharedServer<Supplier> = SharedServer::new();
        SHARED.get(Supplier::start)
    }

    fn start() -> Supplier {
        let cluster = Cluster::start();
        let population = Population {
            warehouses: 1,
            seed: 1,
            style: PopulationStyle::Spec,
            at: "2026-11-21 12:00:00+00".to_string(),
        };
        cluster.session().execute("create database loaded").unwrap();
        let supplier = Supplier { cluster, population };
        let mut session = supplier.session("loaded");
        let version_num = session.server_version_num();
        let schema = Schema::searched();
        let routines = tpcc::create_routines(&schema, version_num).into_iter().map(|(_, sql)| sql);
        for sql in tpcc::create_tables(&schema).into_iter().chain(routines) {
            session.execute(&sql).unwrap();
        }
        let mut other = supplier.session("loaded");
        let streams = Streams { sessions: vec![&mut session, &mut other], stop: &AtomicBool::new(false) };
        streams
            .run(
                dataset::loading::by_table::fill(
                    &schema,
                    Dataset::Tpcc,
                    tpcc::fill(&schema, &supplier.population),
                ),
                &mut |_| {},
            )
            .unwrap();
        supplier
    }

    pub(crate) fn conninfo(&self, database: &str) -> Conninfo {
        Conninfo { dbname: database.to_string(), ..self.cluster.conninfo() }
    }

    pub(crate) fn session(&self, database: &str) -> Session {
        Session::connect(&self.conninfo(database)).unwrap()
    }

    /// A copy of the loaded database, to which nobody connects any more.
    fn copy(&self, name: &str) {
        self.cluster.session().execute(&format!("create database {name} template loaded")).unwrap();
    }

    /// Each client makes `n` transactions.
    fn load(&self, database: &str, calls: Calls, n_clients: u32, n: u64) -> LoadSpec {
        let constants = Constants::for_run(7, self.population.constants().c_last);
        let config = TpccConfig { warehouses: 1, calls, think: Think::None, constants };
        let script = |(program, weight): (workload::Program, u32)| ScriptSpec {
            tag: program.name.clone(),
            name: program.name,
            weight,
            source: String::new(),
        };
        LoadSpec {
            target: self.conninfo(database).keywords(),
            scripts: tpcc::programs(&config, &Schema::searched()).into_iter().map(script).collect(),
            profiles: Some(Profiles::Tpcc),
            defines: config.defines(),
            protocol: Protocol::Prepared,
            n_clients,
            window: Window { ramp_up_s: 0, measure_s: 0, grace_s: 5 },
            seed: 42,
            transactions_per_client: Some(n),
            on_error: OnError::EndLoad,
            max_tries: 0,
            ..LoadSpec::default()
        }
    }

    /// What the conditions of clause 3.3.2 and our own find.
    #[track_caller]
    fn expect_consistent(&self, database: &str) {
        let mut session = self.session(database);
        for check in tpcc::CHECKS.always {
            let rows = session
                .query(&check.query(&Schema::searched(), 1))
                .unwrap_or_else(|error| panic!("{}: {error}", check.id));
            assert!(rows.is_empty(), "{database}, {}: {:?} {:?}", check.id, rows.columns, rows.rows[0]);
        }
    }

    /// Every table without its timestamps: the number of rows, and a sum over them that does not depend on their order.
    pub(crate) fn fingerprint(&self, database: &str) -> BTreeMap<&'static str, String> {
        let mut session = self.session(database);
        let times = "t.h_date, t.o_entry_d, t.ol_delivery_d";
        let mut of = |table: TpccTable| {
            let time = times.split(", ").find_map(|time| {
                let column = time.trim_start_matches("t.");
                let sql = format!(
                    "select 1 from information_schema.columns where table_name = '{}' and column_name = '{column}'",
                    table.name()
                );
                (!session.query(&sql).unwrap().is_empty()).then_some(column)
            });
            let row = match time {
                Some(time) => format!("(to_jsonb(t) - '{time}')::text"),
                None => "t::text".to_string(),
            };
            let sql = format!(
                "select concat_ws(' ', count(*), sum(('x' || left(md5({row}), 8))::bit(32)::bigint)) from {} t",
                table.name()
            );
            (table.name(), session.query(&sql).unwrap().scalar().unwrap().to_string())
        };
        TABLES.into_iter().map(&mut of).collect()
    }
}

/// A fact of a profile over all intervals.
fn fact(driven: &Driven, script: usize, name: &str) -> u64 {
    of_script(driven, script).filter_map(|interval| interval.facts.get(name)).sum()
}

pub(crate) fn committed(driven: &Driven, script: usize) -> u64 {
    of_script(driven, script).map(|interval| interval.counts.committed).sum()
}

fn of_script(driven: &Driven, script: usize) -> impl Iterator<Item = &Interval> {
    driven.intervals.iter().filter(move |interval| interval.script == script as u32)
}

#[test]
fn statements_functions_and_procedures_leave_the_same_database() {
    const N: u64 = 690;
    let supplier = Supplier::shared();
    supplier.copy("untouched");
    supplier.expect_consistent("untouched");
    let fresh = supplier.fingerprint("untouched");
    let mut left: Vec<BTreeMap<&str, String>> = Vec::new();
    let ways = Calls::ALL
        .map(|calls| (calls.as_str().to_string(), calls, Protocol::Prepared))
        .into_iter()
        .chain([("simple".to_string(), Calls::Statements, Protocol::Simple)]);
    for (database, calls, protocol) in ways {
        supplier.copy(&database);
        let driven = drive(LoadSpec { protocol, ..supplier.load(&database, calls, 1, N) });
        assert_eq!((driven.done.counts.committed, driven.done.counts.failed), (N, 0), "{database}");
        // Thirty decks of 23 cards.
        let by_profile: Vec<u64> = (0..5).map(|script| committed(&driven, script)).collect();
        assert_eq!(by_profile, [300, 300, 30, 30, 30], "{database}");
        let n_undone = fact(&driven, 0, "rolled_back");
        assert!(n_undone > 0, "a seed without rollbacks proves nothing");
        let mut session = supplier.session(&database);
        let mut ask = |sql: &str| session.query(sql).unwrap().scalar().unwrap().parse::<u64>().unwrap();
        assert_eq!(ask("select sum(d_next_o_id - 3001) from district"), 300 - n_undone, "{database}");
        assert_eq!(ask("select count(*) - 30000 from history"), 300, "{database}");
        let delivered = ask("select sum(c_delivery_cnt) from customer");
        assert_eq!(fact(&driven, 3, "delivered"), delivered, "{database}");
        assert_eq!(delivered, 300, "{database}: nothing was skipped");
        supplier.expect_consistent(&database);
        left.push(supplier.fingerprint(&database));
    }
    for table in TABLES.map(TpccTable::name) {
        let is_read_only = table == "item";
        assert_eq!(left[0][table] == fresh[table], is_read_only, "{table}: {left:?}");
        for other in &left[1..] {
            assert_eq!(left[0][table], other[table], "{table}");
        }
    }
}

#[test]
fn two_clients_at_once_leave_a_consistent_database_at_every_isolation_level() {
    let supplier = Supplier::shared();
    let mut n_retries = 0;
    for (n, (level, calls)) in [
        ("read committed", Calls::Statements),
        ("read committed", Calls::Procedures),
        ("repeatable read", Calls::Statements),
        ("serializable", Calls::Functions),
    ]
    .into_iter()
    .enumerate()
    {
        let database = format!("two_clients_{n}");
        supplier.copy(&database);
        let mut load = supplier.load(&database, calls, 2, 230);
        let options = format!("-c default_transaction_isolation={}", level.replace(' ', "\\ "));
        load.target.insert("options".to_string(), options);
        let driven = drive(load);
        assert_eq!(driven.done.counts.committed, 460, "{database}: {:?}", driven.done);
        supplier.expect_consistent(&database);
        let mut session = supplier.session(&database);
        let payments = session.query("select count(*) - 30000 from history").unwrap();
        assert_eq!(payments.scalar(), Some(committed(&driven, 1).to_string().as_str()), "{database}");
        n_retries += driven.intervals.iter().map(|interval| interval.counts.retries).sum::<u64>();
    }
    assert!(n_retries > 0, "two payments of one warehouse never met: levels were not what was asked for");
}

/// A way to damage a database, and the checks that find it.
const DAMAGES: &[(&str, &[&str])] = &[
    ("update warehouse set w_ytd = w_ytd + 1", &["3.3.2.1", "3.3.2.8"]),
    ("update district set d_ytd = d_ytd + 1 where d_id = 3", &["3.3.2.1", "3.3.2.9"]),
    ("delete from district where d_id = 3", &["3.3.2.1", "3.3.2.2", "3.3.2.9", "row-counts"]),
    ("delete from warehouse", &["3.3.2.1", "3.3.2.8", "row-counts"]),
    ("update district set d_next_o_id = d_next_o_id + 1 where d_id = 1", &["3.3.2.2"]),
    (
        "delete from orders where o_d_id = 10 and o_id = 3000",
        &["3.3.2.2", "3.3.2.4", "3.3.2.5", "3.3.2.6", "3.3.2.7"],
    ),
    ("delete from orders where o_d_id = 5", &["3.3.2.2", "3.3.2.4", "3.3.2.6", "3.3.2.11"]),
    ("delete from new_order where no_d_id = 2 and no_o_id = 2500", &["3.3.2.3", "3.3.2.5", "3.3.2.11"]),
    ("delete from new_order where no_d_id = 2 and no_o_id = 3000", &["3.3.2.2", "3.3.2.5"]),
    ("insert into new_order values (1, 2, 1)", &["3.3.2.3", "3.3.2.5"]),
    ("update orders set o_ol_cnt = o_ol_cnt + 1 where o_id = 7 and o_d_id = 7", &["3.3.2.4", "3.3.2.6"]),
    ("delete from order_line where ol_d_id = 4", &["3.3.2.4", "3.3.2.6"]),
    (
        "delete from order_line where ol_d_id = 4 and ol_o_id = 44 and ol_number = 2",
        &["3.3.2.4", "3.3.2.6", "lines"],
    ),
    (
        "insert into order_line select ol_o_id + 9000, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, \
      ol_delivery_d, ol_quantity, ol_amount, ol_dist_info from order_line where ol_d_id = 1 and ol_o_id = 1",
        &["3.3.2.4", "3.3.2.6", "3.3.2.7", "stock", "amounts"],
    ),
    (
        "update orders set o_carrier_id = null where o_d_id = 6 and o_id = 60",
        &["3.3.2.5", "3.3.2.7", "3.3.2.11"],
    ),
    (
        "update orders set o_carrier_id = 3 where o_d_id = 6 and o_id = 2600",
        &["3.3.2.5", "3.3.2.7", "3.3.2.11", "deliveries"],
    ),
    (
        "update order_line set ol_delivery_d = null where ol_d_id = 8 and ol_o_id = 80 and ol_number = 1",
        &["3.3.2.7"],
    ),
    (
        "update order_line set ol_delivery_d = now() where ol_d_id = 8 and ol_o_id = 2800",
        &["3.3.2.7", "3.3.2.10", "3.3.2.12"],
    ),
    ("delete from history where h_d_id = 9", &["3.3.2.8", "3.3.2.9", "3.3.2.10", "payments"]),
    ("delete from history", &["3.3.2.8", "3.3.2.9", "3.3.2.10", "payments"]),
    (
        "update history set h_amount = h_amount + 1 where h_c_id = 1 and h_c_d_id = 1",
        &["3.3.2.8", "3.3.2.9", "3.3.2.10"],
    ),
    ("update history set h_c_id = 2 where h_c_id = 1 and h_c_d_id = 1", &["3.3.2.10", "payments"]),
    (
        "insert into history select 3001, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, 0, h_data from history limit 1",
        &["3.3.2.10", "payments", "customers"],
    ),
    (
        "update customer set c_balance = c_balance - 1 where c_id = 77 and c_d_id = 7",
        &["3.3.2.10", "3.3.2.12"],
    ),
    ("update customer set c_ytd_payment = c_ytd_payment + 1 where c_id = 77 and c_d_id = 7", &["3.3.2.12"]),
    (
        "delete from customer where c_d_id = 7",
        &["3.3.2.10", "3.3.2.12", "payments", "customers", "row-counts"],
    ),
    ("update customer set c_payment_cnt = c_payment_cnt + 1 where c_id = 77 and c_d_id = 7", &["payments"]),
    ("update customer set c_delivery_cnt = 1 where c_id = 77 and c_d_id = 7", &["deliveries"]),
    ("update stock set s_ytd = s_ytd + 1 where s_i_id = 5", &["stock"]),
    ("update stock set s_order_cnt = s_order_cnt + 1 where s_i_id = 5", &["stock"]),
    ("update stock set s_remote_cnt = s_remote_cnt + 1 where s_i_id = 5", &["stock"]),
    ("update stock set s_quantity = 9 where s_i_id = 5", &["quantities"]),
    ("update stock set s_quantity = 101 where s_i_id = 5", &["quantities"]),
    ("delete from stock where s_i_id = 5", &["customers", "row-counts"]),
    ("delete from item where i_id = 100000", &["row-counts"]),
    ("update orders set o_all_local = 0 where o_d_id = 6 and o_id = 60", &["all-local"]),
    (
        "update order_line set ol_supply_w_id = 2 where ol_d_id = 6 and ol_o_id = 60 and ol_number = 1",
        &["all-local", "customers"],
    ),
    ("update order_line set ol_number = 77 where ol_d_id = 6 and ol_o_id = 60 and ol_number = 1", &["lines"]),
    (
        "update order_line set ol_quantity = 11 where ol_d_id = 6 and ol_o_id = 60 and ol_number = 1",
        &["quantities"],
    ),
];

#[test]
fn every_damage_to_a_database_is_found_and_named() {
    let supplier = Supplier::shared();
    supplier.copy("damaged");
    let mut session = supplier.session("damaged");
    let checks = tpcc::CHECKS.always;
    let mut finding: BTreeMap<&str, u32> = BTreeMap::new();
    for (damage, expected) in DAMAGES {
        session.execute("begin").unwrap();
        session.execute(damage).unwrap();
        for id in *expected {
            let check =
                checks.iter().find(|check| check.id == *id).unwrap_or_else(|| panic!("no check `{id}`"));
            let rows = session.query(&check.query(&Schema::searched(), 1)).unwrap();
            assert!(!rows.is_empty(), "{damage}: not found by {id}");
            *finding.entry(id).or_default() += 1;
        }
        session.execute("rollback").unwrap();
    }
    let idle: Vec<&str> =
        checks.iter().map(|check| check.id).filter(|id| !finding.contains_key(id)).collect();
    assert_eq!(idle, Vec::<&str>::new(), "checks that no damage was found by");
}

#[test]
fn loading_leaves_the_population_of_the_specification() {
    let supplier = Supplier::shared();
    supplier.copy("fresh");
    let mut session = supplier.session("fresh");
    let fresh = tpcc::CHECKS.fresh.unwrap();
    let is_changed = Schema::searched().fill(fresh.is_changed);
    assert!(session.query(&is_changed).unwrap().is_empty());
    for check in fresh.checks {
        let rows = session
            .query(&check.query(&Schema::searched(), 1))
            .unwrap_or_else(|error| panic!("{}: {error}", check.id));
        assert!(rows.is_empty(), "{}: {:?}", check.id, rows.rows);
    }
    session.execute("update customer set c_credit = 'GC' where c_d_id = 1").unwrap();
    session.execute("update district set d_ytd = 1 where d_id = 1").unwrap();
    session.execute("delete from new_order where no_o_id = 2101").unwrap();
    session.execute("update orders set o_c_id = 1 where o_id = 5").unwrap();
    for check in fresh.checks {
        assert!(!session.query(&check.query(&Schema::searched(), 1)).unwrap().is_empty(), "{}", check.id);
    }
    session.execute("update customer set c_payment_cnt = 2 where c_id = 1 and c_d_id = 1").unwrap();
    assert!(!session.query(&is_changed).unwrap().is_empty());
}

#[test]
fn a_table_that_is_not_the_loads_own_is_not_emptied_for_its_rows() {
    let supplier = Supplier::shared();
    supplier.copy("unmarked");
    let mut session = supplier.session("unmarked");
    // In a known schema each table must carry the load's mark; these carry none.
    let schema = Schema::named("public");
    let jobs =
        dataset::loading::by_table::fill(&schema, Dataset::Tpcc, tpcc::fill(&schema, &supplier.population));
    let streams = Streams { sessions: vec![&mut session], stop: &AtomicBool::new(false) };
    let refused = streams.run(jobs, &mut |_| {}).unwrap_err().to_string();
    assert!(refused.contains("somebody replaced table `public."), "{refused}");
    for table in TABLES {
        let rows = session.query(&format!("select count(*) > 0 from {}", table.name())).unwrap();
        assert_eq!(rows.scalar(), Some("t"), "{}", table.name());
    }
}
