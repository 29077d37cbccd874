//! The tests of clause 3 of TPC-C 5.11 on the tables of a database: atomicity, consistency, isolation, durability.
//!
//! The transactions are those of the workload, sent statement by statement and stopped where the clause says. The tests
//! change the tables as transactions do, and leave them consistent.

mod actor;
mod atomicity;
mod durability;
mod interaction;
mod isolation;
mod ledger;
mod phantoms;
mod stored_rows;
pub mod tokens;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use model::workload::{Dataset, WorkloadKind};
use wire::Conninfo;
use wire::session::Session;
use workload::tpcc::{Constants, NewOrderInputs};
use workload::{Prng, Schema, tpcc};

use crate::check::CheckReport;
use crate::session::STOPPED;
use crate::session::{self, limit};
use crate::state::{self, DataState, inspect};
use crate::{clearance, schema};

pub use durability::CLAUSE as DURABILITY;
pub use ledger::{AcknowledgedOrder, find_faults, is_ledger, read as read_ledger};

/// A statement that waits longer has been forgotten by the session that it waits for.
const STATEMENT_SECONDS_MAX: u64 = 30;
/// A session without an answer after this time is lost: the server itself gives up earlier.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(STATEMENT_SECONDS_MAX + 10);

/// Outcome of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcidVerdict {
    /// The clause's requirement was met.
    Held,
    /// The requirement was not met, but the isolation level does not promise it.
    Allowed,
    /// The requirement was not met.
    Violated,
    /// The test was not run.
    Skipped,
}

impl AcidVerdict {
    /// The word in messages and files.
    pub fn as_str(self) -> &'static str {
        match self {
            AcidVerdict::Held => "held",
            AcidVerdict::Allowed => "allowed",
            AcidVerdict::Violated => "violated",
            AcidVerdict::Skipped => "skipped",
        }
    }
}

/// One test and its outcome.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcidResult {
    pub clause: &'static str,
    /// The requirement that the test checks.
    pub title: &'static str,
    /// Isolation level of its transactions, if it matters.
    pub isolation: Option<&'static str>,
    pub verdict: AcidVerdict,
    /// Observations, in words.
    pub seen: String,
    /// Every broken condition and every lost order.
    pub faults: Vec<String>,
}

/// Observations of a test.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    text: String,
    /// Observations that contradict the clause.
    faults: Vec<String>,
}

impl Observations {
    /// Records a fault unless `holds`.
    fn expect(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        if !holds {
            self.faults.push(fault());
        }
    }
}

/// Kills the server and starts it again; returns its new address, and a description.
pub type Crash<'a> = &'a mut dyn FnMut() -> Result<(Conninfo, String)>;

/// The database to test, and options of the tests.
#[allow(missing_docs, reason = "the names say it")]
pub struct AcidRequest<'a> {
    /// The schema of the tables; by default the first of the search path.
    pub schema: Option<String>,
    pub conninfo: Conninfo,
    /// Kills and restarts the server; `None` if the server is not ours.
    pub crash: Option<Crash<'a>>,
    /// How long to send New-Orders before the server is killed.
    pub load: Duration,
    /// File for the ledger of acknowledged orders; must not exist yet.
    pub ledger: PathBuf,
    /// Set when the user wants to stop.
    pub stop: &'static AtomicBool,
}

/// Outcome of all tests.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcidReport {
    pub scale: u32,
    /// All tests, in the order of clauses.
    pub results: Vec<AcidResult>,
}

impl AcidReport {
    /// Whether no test was violated.
    pub fn is_sound(&self) -> bool {
        self.results.iter().all(|result| result.verdict != AcidVerdict::Violated)
    }
}

/// The isolation levels of PostgreSQL, and whether they rule out phantoms (documentation, Transaction Isolation).
const LEVELS: [(&str, bool); 3] =
    [("read committed", false), ("repeatable read", true), ("serializable", true)];

