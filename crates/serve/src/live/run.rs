//! The run that is measured: its latest seconds, explained as those of a whole run.
//!
//! The charts need a few seconds at a time. Findings are judged over the last two minutes, and as seldom as keeps their cost small:
//! the machine that measures has better things to do.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use analysis::explain::explain_run;
use analysis::finding::Finding;
use analysis::findings::JUDGED_SO_FAR;
use analysis::summary::RunSummary;
use analysis::summary::limiter::Limiter;
use model::experiment::plan::RunState;
use model::run::{RunData, RunRecord};
use report::site::{LiveCharts, NowFigures};
use store::{NewRecords, RunFollow};

use super::Shown;
use super::experiment::{now_unix_ns, stamp};

/// Seconds before the new ones that the charts' summaries look back.
const OVERLAP_S: u32 = 8;
/// Most seconds that are taken at a time by a follower that came late.
const CHUNK_S: u32 = 60;
/// Seconds that findings are judged over.
const JUDGED_S: u32 = 120;
/// Fewest seconds before anything is judged.
const JUDGED_MIN_S: u32 = 5;
/// Judging may take this part of the time of one processor.
const JUDGING_SHARE: u32 = 500;
/// Most events that are kept, the latest.
const EVENTS_MAX: usize = 2_000;
/// Longest record that is read.
const RECORD_BYTES_MAX: u64 = 64 << 20;

/// Followed by one thread.
pub(super) struct FollowedRun {
    pub(super) number: u32,
    pub(super) label: String,
    /// Which of the attempts that were followed it is.
    attempt: u32,
    dir: PathBuf,
    /// Of the run, and what identifies it: an attempt that was cut off has the number of the next, which takes its name.
    of_run: PathBuf,
    identity: Option<(u64, u64)>,
    record_stamp: (i64, i64, u64),
    load: Option<FollowedLoad>,
    /// Findings so far, by their ids: the latest evidence of each.
    findings: Vec<Finding>,
}

/// The load of the run, once it has begun.
struct FollowedLoad {
    go_unix_ns: u64,
    n_clients: u32,
    /// Lengths of ramp-up and measurement, seconds.
    load_s: (f64, f64),
    follow: RunFollow,
    /// The latest seconds, for the charts.
    short: RunData,
    /// The last minutes, for the findings.
    long: RunData,
    /// The second up to which everything was taken.
    taken_s: u32,
    /// The last second of which there was an interval when we looked before.
    seen_s: Option<u32>,
    figures: Option<NowFigures>,
    limiter: Option<Limiter>,
    judged: Instant,
    pause: Duration,
}

/// New summaries of the latest seconds, in order.
pub(super) struct Latest(Vec<RunSummary>);

impl Latest {
    /// Adds them to the charts that pages show.
    pub(super) fn draw(self, shown: &mut Shown, run: &FollowedRun) {
        let Some(load) = &run.load else { return };
        if shown.attempt != run.attempt || shown.charts.is_none() {
            let title = format!("Run {}: {}", run.number, run.label);
            shown.charts = Some(LiveCharts::new(run.number, &title, load.load_s));
            shown.attempt = run.attempt;
        }
        if let Some(charts) = &mut shown.charts {
            self.0.iter().for_each(|summary| charts.add(summary, load.n_clients));
        }
    }
}

impl FollowedRun {
    /// `None` if a link leads elsewhere.
    pub(super) fn new(dir: &Path, number: u32, label: String, attempt: u32) -> Option<FollowedRun> {
        let of_run = crate::index::run_path(dir, number)?;
        Some(FollowedRun {
            number,
            label,
            attempt,
            dir: dir.to_path_buf(),
            identity: identity(&of_run),
            of_run,
            record_stamp: (0, 0, 0),
            load: None,
            findings: Vec::new(),
        })
    }

    /// Whether its directory is still the one that has the name.
    pub(super) fn is_latest(&self) -> bool {
        identity(&self.of_run) == self.identity
    }

    pub(super) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    pub(super) fn figures(&self) -> Option<NowFigures> {
        let load = self.load.as_ref()?;
        load.figures.clone().map(|figures| figures.limited_by(load.limiter.as_ref()))
    }

    /// Seconds until the load ends.
    pub(super) fn load_left_s(&self) -> Option<f64> {
        let load = self.load.as_ref()?;
        Some((load.load_s.0 + load.load_s.1 - load.passed_s()).max(0.0))
    }

    /// What the load does; `None` before it.
    pub(super) fn doing(&self) -> Option<String> {
        let load = self.load.as_ref()?;
        let (ramp_up_s, measure_s) = load.load_s;
        let at = load.passed_s();
        Some(match at {
            _ if at < 0.0 => "about to begin".to_string(),
            _ if at < ramp_up_s => format!("ramp-up, second {:.0} of {ramp_up_s:.0}", at.ceil()),
            _ if at < ramp_up_s + measure_s => {
                format!("measuring, second {:.0} of {measure_s:.0}", (at - ramp_up_s).ceil())
            }
            _ => "ending".to_string(),
        })
    }

