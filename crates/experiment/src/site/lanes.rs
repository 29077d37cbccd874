//! What lanes share while they are measured side by side: which runs are under way, which machine is whose, and whether
//! anything new begins.

pub mod server_host;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Result, ensure};
use model::experiment::case::Case;
use model::experiment::plan::{Plan, RunSpec};
use model::run::RunRecord;
use model::run::concurrent::ConcurrentRun;
use model::run::driver::DriverRecord;
use model::run::phase::Phase;

use crate::site::clock::unix_now;

/// What to do about targets that share a machine.
pub(crate) const ADVICE: &str = "targets are measured side by side only if each has machines of its own: give each target drivers of its own \
     ([[target.driver]]), or leave run.parallel_targets out";

/// The lanes of an experiment.
#[derive(Debug)]
pub struct Lanes {
    /// Addresses of each lane's host.
    addresses: Vec<Vec<IpAddr>>,
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    is_closing: bool,
    runs: Vec<UnderWay>,
    /// Lane and use of each known machine, by the kernel's random number of its boot.
    machines: BTreeMap<String, (usize, String)>,
}

/// A run, from its first phase to its last.
#[derive(Debug)]
struct UnderWay {
    lane: usize,
    run: ConcurrentRun,
    begun_unix_ns: u64,
    ended_unix_ns: Option<u64>,
}

/// The place of one lane among them.
#[derive(Debug, Clone, Copy)]
pub struct Seat<'a> {
    lanes: &'a Lanes,
    lane: usize,
}

impl Lanes {
    /// The lanes of a plan. The machine of pgdyno belongs to the one whose servers are there.
    pub fn from_plan(plan: &Plan) -> Lanes {
        let addresses = plan.lanes.iter().map(|lane| lane.addresses.clone()).collect();
        let here = plan.lanes.iter().enumerate().find(|(_, lane)| lane.is_here());
        let machines = here.map(|(n, lane)| (boot_id(), (n, format!("the server of `{}`", lane.name()))));
        let machines = machines.into_iter().collect();
        Lanes { addresses, shared: Mutex::new(Shared { machines, ..Shared::default() }) }
    }

    /// The place of lane `lane`, from 0.
    pub fn seat(&self, lane: usize) -> Seat<'_> {
        Seat { lanes: self, lane }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat<'_> {
    /// From now on no lane begins another run.
    pub(crate) fn close(&self) {
        self.lanes.lock().is_closing = true;
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.lanes.lock().is_closing
    }

    /// A run of this lane begins.
    pub(crate) fn begin(&self, spec: &RunSpec, case: &Case) {
        self.begin_at(spec.run, target_of(case), unix_now());
    }

    fn begin_at(&self, run: u32, target: &str, begun_unix_ns: u64) {
        let run = ConcurrentRun { run, target: target.to_string() };
        let run = UnderWay { lane: self.lane, run, begun_unix_ns, ended_unix_ns: None };
        self.lanes.lock().runs.push(run);
    }

    /// A run of this lane has ended: records the runs of other lanes that were under way while its load ran. All of them
    /// have begun by now.
    pub(crate) fn end(&self, record: &mut RunRecord) {
        self.end_at(record, unix_now());
    }

    fn end_at(&self, record: &mut RunRecord, now_unix_ns: u64) {
        let drained_unix_ns = record.phase(Phase::Drain).map_or(now_unix_ns, |phase| phase.end_unix_ns);
        let mut shared = self.lanes.lock();
        let number = record.spec.run;
        let own = shared.runs.iter_mut().filter(|of| of.run.run == number);
        own.for_each(|of| of.ended_unix_ns = Some(now_unix_ns));
        let Some(go_unix_ns) = record.go_unix_ns else { return };
        let was_under_way = |run: &&UnderWay| {
            run.lane != self.lane
                && run.begun_unix_ns <= drained_unix_ns
                && run.ended_unix_ns.is_none_or(|ended| ended >= go_unix_ns)
        };
        record.concurrent = shared.runs.iter().filter(was_under_way).map(|of| of.run.clone()).collect();
    }

    /// Takes the machine of pgdyno for this use: `the driver of target x`.
    ///
    /// # Errors
    /// As [`Seat::take_machine`].
    pub(crate) fn take_this_machine(&self, what: String) -> Result<()> {
        self.take_machine(&boot_id(), what)
    }

    /// Takes a machine, by the kernel's random number of its boot, for this use.
    ///
    /// # Errors
    /// When another lane uses it, with both uses and what to do.
    pub(crate) fn take_machine(&self, boot_id: &str, what: String) -> Result<()> {
        if boot_id.is_empty() {
            return Ok(());
        }
        let mut shared = self.lanes.lock();
        let (lane, of) = shared.machines.entry(boot_id.to_string()).or_insert((self.lane, what.clone()));
        ensure!(*lane == self.lane, "{of} and {what} are on one machine; {ADVICE}");
        Ok(())
    }