/// What interrupted tests have left in the schema of TPC-C's tables, in words; `None` if nothing, or if there are no such tables.
///
/// # Errors
/// When the server fails.
pub fn left_behind(session: &mut Session, schema: Option<&str>) -> Result<Option<String>> {
    let Ok(schema) = schema::find(session, schema) else { return Ok(None) };
    stored_rows::left_behind(session, &schema)
}

/// Runs all tests.
///
/// # Errors
/// When the tables are missing or not whole, the server is lost, or `stop` is set. A failed test is a result.
pub fn run(mut request: AcidRequest<'_>, progress: &mut dyn FnMut(&str)) -> Result<AcidReport> {
    let (schema, scale) = limit::within("examine the server", limit::QUESTIONS, || {
        let mut session = session::open(&request.conninfo, request.stop)?;
        let schema = schema::find(&mut session, request.schema.as_deref())?;
        let scale = warehouses(&mut session, &schema)?;
        drop(session);
        // Repair what interrupted tests have left behind.
        stored_rows::put_back(&mut stored_rows::keeper(&request.conninfo)?, &schema)?;
        Ok((schema, scale))
    })?;
    let mut results = Vec::new();
    progress("consistency before the tests (clause 3.3.3.1)");
    results.push(consistency(&request, &schema, "3.3.3.1", "the tables are consistent before the tests")?);
    let site = TestDatabase {
        conninfo: request.conninfo.clone(),
        schema: schema.clone(),
        stop: request.stop,
        scale,
    };
    for test in atomicity::TESTS {
        progress(&format!("atomicity (clause {})", test.clause));
        results.push(site.run(&test, None)?);
    }
    for test in isolation::TESTS.iter().chain(&phantoms::TESTS) {
        for (level, has_no_phantoms) in LEVELS {
            progress(&format!("isolation (clause {}), {level}", test.clause));
            results.push(site.run(test, Some((level, has_no_phantoms)))?);
        }
    }
    progress("durability (clause 3.5.3)");
    // Time for transactions, and for the recovery of what they wrote.
    let longest = request.load + limit::for_bytes(0);
    results.push(limit::within("durability", longest, || durability::test(&mut request, &schema, scale))?);
    progress("consistency after the tests (clause 3.3.3.2)");
    results.push(consistency(&request, &schema, "3.3.3.2", "the tables are consistent after the tests")?);
    results.sort_by_key(|result| result.clause);
    Ok(AcidReport { scale, results })
}

/// Number of warehouses.
fn warehouses(session: &mut Session, schema: &Schema) -> Result<u32> {
    match inspect(session, Dataset::Tpcc, schema)? {
        DataState::Whole(marker) => {
            // The tests write to all tables.
            let unmarked = clearance::unmarked(session, Dataset::Tpcc, schema)?;
            ensure!(
                unmarked.is_empty(),
                "`{}` has no load marker of pgdyno: somebody else created it, or an older version; load the tables again with \
                 pgdyno init -w tpcc --replace --server URL",
                unmarked.join("`, `")
            );
            Ok(marker.scale)
        }
        DataState::Absent => bail!(state::absent(session, Dataset::Tpcc, schema)?),
        DataState::Half(_) | DataState::Foreign { .. } => bail!(
            "the tests of clause 3 change the tables, and need complete tables loaded by pgdyno init -w tpcc --server URL"
        ),
    }
}

fn consistency(
    request: &AcidRequest<'_>,
    schema: &Schema,
    clause: &'static str,
    title: &'static str,
) -> Result<AcidResult> {
    let open = || {
        let mut session = session::open(&request.conninfo, request.stop)?;
        Ok((limit::database_bytes(&mut session)?, session))
    };
    let (bytes, mut session) = limit::within("connect", limit::QUESTIONS, open)?;
    let check = || crate::check::run(&mut session, WorkloadKind::Tpcc, schema);
    let CheckReport { results, .. } = limit::within("consistency", limit::for_bytes(bytes), check)?;
    let n = results.len();
    let broken = results.into_iter().filter_map(|result| {
        let example = result.violations.first()?;
        Some(format!("{}: {}: {example}", result.id, result.title))
    });
    let faults: Vec<String> = broken.collect();
    let seen = format!("{} of {n} conditions hold", n - faults.len());
    let verdict = if faults.is_empty() { AcidVerdict::Held } else { AcidVerdict::Violated };
    Ok(AcidResult { clause, title, isolation: None, verdict, seen, faults })
}