    /// Takes what came since the last look; `None` if nothing did.
    pub(super) fn look(&mut self) -> Option<Latest> {
        self.read_record();
        let load = self.load.as_mut()?;
        let latest = load.take();
        if load.is_due_for_judging() {
            load.judge(&mut self.findings);
        }
        (!latest.is_empty()).then_some(Latest(latest))
    }

    /// Reads the record when it has changed: it says when the load begins.
    fn read_record(&mut self) {
        let path = self.of_run.join(store::names::RUN);
        let stamp = stamp(&path);
        if stamp == self.record_stamp || self.load.is_some() {
            return;
        }
        self.record_stamp = stamp;
        let Ok(bytes) = files::read(&path, RECORD_BYTES_MAX) else { return };
        let Ok(record) = store::parse_record::<RunRecord>(&bytes) else { return };
        self.load = record.go_unix_ns.map(|go| FollowedLoad::new(&self.dir, self.number, record, go));
    }
}

/// Device and inode of a directory.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let facts = std::fs::symlink_metadata(path).ok()?;
    Some((facts.dev(), facts.ino()))
}

impl FollowedLoad {
    fn new(dir: &Path, number: u32, record: RunRecord, go_unix_ns: u64) -> FollowedLoad {
        let window = record.window();
        // Of a run that was cut off, the last second would not count; of this one it does.
        let data = RunData {
            record: RunRecord { state: RunState::Completed, ..record },
            intervals: Vec::new(),
            histograms: Vec::new(),
            ticks: Vec::new(),
            events: Vec::new(),
            imports: Vec::new(),
            executions: Vec::new(),
            plans: Vec::new(),
            damage: Vec::new(),
        };
        FollowedLoad {
            go_unix_ns,
            n_clients: data.record.case.workload.n_clients,
            load_s: (f64::from(window.ramp_up_s), f64::from(window.measure_s)),
            follow: RunFollow::new(dir, number, go_unix_ns),
            short: data.clone(),
            long: data,
            taken_s: 0,
            seen_s: None,
            figures: None,
            limiter: None,
            judged: Instant::now(),
            pause: Duration::from_secs(u64::from(JUDGED_MIN_S)),
        }
    }

    fn passed_s(&self) -> f64 {
        (now_unix_ns() as f64 - self.go_unix_ns as f64) / 1e9
    }

    /// Summaries of the seconds that are complete, a chunk at a time.
    fn take(&mut self) -> Vec<RunSummary> {
        // All lines of a second are there if we saw the first of them before, or if a later second has begun.
        let newest = self.follow.newest_second();
        let complete_s = match (newest, self.seen_s) {
            (Some(newest), Some(seen)) if seen >= newest => newest + 1,
            (Some(newest), _) => newest,
            (None, Some(seen)) => seen + 1,
            (None, None) => 0,
        };
        self.seen_s = newest.or(self.seen_s);
        let mut latest = Vec::new();
        while self.taken_s < complete_s {
            let until_s = complete_s.min(self.taken_s + CHUNK_S);
            let fresh = self.follow.take(until_s);
            self.taken_s = until_s;
            keep(&mut self.long, &fresh, until_s.saturating_sub(JUDGED_S));
            keep(&mut self.short, &fresh, 0);
            let summary = explain_run(&self.short, None, true).into_summary();
            self.figures = NowFigures::from_run(&summary).or(self.figures.take());
            latest.push(summary);
            forget(&mut self.short, until_s.saturating_sub(OVERLAP_S));
        }
        latest
    }

    fn is_due_for_judging(&self) -> bool {
        self.taken_s >= JUDGED_MIN_S && self.judged.elapsed() >= self.pause
    }

    /// Judges the last minutes. What was found before stays, with its latest evidence.
    fn judge(&mut self, findings: &mut Vec<Finding>) {
        let begun = Instant::now();
        let summary = explain_run(&self.long, None, false).into_summary();
        for found in summary.findings.into_iter().filter(|found| JUDGED_SO_FAR.contains(&found.id)) {
            match findings.iter_mut().find(|known| known.id == found.id) {
                Some(known) => *known = found,
                None => findings.push(found),
            }
        }
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        self.limiter = summary.limiter;
        self.judged = Instant::now();
        self.pause = (begun.elapsed() * JUDGING_SHARE).max(Duration::from_secs(2));
    }
}

/// Adds what is new, and forgets what is before second `from_s`.
fn keep(data: &mut RunData, fresh: &NewRecords, from_s: u32) {
    data.intervals.extend(fresh.intervals.iter().cloned());
    data.histograms.extend(fresh.histograms.iter().cloned());
    data.ticks.extend(fresh.ticks.iter().cloned());
    data.events.extend(fresh.events.iter().cloned());
    forget(data, from_s);
}

fn forget(data: &mut RunData, from_s: u32) {
    let go = data.record.go_unix_ns.unwrap_or_default();
    let from_unix_ns = go.saturating_add(u64::from(from_s) * 1_000_000_000);
    data.intervals.retain(|interval| interval.t >= from_s);
    data.histograms.retain(|one| one.t >= from_s);
    data.ticks.retain(|tick| from_s == 0 || tick.end_unix_ns > from_unix_ns);
    let n_over = data.events.len().saturating_sub(EVENTS_MAX);
    data.events.drain(..n_over);
}
