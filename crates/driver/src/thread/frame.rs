//! The measurement window of a load as all its threads see it. The parent may move it while the load runs.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use model::load::Window;

use crate::clock::{Nanos, SECOND_NS};

/// A moment that is nearer than this must not be moved, and nothing may be moved there: a thread may see a change as late
/// as the longest wait of its loop, so twice that is allowed for.
const NEAR_NS: Nanos = 200_000_000;

/// Beginning and end of the measurement window.
#[derive(Debug)]
pub(crate) struct WindowFrame {
    go: Nanos,
    n_changes: AtomicU32,
    from: AtomicU64,
    end: AtomicU64,
}

/// What a thread knows of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameView {
    n_changes: u32,
    /// The measurement window begins.
    pub(crate) from: Nanos,
    /// The window ends, and no transaction begins any more.
    pub(crate) end: Nanos,
}

impl WindowFrame {
    pub(crate) fn new(window: Window, go: Nanos) -> WindowFrame {
        let (from, end) = span(window, go);
        WindowFrame { go, n_changes: AtomicU32::new(0), from: from.into(), end: end.into() }
    }

    pub(crate) fn seen(&self) -> FrameView {
        let n_changes = self.n_changes.load(Ordering::Acquire);
        let (from, end) = (self.from.load(Ordering::Relaxed), self.end.load(Ordering::Relaxed));
        FrameView { n_changes, from, end }
    }

    /// The frame, if it was moved after `seen`.
    #[inline]
    pub(crate) fn moved(&self, seen: FrameView) -> Option<FrameView> {
        (self.n_changes.load(Ordering::Acquire) != seen.n_changes).then(|| self.seen())
    }

    /// Moves the frame to another window; `false` if a moment that would move has passed, or would lie in the past.
    pub(crate) fn change(&self, window: Window, now: Nanos) -> bool {
        let FrameView { from, end, .. } = self.seen();
        let (new_from, new_end) = span(window, self.go);
        let may_move = |old: Nanos, new: Nanos| old == new || old.min(new) > now + NEAR_NS;
        if !may_move(from, new_from) || !may_move(end, new_end) {
            return false;
        }
        // A thread that reads between these lines reads again, because the number comes last.
        self.from.store(new_from, Ordering::Relaxed);
        self.end.store(new_end, Ordering::Relaxed);
        self.n_changes.fetch_add(1, Ordering::Release);
        true
    }
}

fn span(window: Window, go: Nanos) -> (Nanos, Nanos) {
    let second = |s: u32| go + u64::from(s) * SECOND_NS;
    // Without a limit: far enough to be never, near enough to be added to.
    let end = if window.measure_s == 0 { u64::MAX / 2 } else { second(window.load_s()) };
    (second(window.ramp_up_s), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GO: Nanos = 5 * SECOND_NS;

    fn window(ramp_up_s: u32, measure_s: u32) -> Window {
        Window { ramp_up_s, measure_s, grace_s: 1 }
    }

    #[test]
    fn a_moment_ahead_can_be_moved_and_the_change_is_seen_once() {
        let frame = WindowFrame::new(window(60, 30), GO);
        let seen = frame.seen();
        assert_eq!((seen.from, seen.end), (GO + 60 * SECOND_NS, GO + 90 * SECOND_NS));
        assert_eq!(frame.moved(seen), None);
        assert!(frame.change(window(20, 30), GO + 18 * SECOND_NS));
        let moved = frame.moved(seen).unwrap();
        assert_eq!((moved.from, moved.end), (GO + 20 * SECOND_NS, GO + 50 * SECOND_NS));
        assert_eq!(frame.moved(moved), None);
        // The end alone, while the measure is under way.
        assert!(frame.change(window(20, 60), GO + 49 * SECOND_NS));
        assert_eq!(frame.seen().end, GO + 80 * SECOND_NS);
    }

    #[test]
    fn a_moment_that_has_passed_or_is_too_near_stays() {
        let frame = WindowFrame::new(window(20, 30), GO);
        let at = |s: f64| GO + (s * SECOND_NS as f64) as u64;
        let check = |window, now_s: f64| assert!(!frame.change(window, at(now_s)), "{window:?} at {now_s}");
        check(window(25, 30), 19.9);
        check(window(10, 30), 9.9);
        check(window(10, 40), 12.0);
        check(window(20, 60), 49.9);
        check(window(20, 15), 34.9);
        assert_eq!((frame.seen().from, frame.seen().end), (at(20.0), at(50.0)));
    }

    #[test]
    fn a_load_without_a_time_has_no_end() {
        assert_eq!(WindowFrame::new(window(0, 0), GO).seen().end, u64::MAX / 2);
    }
}
