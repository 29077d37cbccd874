//! What a plan will take: time, disk, memory, and how often servers are started.
//!
//! Pure but for one question: which data is here already (`present.rs`). `preflight.rs` asks servers and binaries what would make a run
//! fail.

use dataset::kind::data_bytes;
use model::experiment::case::{Case, setting};
use model::experiment::plan::{Plan, RunSpec};
use model::text::prose::{bytes, duration};

use crate::forecast::fit::MachineSpeed;
use crate::forecast::present::Present;
use crate::plan::scripts::reads;
use crate::site::estimates::{load_s, version_num};
use crate::site::keys::{StageKey, is_same_server, needs_restart};

/// Seconds of a run in addition to its load and a server's start: vacuum, prewarm, checkpoint, settle, count. Observed
/// on two cores with half a gigabyte of data; during an experiment, the real durations of its runs correct it.
pub const AROUND_LOAD_S: f64 = 4.0;
/// The same without restore and prewarming, which read all data: observed with 1.3 GB.
const AROUND_LOAD_LEAST_S: f64 = 2.5;
/// Seconds to stop a server, restore half a gigabyte of data and start it again, observed on the same machine.
pub(super) const START_S: f64 = 2.0;
/// Size of the data for both observations, bytes. The time to write, restore and read data grows with it: studies with
/// 1.9 and 2.9 GB took 21 and 39 s around each run.
const SEEN_BYTES: f64 = 0.5e9;
/// Bytes of data per second for loading, indexing and taking a snapshot, observed on the same machine.
pub(crate) const LOADED_BYTES_PER_S: f64 = 40e6;
/// Seconds to initialize a cluster of our own there and start it for the first time.
const FIRST_S: f64 = 6.0;

/// Memory of a connection in addition to shared buffers: work memory, catalogs, page tables. Our convention.
pub(super) const CLIENT_BYTES: u64 = 5 << 20;
/// Minimum memory of a connection: a plan is refused only for what is certain, not for what is usual. Our convention.
const CLIENT_BYTES_LEAST: u64 = 2 << 20;

/// Plans with more runs need consent: they are usually a mistake.
pub const RUNS_MAX: usize = 100;
/// Plans that take longer need consent, seconds.
pub const LENGTH_S_MAX: f64 = 86_400.0;

/// The machine that a plan runs on.
#[derive(Debug, Clone, Copy)]
pub struct PlannedMachine<'a> {
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// How fast it is: the one on which durations were observed has 1. Only what has no given length depends on it.
    pub speed: MachineSpeed,
    /// Data that need not be loaded.
    pub present: &'a Present,
}

/// Time, memory and disk space that a plan will need.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// Number of runs.
    pub n_runs: usize,
    /// Seconds for all runs; of lanes that are measured side by side, those of the longest.
    pub runs_s: f64,
    /// Seconds for the extra runs of cases that ask for a profile, likewise.
    pub profiles_s: f64,
    /// Maximum of seconds that repeats of disturbed runs may add.
    pub repeats_s: f64,
    /// Seconds for loading data that our own servers do not have yet.
    pub loading_s: f64,
    /// Seconds for loading data into servers by URL. Whether they have it unchanged, and it is not loaded, is not known here.
    pub url_loading_s: f64,
    /// Number of starts of our own servers for runs.
    pub n_starts: usize,
    /// Seconds for them.
    pub starts_s: f64,
    /// Starts that are only needed to restore data, with the same server and settings.
    pub n_starts_for_data: usize,
    /// Different (server, data) pairs: each is loaded once.
    pub n_stages: usize,
    /// Data loaded on servers by URL, bytes on their disks.
    pub url_bytes: u64,
    /// Maximum size of our server's WAL, bytes, if there is room for it.
    pub wal_bytes: u64,
    /// Memory of the case that needs the most, bytes, if we run its server.
    pub memory_bytes: Option<u64>,
}