pub(crate) struct Test {
    clause: &'static str,
    title: &'static str,
    /// The test looks for phantoms, which not every isolation level rules out.
    is_of_phantoms: bool,
    run: fn(&mut Scene) -> Result<Observations>,
}

struct TestDatabase {
    conninfo: Conninfo,
    schema: Schema,
    stop: &'static AtomicBool,
    scale: u32,
}

impl TestDatabase {
    fn run(&self, test: &Test, level: Option<(&'static str, bool)>) -> Result<AcidResult> {
        let mut scene = Scene::open(self, level.map(|(name, _)| name))?;
        let outcome = (test.run)(&mut scene);
        ensure!(!self.stop.load(Ordering::Relaxed), STOPPED);
        let seen = outcome.unwrap_or_else(|error| Observations {
            text: "the test could not be completed".to_string(),
            faults: vec![format!("{error:#}")],
        });
        let promises = !test.is_of_phantoms || level.is_none_or(|(_, has_no_phantoms)| has_no_phantoms);
        let verdict = match (seen.faults.is_empty(), promises) {
            (true, _) => AcidVerdict::Held,
            (false, true) => AcidVerdict::Violated,
            (false, false) => AcidVerdict::Allowed,
        };
        let Observations { text: seen, faults } = seen;
        let isolation = level.map(|(name, _)| name);
        Ok(AcidResult { clause: test.clause, title: test.title, isolation, verdict, seen, faults })
    }
}

/// The setting of a test: a session per transaction of the clause, one that observes, and a customer.
pub(crate) struct Scene {
    /// Observes from outside all transactions.
    observer: Session,
    /// Sets rows aside and restores them, even when the user wants to stop.
    keeper: Session,
    /// Sessions for the transactions T1, T2 and T3.
    sessions: Vec<Session>,
    schema: Schema,
    prng: Prng,
    scale: u32,
    w_id: u32,
    d_id: u32,
    c_id: u32,
}

impl Scene {
    fn open(site: &TestDatabase, isolation: Option<&str>) -> Result<Scene> {
        let open = || -> Result<Session> {
            let mut session = session::open(&site.conninfo, site.stop)?;
            session.set_timeout(Some(ANSWER_TIMEOUT));
            session.execute(&format!("set statement_timeout = '{STATEMENT_SECONDS_MAX}s'"))?;
            if let Some(level) = isolation {
                session.execute(&format!("set default_transaction_isolation = '{level}'"))?;
            }
            Ok(session)
        };
        let (observer, sessions) = (open()?, vec![open()?, open()?, open()?]);
        let nanoseconds = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        let mut prng = Prng::seed(nanoseconds as u64);
        let mut random = |max: u64| prng.uint64_range(1, max) as u32;
        let (w_id, d_id) = (random(site.scale.into()), random(tpcc::DISTRICTS));
        let c_id = random(tpcc::CUSTOMERS_PER_DISTRICT);
        let keeper = stored_rows::keeper(&site.conninfo)?;
        let schema = site.schema.clone();
        Ok(Scene { observer, keeper, sessions, schema, prng, scale: site.scale, w_id, d_id, c_id })
    }

    /// An order of the customer that is not rolled back.
    fn order(&mut self) -> NewOrderInputs {
        loop {
            let order = NewOrderInputs::draw(&mut self.prng, self.scale, self.w_id, Constants::for_load(1));
            if !order.is_undone() {
                return NewOrderInputs { d_id: self.d_id, c_id: self.c_id, ..order };
            }
        }
    }
}
