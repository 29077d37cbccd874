//! Decides second by second, while a load runs, where the ramp-up ends and how long the measurement is.
//!
//! Pure: the driver's counts come in, the desired window goes out. Only the driver reports which window is in force;
//! one that came too late for it is requested again a second later.

use model::load::Window;
use model::load::course::{Adapt, LoadCourse, RampUpEnd};
use model::load::interval::{Interval, Moments};
use stats::WarmUpRule;

/// Whole seconds between the last judged one and the first measured one: by then, the request has to have reached every
/// thread of the driver.
const LEAD_S: u32 = 1;
/// Fraction of the measurement by which it grows.
const STEPS: u32 = 4;
/// Minimum growth, seconds: less would not change a verdict.
const STEP_S_MIN: u32 = 5;
/// In an open loop, throughput equals the offered rate. There the mean latency is judged, which varies more.
const LATENCY_FLOOR: f64 = 0.1;

/// Judges a load while it runs.
#[derive(Debug)]
pub(crate) struct Judge {
    adapt: Adapt,
    planned: Window,
    /// The window that the driver reports.
    window: Window,
    is_open: bool,
    /// Counts of the second in progress.
    current: Second,
    /// Committed transactions per second, one value per second.
    tps: Vec<f64>,
    /// Mean latency of each second.
    latency_ns: Vec<f64>,
    is_warm: bool,
}

/// One second of all scripts together.
#[derive(Debug, Default)]
struct Second {
    committed: u64,
    length_ns: u64,
    latency: Moments,
}

impl Judge {
    pub(crate) fn new(adapt: Adapt, planned: Window, is_open: bool) -> Judge {
        Judge {
            adapt,
            planned,
            window: planned,
            is_open,
            current: Second::default(),
            tps: Vec::new(),
            latency_ns: Vec::new(),
            is_warm: false,
        }
    }

    /// The window in force.
    pub(crate) fn window(&self) -> Window {
        self.window
    }

    /// Adds the counts of one script to the second in progress.
    pub(crate) fn interval(&mut self, interval: &Interval) {
        self.current.committed += interval.counts.committed;
        self.current.length_ns = self.current.length_ns.max(interval.length_ns);
        self.current.latency += interval.latency;
    }

    /// The driver has accepted this window.
    pub(crate) fn has(&mut self, window: Window) {
        self.window = window;
    }

    /// Second `t` is over. Returns the window that the driver should have from now on, if it changes.
    pub(crate) fn second(&mut self, t: u32) -> Option<Window> {
        let second = std::mem::take(&mut self.current);
        let per_s = |n: f64| if second.length_ns > 0 { n * 1e9 / second.length_ns as f64 } else { 0.0 };
        self.tps.push(per_s(second.committed as f64));
        self.latency_ns.push(second.latency.mean());
        if t + 1 < self.window.ramp_up_s { self.end_of_ramp_up(t) } else { self.end_of_measure(t) }
    }

    fn end_of_ramp_up(&mut self, t: u32) -> Option<Window> {
        if !self.adapt.ramp_up || !(self.is_warm || self.is_settled()) {
            return None;
        }
        // Decided only once, even if the driver got the request too late.
        self.is_warm = true;
        let begin_s = t + 1 + LEAD_S;
        (begin_s < self.window.ramp_up_s).then_some(Window { ramp_up_s: begin_s, ..self.window })
    }

    fn is_settled(&self) -> bool {
        let usual = WarmUpRule::default();
        if self.is_open {
            stats::is_warm(&self.latency_ns, &WarmUpRule { floor: LATENCY_FLOOR, ..usual })
        } else {
            stats::is_warm(&self.tps, &usual)
        }
    }

    /// Decided a second before the end, so that the driver never stops in between.
    fn end_of_measure(&mut self, t: u32) -> Option<Window> {
        let left_s = self.adapt.extend_s.saturating_sub(self.extended_s());
        if left_s == 0 || t + 1 + LEAD_S != self.window.load_s() {
            return None;
        }
        let measured = self.tps.get(self.window.ramp_up_s as usize..)?;
        stats::steadiness(measured).filter(|found| !found.steady)?;
        let step_s = (self.planned.measure_s / STEPS).max(STEP_S_MIN).min(left_s);
        Some(Window { measure_s: self.window.measure_s + step_s, ..self.window })
    }

    fn extended_s(&self) -> u32 {
        self.window.measure_s - self.planned.measure_s
    }