impl Outlook {
    /// The outlook of `plan` on a machine, without blocks that are made only while there is time.
    pub fn on(plan: &Plan, machine: PlannedMachine) -> Outlook {
        let plan = &*plan.without_spare();
        let (memory_bytes, speed) = (machine.memory_bytes, machine.speed.relative());
        let run_s = |case: &Case| run_s(case, speed);
        let start_s = START_S / speed;
        let runs: Vec<&Case> = plan.runs.iter().filter_map(|run| plan.case(run.case)).collect();
        let starts = starts(&runs);
        let stages = stages(plan);
        let embedded = |case: &&Case| case.server.source.is_embedded();
        let takes_turns = plan.servers_at_a_time.is_some();
        let missing: Vec<&Case> = stages
            .iter()
            .copied()
            .filter(|case| embedded(case) && !machine.present.has(case, takes_turns))
            .collect();
        // Data of a server by URL that is not restored is measured as it is.
        let by_url: Vec<&Case> =
            stages.iter().copied().filter(|case| !embedded(case) && case.prepare.restore).collect();
        let bytes =
            |cases: &[&Case]| -> u64 { cases.iter().map(|case| data_bytes(&case.workload)).sum::<u64>() };
        let [runs_s, profiles_s, loading_s, url_loading_s] = longest_lane(plan, machine).unwrap_or([
            runs.iter().map(|case| run_s(case)).sum::<f64>() + starts.n_all as f64 * start_s,
            plan.profiled().map(|case| run_s(case) + start_s).sum(),
            (bytes(&missing) as f64 / LOADED_BYTES_PER_S + missing.len() as f64 * FIRST_S) / speed,
            bytes(&by_url) as f64 / LOADED_BYTES_PER_S / speed,
        ]);
        Outlook {
            n_runs: plan.runs.len(),
            runs_s,
            profiles_s,
            repeats_s: repeats_s(plan, speed),
            loading_s,
            url_loading_s,
            n_starts: starts.n_all,
            starts_s: starts.n_all as f64 * start_s,
            n_starts_for_data: starts.n_for_data,
            n_stages: stages.len(),
            // A template exists together with its copy.
            url_bytes: 2 * bytes(&by_url),
            wal_bytes: plan.cases.iter().filter_map(wal_bytes).max().unwrap_or(0),
            memory_bytes: plan.cases.iter().filter(embedded).map(|case| memory_of(case, memory_bytes)).max(),
        }
    }

    /// Seconds for everything but repeats, which nobody knows before.
    pub fn planned_s(&self) -> f64 {
        self.runs_s + self.profiles_s + self.all_loading_s()
    }

    /// Seconds for all data that may have to be loaded.
    pub fn all_loading_s(&self) -> f64 {
        self.loading_s + self.url_loading_s
    }

    /// The one estimate of how long all takes, and of what: `about 1 min 07 s: 19 s to load data that is missing, 48 s for runs with ramp-up
    /// and restores; up to 32 s more if runs are disturbed and repeated`.
    pub fn words(&self) -> String {
        let parts = [
            (self.loading_s, "to load data that is missing"),
            (self.url_loading_s, "to load data into servers by URL, unless they have it unchanged"),
            (self.runs_s, "for runs with ramp-up and restores"),
            (self.profiles_s, "for profiles"),
        ];
        let listed = parts.iter().filter(|(seconds, _)| *seconds >= 0.5);
        let listed: Vec<String> =
            listed.map(|(seconds, what)| format!("{} {what}", duration(*seconds))).collect();
        let repeats = if self.repeats_s >= 0.5 {
            format!("; up to {} more if runs are disturbed and repeated", duration(self.repeats_s))
        } else {
            String::new()
        };
        format!("about {}: {}{repeats}", duration(self.planned_s()), listed.join(", "))
    }

