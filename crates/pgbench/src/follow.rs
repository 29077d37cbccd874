//! Follows a driver: adds up its intervals, prints progress, and reports its events in pgbench's words.

use anyhow::Result;
use model::load::drive::DriverLine;
use model::load::interval::{HistogramLine, Interval};
use model::telemetry::event::{Event, EventKind};

use crate::command_line::options::BenchPlan;
use crate::messages::{MessageKind, MessageLog};
use crate::output::progress::Stretch;
use crate::output::totals::{Sums, Totals};
use crate::scripts::script_tag;

/// Length of every interval but the last.
const SECOND_NS: u64 = 1_000_000_000;

/// Follows one driver.
pub(crate) struct Follower<'a> {
    plan: &'a BenchPlan,
    log: &'a mut MessageLog,
    /// Prints what a script's shell command prints.
    print: fn(&str) -> Result<()>,
    ramp_up_s: u32,
    begin_unix_ns: u64,
    followed: Followed,
    stretch: Open,
    stall: Stall,
    /// Whether intervals of the current second have arrived, script by script.
    has_second: bool,
}

/// The results of a load.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    pub(crate) totals: Totals,
    /// The first client that ended early.
    pub(crate) aborted_client: Option<u32>,
}

/// Counts that no progress line has printed yet.
#[derive(Debug, Default)]
struct Open {
    sums: Sums,
    length_ns: u64,
    end_unix_ns: u64,
}

/// Detects that transactions are running and none ends.
#[derive(Debug, Default)]
struct Stall {
    /// Transactions begun and not ended.
    in_flight: i64,
    ended_now: u64,
    seconds: u32,
}

impl Follower<'_> {
    /// A follower of a load whose measurement begins at `begin_unix_ns`.
    pub(crate) fn new<'a>(
        plan: &'a BenchPlan,
        log: &'a mut MessageLog,
        print: fn(&str) -> Result<()>,
        ramp_up_s: u32,
        begin_unix_ns: u64,
    ) -> Follower<'a> {
        let followed = Followed { totals: Totals::new(plan.scripts.len()), ..Followed::default() };
        Follower {
            plan,
            log,
            print,
            ramp_up_s,
            begin_unix_ns,
            followed,
            stretch: Open::default(),
            stall: Stall::default(),
            has_second: false,
        }
    }

    /// Takes one line of the driver.
    pub(crate) fn take(&mut self, line: &DriverLine) -> Result<()> {
        match line {
            DriverLine::Interval { interval, histograms } => self.interval(interval, histograms),
            DriverLine::Event(event) => self.event(event)?,
            // The driver's own, behind the intervals of its second.
            DriverLine::Tick(_) => self.end_second(),
            DriverLine::Hello(_)
            | DriverLine::Pong(_)
            | DriverLine::Window(_)
            | DriverLine::Execution(_)
            | DriverLine::Ready(_)
            | DriverLine::Done(_)
            | DriverLine::Watching(_)
            | DriverLine::Missing { .. }
            | DriverLine::Watched(_)
            | DriverLine::Hands(_)
            | DriverLine::Pages(_)
            | DriverLine::Failed { .. } => {}
        }
        Ok(())
    }

    /// Ends the last second.
    pub(crate) fn finish(&mut self) {
        self.end_second();
        if self.plan.added.progress_last && self.stretch.length_ns > 0 {
            self.progress();
        }
    }

    pub(crate) fn close(self) -> Followed {
        self.followed
    }

    fn interval(&mut self, interval: &Interval, histograms: &[HistogramLine]) {
        self.has_second = true;
        self.stall.in_flight += interval.counts.started as i64 - interval.counts.ended() as i64;
        self.stall.ended_now += interval.counts.ended();
        // Histograms of the ramp-up do not count either.
        if interval.t < self.ramp_up_s {
            return;
        }
        self.followed.totals.add(interval, self.plan.added.continue_on_error);
        if self.plan.added.percentiles || self.plan.added.json.is_some() {
            let script = interval.script as usize;
            self.followed.totals.add_histograms(script, &script_tag(script), histograms);
        }
        if self.plan.progress_s > 0 {
            self.stretch.sums.add(interval, self.plan.added.continue_on_error);
            // Each script reports the same second.
            if interval.script == 0 {
                self.stretch.length_ns += interval.length_ns;
                self.stretch.end_unix_ns = interval.start_unix_ns + interval.length_ns;
            }
        }
    }

    /// Closes a second after all scripts have reported it.
    fn end_second(&mut self) {
        if !std::mem::take(&mut self.has_second) {
            return;
        }
        self.warn_of_stall();
        if self.plan.progress_s > 0 && self.stretch.length_ns >= u64::from(self.plan.progress_s) * SECOND_NS {
            self.progress();
        }
    }

    fn progress(&mut self) {
        let Open { sums, length_ns, end_unix_ns } = std::mem::take(&mut self.stretch);
        let since_begin_ns = end_unix_ns.saturating_sub(self.begin_unix_ns);
        let stretch = Stretch { sums: &sums, length_ns, since_begin_ns, end_unix_ns };
        self.log.write(&stretch.line(self.plan));
    }

    fn warn_of_stall(&mut self) {
        let Some(limit_s) = self.plan.added.stall_warning_s else { return };
        let ended = std::mem::take(&mut self.stall.ended_now);
        if ended > 0 || self.stall.in_flight <= 0 {
            if self.stall.seconds >= limit_s {
                let message = format!("transactions end again after {} s without any", self.stall.seconds);
                self.log.say(MessageKind::Warning, &message);
            }
            self.stall.seconds = 0;
            return;
        }
        self.stall.seconds += 1;
        if self.stall.seconds == limit_s {
            let n = self.stall.in_flight;
            let message = format!("no transaction has ended for {limit_s} s, {n} are in flight");
            self.log.say(MessageKind::Warning, &message);
        }
    }

    fn event(&mut self, event: &Event) -> Result<()> {
        match event.kind {
            EventKind::ClientAborted => {
                let client = event.detail.get("client").and_then(|client| client.parse().ok());
                self.followed.aborted_client = self.followed.aborted_client.or(client);
                if let Some(cause) = event.detail.get("cause") {
                    self.log.error(cause);
                }
                self.log.error(&event.text);
            }
            EventKind::StatementRefused => self.log.error(&event.text),
            EventKind::ErrorReported | EventKind::ErrorRetried | EventKind::ErrorFailed => {
                self.log.say(MessageKind::Info, &event.text);
            }
            EventKind::ScriptTrace => self.log.debug(&event.text),
            EventKind::ServerNotice => self.log.write(&format!("{}\n", event.text)),
            EventKind::ScriptDebug => self.log.write(&format!("{}\n", event.text)),
            EventKind::ShellOutput => (self.print)(&event.text)?,
            EventKind::ConnectionLost => {
                let client = event.detail.get("client").map_or("", String::as_str);
                self.say_of_connection(&format!("client {client} lost its connection: {}", event.text));
            }
            EventKind::ConnectionRestored => self.say_of_connection(&event.text),
            _ => {}
        }
        Ok(())
    }

    /// Prints a message about a connection if connections may come and go, for which pgbench has no message.
    fn say_of_connection(&mut self, text: &str) {
        if self.plan.added.on_disconnect == model::load::OnDisconnect::Reconnect {
            self.log.say(MessageKind::Warning, text);
        }
    }
}