    /// The window's history, for the record.
    pub(crate) fn course(&self) -> Option<LoadCourse> {
        if self.adapt.is_none() {
            return None;
        }
        let began = self.tps.len() > self.window.ramp_up_s as usize;
        let end = if self.is_warm { RampUpEnd::Steady } else { RampUpEnd::Bound };
        Some(LoadCourse {
            window: self.window,
            ramp_up_end: (self.adapt.ramp_up && began).then_some(end),
            extended_s: self.extended_s(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::load::interval::Counts;

    const WINDOW: Window = Window { ramp_up_s: 60, measure_s: 20, grace_s: 1 };
    const AUTO: Adapt = Adapt { ramp_up: true, extend_s: 0 };

    /// Simulates second after second of `tps`; the driver accepts each requested window after `delay` seconds.
    fn played(judge: &mut Judge, tps: impl Fn(u32) -> u64, delay: u32) -> Vec<(u32, Window)> {
        let mut asked = Vec::new();
        let mut t = 0;
        while t < judge.window().load_s() {
            let counts = Counts { committed: tps(t), ..Counts::default() };
            // Two scripts, whose transactions are added up.
            for part in [Counts { committed: counts.committed / 4, ..counts }, counts] {
                judge.interval(&Interval {
                    t,
                    length_ns: 1_000_000_000,
                    counts: part,
                    ..Interval::default()
                });
            }
            asked.extend(judge.second(t).map(|window| (t, window)));
            if let Some((at, window)) = asked.last().copied()
                && at + delay == t
            {
                judge.has(window);
            }
            t += 1;
        }
        asked
    }

    #[test]
    fn a_steady_load_is_measured_from_the_second_after_next() {
        let mut judge = Judge::new(AUTO, WINDOW, false);
        let asked = played(&mut judge, |t| 1000 + u64::from(t % 3), 0);
        // Fourteen seconds are the minimum, and one is left for the driver to get the request.
        assert_eq!(asked, [(13, Window { ramp_up_s: 15, ..WINDOW })]);
        let course = judge.course().unwrap();
        assert_eq!((course.window.ramp_up_s, course.ramp_up_end), (15, Some(RampUpEnd::Steady)));
        assert_eq!(judge.tps.len(), 35);
    }

    #[test]
    fn a_driver_that_was_asked_too_late_is_asked_again() {
        let mut judge = Judge::new(AUTO, WINDOW, false);
        let asked = played(&mut judge, |_| 1000, 100);
        assert_eq!(asked[..2].iter().map(|(_, window)| window.ramp_up_s).collect::<Vec<_>>(), [15, 16]);
        // The driver never accepted one: it has the maximum.
        let course = judge.course().unwrap();
        assert_eq!((course.window, course.ramp_up_end), (WINDOW, Some(RampUpEnd::Steady)));
    }

    #[test]
    fn a_load_that_keeps_growing_reaches_the_bound() {
        let mut judge = Judge::new(AUTO, WINDOW, false);
        assert_eq!(played(&mut judge, |t| 1000 + 100 * u64::from(t), 0), []);
        assert_eq!(judge.course().unwrap().ramp_up_end, Some(RampUpEnd::Bound));
    }

    #[test]
    fn an_open_loop_is_judged_by_its_latency() {
        let mut judge = Judge::new(AUTO, WINDOW, true);
        for t in 0..30 {
            let mut interval = Interval { t, length_ns: 1_000_000_000, ..Interval::default() };
            interval.counts.committed = 1000;
            interval.latency.record(1_000_000 * u64::from(30 - t));
            judge.interval(&interval);
            assert_eq!(judge.second(t), None, "the throughput is steady, but latency still falls");
        }
    }

    #[test]
    fn a_measure_grows_while_it_is_unsteady_and_no_further_than_allowed() {
        let fixed = Window { ramp_up_s: 2, ..WINDOW };
        let adapt = Adapt { ramp_up: false, extend_s: 12 };
        let mut judge = Judge::new(adapt, fixed, false);
        let asked = played(&mut judge, |t| 1000 + 50 * u64::from(t), 0);
        let grown: Vec<(u32, u32)> = asked.iter().map(|(t, window)| (*t, window.measure_s)).collect();
        assert_eq!(grown, [(20, 25), (25, 30), (30, 32)]);
        assert_eq!(judge.course().unwrap().extended_s, 12);
        let mut steady = Judge::new(adapt, fixed, false);
        assert_eq!(played(&mut steady, |t| 1000 + u64::from(t % 3), 0), []);
        assert_eq!(steady.course(), Some(LoadCourse { window: fixed, ramp_up_end: None, extended_s: 0 }));
    }

    #[test]
    fn a_given_window_is_kept_without_a_message() {
        let mut judge = Judge::new(Adapt::default(), WINDOW, false);
        assert_eq!(played(&mut judge, |_| 1000, 0), []);
        assert_eq!(judge.course(), None);
    }
}
