//! How much a brake leaves of a resource.

/// The part that a brake leaves of a resource.
const LEFT: f64 = 0.8;
/// Used share of a resource from which on a brake takes from what was used: below, that would cost throughput of any load.
pub(super) const NOTHING_LEFT: f64 = 0.9;

/// A resource of which a brake leaves a part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lowered {
    pub(super) limit: f64,
    /// Throughput that remains if it follows what there is of the resource.
    pub(super) predicted: f64,
    /// Whether nothing was left: then the limit is a part of what was used, else of what could have been.
    was_all_used: bool,
}

impl Lowered {
    /// A fifth less than there was, of which `share` was used, but no less than what was used unless nothing was left.
    pub(super) fn new(used: f64, share: f64) -> Lowered {
        let was_all_used = share >= NOTHING_LEFT;
        let there_was = if was_all_used { used } else { used / share };
        let limit = if was_all_used { LEFT * used } else { used.max(LEFT * there_was) };
        Lowered { limit, predicted: limit / there_was, was_all_used }
    }

    /// `a fifth less than the server used`.
    pub(super) fn words(&self, who: &str) -> String {
        let what = if self.was_all_used { "used" } else { "could use" };
        format!("{:.0} % less than {who} {what}", 100.0 * (1.0 - self.predicted))
    }
}