    /// Why the plan needs consent, if it does.
    pub fn asks_consent(&self) -> Option<String> {
        if self.n_runs > RUNS_MAX {
            return Some(format!("This would make {} runs, more than {RUNS_MAX}", self.n_runs));
        }
        let length_s = self.planned_s() + self.repeats_s;
        (length_s > LENGTH_S_MAX).then(|| format!("This would take {:.1} days", length_s / 86_400.0))
    }
}

/// Seconds for all runs, for profiles and for loading, of the lanes that take the longest; none if there is nothing side by side.
fn longest_lane(plan: &Plan, machine: PlannedMachine) -> Option<[f64; 4]> {
    let lanes = plan.lanes.iter().filter(|_| plan.is_side_by_side());
    let of_lanes = lanes.map(|lane| Outlook::on(&plan.of_lane(lane), machine));
    let times = of_lanes
        .map(|outlook| [outlook.runs_s, outlook.profiles_s, outlook.loading_s, outlook.url_loading_s]);
    times.reduce(|one, other| std::array::from_fn(|part| one[part].max(other[part])))
}

/// Seconds of a run without a server's start.
fn run_s(case: &Case, speed: f64) -> f64 {
    let reads_all = case.prepare.restore || case.prepare.prewarm;
    let load_s = load_s(case);
    let load_s = if case.workload.transactions.is_some() { load_s / speed } else { load_s };
    load_s + around_load_s(data_bytes(&case.workload) as f64, reads_all) / speed
}

/// Seconds that the steps around the load of a run usually take, with a start of our own server if data is restored.
pub(crate) fn expected_around_load_s(case: &Case) -> f64 {
    let prepare = &case.prepare;
    let bytes = data_bytes(&case.workload) as f64;
    around_load_s(bytes, prepare.restore || prepare.prewarm) + if prepare.restore { START_S } else { 0.0 }
}

/// Seconds of a run without its load and a server's start, for this many bytes of data, which a restore and prewarming read whole.
fn around_load_s(bytes: f64, reads_all: bool) -> f64 {
    if !reads_all {
        return AROUND_LOAD_LEAST_S;
    }
    let more = (bytes / SEEN_BYTES - 1.0).max(0.0);
    AROUND_LOAD_S + more * (AROUND_LOAD_S + START_S)
}

/// Bytes of data of which `n_runs` that read all of it need at most this many seconds more than runs with little data.
pub(crate) fn bytes_read_within(more_s: f64, n_runs: usize) -> f64 {
    SEEN_BYTES * (1.0 + more_s / (n_runs.max(1) as f64 * (AROUND_LOAD_S + START_S)))
}

/// Seconds of every possible repeat, assuming the longest turns.
fn repeats_s(plan: &Plan, speed: f64) -> f64 {
    let of_run = |case: &Case| run_s(case, speed) + START_S / speed;
    let of_turn = |turn: &Vec<RunSpec>| -> f64 {
        turn.iter().filter_map(|spec| plan.case(spec.case)).map(of_run).sum()
    };
    let mut turns: Vec<f64> = plan.turns().iter().map(of_turn).collect();
    turns.sort_by(|a, b| b.total_cmp(a));
    let of_turn = plan.repeat_disturbed as usize;
    turns.iter().flat_map(|s| std::iter::repeat_n(s, of_turn)).take(plan.repeats_max()).sum()
}

struct Starts {
    n_all: usize,
    n_for_data: usize,
}

fn starts(runs: &[&Case]) -> Starts {
    let mut starts = Starts { n_all: 0, n_for_data: 0 };
    let mut before: Option<&Case> = None;
    for case in runs {
        let is_embedded = case.server.source.is_embedded();
        if is_embedded && before.is_none_or(|before| needs_restart(before, case)) {
            starts.n_all += 1;
            starts.n_for_data += usize::from(before.is_some_and(|before| is_same_server(before, case)));
        }
        before = Some(case);
    }
    starts
}

/// The first case of each stage.
fn stages(plan: &Plan) -> Vec<&Case> {
    let mut found: Vec<(StageKey, &Case)> = Vec::new();
    for case in &plan.cases {
        let key = StageKey::new(case);
        if !found.iter().any(|(known, _)| *known == key) {
            found.push((key, case));
        }
    }
    found.into_iter().map(|(_, case)| case).collect()
}