    /// Takes the machines of the drivers of `case`.
    ///
    /// # Errors
    /// As [`Seat::take_machine`]; also when a driver is on the host of another lane's server.
    pub fn take_drivers(&self, case: &Case, drivers: &[&DriverRecord]) -> Result<()> {
        let target = target_of(case);
        for driver in drivers {
            let what = format!("driver `{}` of target `{target}`", driver.name);
            let others = self.lanes.addresses.iter().enumerate().filter(|(lane, _)| *lane != self.lane);
            let address = driver.hello.address.map(|address| address.to_canonical());
            let is_at = |of: &Vec<IpAddr>| address.is_some_and(|address| of.contains(&address));
            ensure!(
                others.into_iter().all(|(_, addresses)| !is_at(addresses)),
                "{what} is on the host of another target's server; {ADVICE}"
            );
            self.take_machine(&driver.hello.boot_id, what)?;
        }
        Ok(())
    }
}

/// The kernel's random number of this boot.
fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_string()
}

pub(crate) fn target_of(case: &Case) -> &str {
    case.server.target.as_ref().map_or("", |target| target.name.as_str())
}

#[cfg(test)]
mod tests {
    use model::experiment::target::lane::Lane;
    use model::load::hello::Hello;
    use model::run::phase::PhaseRecord;

    use super::*;
    use crate::plan::sample;

    fn lanes(addresses: &[&str]) -> Lanes {
        let lane = |(n, text): (usize, &&str)| Lane {
            targets: vec![format!("t{n}")],
            addresses: text.split_whitespace().map(|text| text.parse().unwrap()).collect(),
        };
        Lanes::from_plan(&Plan { lanes: addresses.iter().enumerate().map(lane).collect(), ..Plan::default() })
    }

    #[test]
    fn a_run_records_the_runs_of_other_lanes_that_overlap_its_load() {
        let lanes = lanes(&["192.0.2.1", "192.0.2.2", "192.0.2.3"]);
        let [a, b, c] = [0, 1, 2].map(|n| lanes.seat(n));
        let plan = sample::plan("repeats = 1\n[workload]\nscale = 1\n");
        // Prepared from `begun`, loaded from `go` to `drained`.
        let end = |seat: &Seat, run: u32, times: Option<(u64, u64)>, now: u64| {
            let spec = RunSpec { run, ..plan.runs[0].clone() };
            let mut record = RunRecord::new(spec, plan.cases[0].clone(), "0");
            record.go_unix_ns = times.map(|(go, _)| go);
            record.phases.extend(times.map(|(go, drained)| PhaseRecord {
                phase: Phase::Drain,
                start_unix_ns: go,
                end_unix_ns: drained,
                detail: BTreeMap::new(),
            }));
            seat.end_at(&mut record, now);
            record
                .concurrent
                .iter()
                .map(|other| format!("{} {}", other.run, other.target))
                .collect::<Vec<_>>()
        };
        a.begin_at(1, "a", 100);
        b.begin_at(2, "b", 150);
        assert_eq!(end(&b, 2, Some((160, 190)), 199), ["1 a"], "also while the other one is prepared");
        c.begin_at(3, "c", 250);
        b.begin_at(4, "b", 320);
        assert_eq!(
            end(&a, 1, Some((200, 300)), 330),
            ["3 c"],
            "not what ended before or began after its load"
        );
        a.begin_at(5, "a", 331);
        assert!(end(&c, 3, None, 340).is_empty(), "it had no load");
        assert_eq!(end(&a, 5, Some((335, 350)), 351), ["3 c", "4 b"]);
    }

    #[test]
    fn a_machine_belongs_to_one_lane() {
        let lanes = lanes(&["192.0.2.1", "", "192.0.2.3"]);
        let case = sample::case("[workload]\nscale = 1\n");
        let driver = |boot_id: &str, address: Option<&str>| {
            let address = address.map(|text| text.parse().unwrap());
            let hello = Hello { boot_id: boot_id.to_string(), address, ..Hello::default() };
            DriverRecord { name: "d".to_string(), hello, ..DriverRecord::default() }
        };
        let take = |lane: usize, driver: &DriverRecord| {
            let taken = lanes.seat(lane).take_drivers(&case, &[driver]);
            taken.map_err(|error| error.to_string()).err().unwrap_or_default()
        };
        assert_eq!(take(0, &driver("one", None)), "");
        assert_eq!(take(0, &driver("one", None)), "", "again, in its next run");
        let refused = take(2, &driver("one", None));
        assert!(
            refused.starts_with("driver `d` of target `` and driver `d` of target `` are on one machine; "),
            "{refused}"
        );
        assert!(refused.contains("give each target drivers of its own"), "{refused}");
        assert_eq!(take(2, &driver("two", Some("192.0.2.3"))), "", "on the host of its own server");
        let refused = take(2, &driver("three", Some("::ffff:192.0.2.1")));
        assert!(refused.contains("is on the host of another target's server"), "{refused}");
        let refused =
            lanes.seat(0).take_this_machine("the driver of target `a`".into()).unwrap_err().to_string();
        assert!(
            refused.starts_with("the server of `t1` and the driver of target `a` are on one machine"),
            "{refused}"
        );
        lanes.seat(1).take_this_machine("the driver of target `b`".into()).unwrap();
    }
}
