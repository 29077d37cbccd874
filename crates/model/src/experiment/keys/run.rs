//! `[run]`: durations of the phases, and what is seen of them.

use serde::{Deserialize, Serialize};

use super::option::KeyOption;
use super::row::{Differs, KeyKind, row};
use super::section;
use crate::experiment::keys::levels::Levels;
use crate::experiment::os::WalPolicy;
use crate::load::course::RampUp;
use crate::text::share::Share;
use crate::text::units::Span;

section! {
    /// `[run]`: durations of the phases, and what is seen of them.
    #[serde(deny_unknown_fields, default)]
    run: RunSection {
        /// length of the load that does not count; `auto` ends it when the load is steady
        /// ([METHODOLOGY](METHODOLOGY.md#statistics-and-their-sources)), but not in a search for the highest rate
        RAMP_UP = ramp_up: Levels<RampUp> = Levels::one(RampUp::For(Span::from_s(10))),
            row(KeyKind::Or(&[KeyKind::Words(&["auto"]), KeyKind::Seconds(0)]), "`10s`")
                .given_by(KeyOption::quantity("ramp-up", "TIME", "Load before the measurement window, which does not count"));

        /// upper limit of an `auto` ramp-up, at least `20s`
        #[serde(skip_serializing_if = "Option::is_none")]
        RAMP_UP_MAX = ramp_up_max: Option<Span>,
            row(KeyKind::Seconds(RAMP_UP_AUTO_S_MIN), "`2min`, or `run.measure` if that is longer");

        /// length of the measurement window, at least `2s`; in a search for the highest rate, at least `26s`
        MEASURE = measure: Levels<Span> = Levels::one(Span::from_s(60)),
            row(KeyKind::Seconds(2), "`60s`")
                .given_by(KeyOption::quantity("measure", "TIME", "Length of the measurement window of each run: 30s, 5min; at least 2s; 26s in a search for a rate").both("Length of the measurement window, per run or round of a duet; at least 2s; 26s in a search for a rate"));

        /// by how much the measurement window may grow while the load is not steady; not with `run.wal`, `workload.transactions` or a
        /// search
        #[serde(skip_serializing_if = "is_zero")]
        EXTEND = extend: Span = Span::from_s(0),
            row(KeyKind::Seconds(0), "`0s`");

        /// time that transactions in flight get to finish at the end
        GRACE = grace: Levels<Span> = Levels::one(Span::from_s(10)),
            row(KeyKind::Seconds(0), "`10s`");

        /// time limit of the set-up and of each phase before and after the load; then the run ends with an error that says what it was
        /// waiting for ([METHODOLOGY](METHODOLOGY.md#the-phases-of-a-run))
        #[serde(skip_serializing_if = "Option::is_none")]
        PHASE_TIMEOUT = phase_timeout: Option<Span>,
            row(KeyKind::Seconds(1), "`1h` plus a minute per GiB of data");

        /// how often a run is repeated if something else on the machine disturbed it, 0 to 10, and if that is expected to lower the
        /// uncertainty by more than another run would. In total, at most a quarter of the planned runs, but at least as many as one run may
        /// need ([METHODOLOGY](METHODOLOGY.md#runs-blocks-cases))
        REPEAT_DISTURBED = repeat_disturbed: u32 = 2,
            // More repeats of one run only prove that the machine is unsuitable.
            row(KeyKind::Whole(0, 10), "2");

        /// share of transactions that may fail, above 0 and up to `100%`: above it the run is doubtful, above ten times that it is void.
        /// New-Orders that TPC-C rolls back are no failures
        #[serde(skip_serializing_if = "Option::is_none")]
        MAX_FAILED = max_failed: Option<Share>,
            row(KeyKind::Or(&[KeyKind::Text, KeyKind::Number]), "`1%`").carried(Differs::Nothing);

        /// how far off a figure may be: above it the report marks the figure, above four times that it calls it rough
        /// ([METHODOLOGY](METHODOLOGY.md#how-far-off-a-number-can-be))
        #[serde(skip_serializing_if = "Option::is_none")]
        PRECISION = precision: Option<Share>,
            row(KeyKind::Or(&[KeyKind::Text, KeyKind::Number]), "`5%`")
                .carried(Differs::Nothing)
                .given_by(KeyOption::share("precision", "How far off a figure may be: 5%, 5, or 0.05; beyond four times that it is called rough").not_of_both());

        /// which checkpoints a run contains: `as-is`, `no-checkpoint`, `two-checkpoints` (see *Checkpoints*)
        WAL = wal: Levels<WalPolicy> = Levels::one(WalPolicy::AsIs),
            row(KeyKind::Words(&WalPolicy::WORDS), "`as-is`");

        /// observe host and server while the load runs; without it (`is_unobserved` of a case in `plan.json`), limiter and findings about
        /// them are unknown, and `run.wal` must be `as-is`
        TELEMETRY = telemetry: Levels<bool> = Levels::one(true),
            row(KeyKind::Flag, "`true`").whole();

        /// count instructions, cycles, cache misses, page faults, context switches and more of the server's processes, where kernel and
        /// processors can; needs the server on this machine or eyes on its host
        /// ([METHODOLOGY](METHODOLOGY.md#counters-of-processor-and-kernel))
        #[serde(skip_serializing_if = "Levels::are_off")]
        COUNTERS = counters: Levels<bool> = Levels::one(false),
            row(KeyKind::Flag, "`false`").carried(Differs::Nothing).whole();

        /// `true`, or `--perf`: after all runs, one more of each case (of a duet, of each side alone), which does not count, and whose
        /// server processes on this machine `perf` samples: functions and their callers, for at most 30 s of the measurement window
        /// ([METHODOLOGY](METHODOLOGY.md#where-the-processor-time-went))
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        PERF = perf: bool,
            row(KeyKind::Flag, "`false`")
                .carried(Differs::Nothing)
                .given_by(KeyOption::switch("perf", true, "Record where the server spends its processor time, in an extra run of each case that does not count; needs perf").both("Record where the servers spend their processor time, in an extra run of each side, as for `run`"));

        /// before the first run, measure the ceilings of the devices of data and WAL, processors, memory and the way to a server by URL,
        /// unless known and at most 30 days old ([METHODOLOGY](METHODOLOGY.md#ceilings))
        CALIBRATE = calibrate: bool,
            row(KeyKind::Flag, "`false`")
                .carried(Differs::Nothing)
                .given_by(KeyOption::switch("calibrate", true, "Measure what devices, processors and network give at most before the first run, unless that is known").both("Measure ceilings that are not known before the first run, as for `run`"));

        /// `1`: one embedded server at a time has its data on disk, and its runs come before those of the next, which is reported as a
        /// finding
        #[serde(skip_serializing_if = "Option::is_none")]
        SERVERS_AT_A_TIME = servers_at_a_time: Option<u32>,
            row(KeyKind::Whole(1, 1), "all at once");

        /// `true`: targets on different hosts are measured side by side, those on one host one after the other (see *Targets*); not with
        /// `[hooks]`, settings of servers by URL or `pgdyno compare`
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        PARALLEL_TARGETS = parallel_targets: bool,
            row(KeyKind::Flag, "`false`");
    }
}

impl RunSection {
    /// The longest ramp-up before a measurement window of this length.
    pub fn ramp_up_longest(&self, ramp_up: RampUp, measure: Span) -> Span {
        match ramp_up {
            RampUp::For(span) => span,
            RampUp::Auto => self.ramp_up_max.unwrap_or(AUTO_AT_MOST.max(measure)),
        }
    }
}

/// Fewest seconds in which a steady load can be detected.
pub const RAMP_UP_AUTO_S_MIN: u32 = 20;

/// How long `auto` waits for a steady load by default: longer than most caches take to fill, short enough to wait in
/// every run.
const AUTO_AT_MOST: Span = Span::from_s(120);

fn is_zero(span: &Span) -> bool {
    span.ms == 0
}