/// Maximum WAL space of a server of our own. Our default is lowered if there is no room for it.
fn wal_bytes(case: &Case) -> Option<u64> {
    if !case.server.source.is_embedded() {
        return None;
    }
    if case.space.wal_headroom_bytes.is_some() {
        return case.space.wal_headroom_bytes;
    }
    let bytes =
        server::settings::defaults::max_wal_bytes(version_num(&case.server.source), &case.server.settings);
    Some(server::cluster::space::wal_space_bytes(
        bytes.unwrap_or(server::settings::defaults::MAX_WAL_SIZE_BYTES),
    ))
}

/// Memory of a case's server, without the kernel's page cache.
fn memory_of(case: &Case, memory_bytes: u64) -> u64 {
    shared_buffers_of(case, memory_bytes) + clients_bytes(case)
}

/// Memory of the connections of a case.
fn clients_bytes(case: &Case) -> u64 {
    u64::from(reads::n_connections(case)) * CLIENT_BYTES
}

/// Why the server of a case, if it is ours, does not fit into memory. Shared buffers that are too large by themselves
/// are reported with the settings.
pub(crate) fn beyond_memory(case: &Case, memory_bytes: u64) -> Option<String> {
    let shared = shared_buffers_of(case, memory_bytes);
    let needed = shared + u64::from(reads::n_connections(case)) * CLIENT_BYTES_LEAST;
    if !case.server.source.is_embedded() || shared > memory_bytes || needed <= memory_bytes {
        return None;
    }
    Some(format!(
        "{} clients with at least {} each, and shared buffers of {}, need {} of memory, but the machine has {}; \
         lower workload.clients or server.settings.shared_buffers",
        case.workload.n_clients,
        bytes(CLIENT_BYTES_LEAST as f64),
        bytes(shared as f64),
        bytes(needed as f64),
        bytes(memory_bytes as f64)
    ))
}

/// Shared buffers of a case's server.
pub(super) fn shared_buffers_of(case: &Case, memory_bytes: u64) -> u64 {
    let default = (memory_bytes as f64 * server::settings::defaults::SHARED_BUFFERS_SHARE) as u64;
    let chosen = setting::find(&case.server.settings, "shared_buffers");
    let resolved = chosen
        .and_then(|(name, value)| server::settings::resolve_setting(name, value, memory_bytes).ok())
        .and_then(|value| model::text::units::size_bytes(&value, 8 << 10));
    resolved.unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use model::experiment::case::ServerSource;
    use model::experiment::target::TargetSpec;
    use model::experiment::target::lane::Lane;

    use super::*;
    use crate::plan::sample;

    const MEMORY: u64 = 24 << 30;

    /// The outlook where nothing is present.
    fn outlook(plan: &Plan, speed: f64) -> Outlook {
        let present = Present::default();
        Outlook::on(
            plan,
            PlannedMachine { memory_bytes: MEMORY, speed: MachineSpeed::new(speed), present: &present },
        )
    }

    #[test]
    fn servers_are_started_when_a_factor_or_the_data_demands_it() {
        let check = |text: &str, (n_starts, n_for_data, n_stages): (usize, usize, usize)| {
            let outlook = outlook(&sample::plan(&format!("repeats = 3\n{text}")), 1.0);
            assert_eq!(
                (outlook.n_starts, outlook.n_starts_for_data, outlook.n_stages),
                (n_starts, n_for_data, n_stages),
                "{text}"
            );
        };
        let as_it_is = "[prepare]\nrestore = false\n";
        check("[workload]\nclients = [1, 2]\nscale = 1\n", (6, 5, 1));
        check(&format!("[workload]\nclients = [1, 2]\nscale = 1\n{as_it_is}"), (1, 0, 1));
        check(
            &format!(
                "order = \"sequential\"\n[server]\nversion = [\"12\", \"18\"]\n[workload]\nscale = 1\n{as_it_is}"
            ),
            (2, 0, 2),
        );
        check(
            "[server]\nsettings.jit = [\"on\", \"off\"]\n[workload]\nscale = [1, 2]\n",
            (12, starts_for_data(), 2),
        );
    }

    /// Starts for data; they depend on the random order of the blocks.
    fn starts_for_data() -> usize {
        let plan = sample::plan("[server]\nsettings.jit = [\"on\", \"off\"]\n[workload]\nscale = [1, 2]\n");
        plan.runs.windows(2).filter(|pair| pair[0].case == pair[1].case).count()
    }

    #[test]
    fn data_that_is_measured_as_it_is_takes_no_time_to_load_and_no_disk() {
        let mut plan = sample::plan("[workload]\nscale = 100\n[prepare]\nrestore = false\n");
        let of_own = outlook(&plan, 1.0);
        assert!(of_own.loading_s > 20.0 && of_own.url_bytes == 0, "{of_own:?}");
        plan.cases.iter_mut().for_each(|case| case.server.source = ServerSource::Url(Default::default()));
        let as_it_is = outlook(&plan, 1.0);
        assert_eq!((as_it_is.all_loading_s(), as_it_is.url_bytes), (0.0, 0));
        assert!(!as_it_is.words().contains("to load data"), "{}", as_it_is.words());
        plan.cases.iter_mut().for_each(|case| case.prepare.restore = true);
        let loaded = outlook(&plan, 1.0);
        assert!(loaded.url_loading_s > 20.0 && loaded.url_bytes > 0, "{loaded:?}");
        assert_eq!(loaded.loading_s, 0.0);
        let words = loaded.words();
        assert!(words.contains("to load data into servers by URL, unless they have it unchanged"), "{words}");
    }

    #[test]
    fn lanes_side_by_side_take_as_long_as_the_longest() {
        let mut plan = sample::plan(
            "repeats = 3\n[workload]\nscale = 1\nclients = [1, 2, 3]\n[run]\nramp_up = \"1s\"\nmeasure = \"9s\"\n",
        );
        for (case, name) in plan.cases.iter_mut().zip(["a", "b", "a"]) {
            case.server.source = ServerSource::Url(Default::default());
            case.server.target = Some(TargetSpec { name: name.to_string(), ..TargetSpec::default() });
        }
        let lane = |name: &str| Lane { targets: vec![name.to_string()], ..Lane::default() };
        let one_s = 10.0 + AROUND_LOAD_S;
        assert_eq!(outlook(&plan, 1.0).runs_s, 9.0 * one_s);
        plan.lanes = vec![lane("b"), lane("a")];
        assert_eq!(outlook(&plan, 1.0).runs_s, 6.0 * one_s, "two cases, three times");
        plan.lanes = vec![Lane { targets: vec!["a".to_string(), "b".to_string()], ..Lane::default() }];
        assert_eq!(outlook(&plan, 1.0).runs_s, 9.0 * one_s, "all on one host");
    }

    #[test]
    fn a_profile_takes_one_more_run_of_its_case() {
        let of = |text: &str| outlook(&sample::plan(text), 1.0);
        let load = "[workload]\nscale = 1\nclients = [1, 2]\n[run]\nramp_up = \"1s\"\nmeasure = \"9s\"\n";
        let (without, with) = (of(load), of(&format!("{load}perf = true\n")));
        let one_s = 10.0 + AROUND_LOAD_S + START_S;
        assert_eq!((without.profiles_s, with.profiles_s, with.runs_s), (0.0, 2.0 * one_s, without.runs_s));
        assert!((with.planned_s() - without.planned_s() - 2.0 * one_s).abs() < 1e-6);
        let mut plan = sample::plan(&format!("{load}perf = true\n"));
        plan.runs.retain(|run| run.case == 1);
        assert_eq!(outlook(&plan, 1.0).profiles_s, one_s, "a case without runs has no profile");
    }

    #[test]
    fn the_estimate_says_what_it_contains() {
        let of = |text: &str, speed: f64| outlook(&sample::plan(text), speed).words();
        let load = "repeats = 1\n[workload]\nscale = 1\nclients = [1, 2]\n[run]\nramp_up = \"1s\"\nmeasure = \"9s\"\n";
        assert_eq!(
            of(load, 1.0),
            "about 38 s: 6 s to load data that is missing, 32 s for runs with ramp-up and restores; up to 32 s more if runs are \
             disturbed and repeated"
        );
        assert_eq!(
            of(&format!("{load}perf = true\nrepeat_disturbed = 0\n"), 0.5),
            "about 2 min 12 s: 13 s to load data that is missing, 44 s for runs with ramp-up and restores, 44 s for profiles"
                .replace("2 min 12 s", "101 s")
        );
    }

    #[test]
    fn repeats_take_a_quarter_more_at_most() {
        let of = |text: &str| outlook(&sample::plan(text), 1.0).repeats_s;
        let load = "[workload]\nscale = 1\nclients = [1, 2]\n[run]\nramp_up = \"1s\"\nmeasure = \"9s\"\n";
        let of_run_s = 10.0 + AROUND_LOAD_S + START_S;
        assert_eq!(of(load), 2.0 * of_run_s, "six runs: as many as one run may have");
        assert_eq!(of(&format!("repeats = 8\n{load}")), 4.0 * of_run_s);
        assert_eq!(of(&format!("{load}repeat_disturbed = 0\n")), 0.0);
    }

    #[test]
    fn memory_and_space_follow_the_settings() {
        let of = |text: &str| outlook(&sample::plan(text), 1.0);
        assert_eq!(of("[workload]\nclients = 100\n").memory_bytes, Some((6 << 30) + 100 * CLIENT_BYTES));
        let small = of(
            "[server]\nsettings.shared_buffers = \"1GB\"\nsettings.max_wal_size = \"2GB\"\n[workload]\nscale = 10",
        );
        assert_eq!(small.memory_bytes, Some((1 << 30) + CLIENT_BYTES));
        assert_eq!(small.wal_bytes, (2 << 30) + (512 << 20));
        assert_eq!(small.url_bytes, 0);
    }

    #[test]
    fn clients_that_need_more_than_memory_are_reported() {
        let told = |text: &str| beyond_memory(&sample::case(text), MEMORY);
        assert_eq!(
            told("[workload]\nclients = 100000\n").unwrap(),
            "100000 clients with at least 2.00 MiB each, and shared buffers of 6.00 GiB, need 201 GiB of memory, \
             but the machine has 24.0 GiB; lower workload.clients or server.settings.shared_buffers"
        );
        // Shared buffers leave 18 of 24 GB.
        let most = (18 << 30) / CLIENT_BYTES_LEAST;
        assert_eq!(told(&format!("[workload]\nclients = {most}\n")), None);
        assert!(told(&format!("[workload]\nclients = {}\n", most + 1)).is_some());
        let huge = "[server]\nsettings.shared_buffers = \"900TB\"\n[workload]\nclients = 1\n";
        assert_eq!(told(huge), None, "reported with the settings");
        let mut elsewhere = sample::case("[workload]\nclients = 100000\n");
        elsewhere.server.source = model::experiment::case::ServerSource::Url(Default::default());
        assert_eq!(beyond_memory(&elsewhere, MEMORY), None);
    }

    #[test]
    fn long_plans_ask_for_consent() {
        let asks = |text: &str| outlook(&sample::plan(text), 1.0).asks_consent();
        assert_eq!(asks("repeats = 100\n"), None);
        assert_eq!(asks("repeats = 101\n").unwrap(), "This would make 101 runs, more than 100");
        assert!(asks("repeats = 100\n[run]\nmeasure = \"20min\"\n").unwrap().contains("This would take 1."));
    }
}
