//! Seconds in which a load stood still.

use model::load::Turns;
use model::run::RunData;

use crate::findings::findings_of;
use crate::quiet::{self, S};

/// A run that commits so many transactions in each measured second, and what is found about it standing still.
fn stalled(change: impl Fn(&mut RunData), n: impl Fn(u32) -> u64) -> Option<String> {
    let mut data = quiet::run(1);
    quiet::set_committed(&mut data, 5..35, n);
    change(&mut data);
    findings_of(data).into_iter().find(|finding| finding.id == "stall").map(|finding| finding.evidence)
}

#[test]
fn whole_seconds_of_the_other_side_of_a_duet_are_no_stall() {
    let with_gaps = |t: u32| if t.is_multiple_of(5) { 0 } else { 1000 };
    assert!(stalled(|_| {}, with_gaps).is_some());
    let turns = Turns { slice_ns: S, guard_ns: S / 20, slices: "01".repeat(20) };
    let take_turns = |data: &mut RunData| data.record.load.as_mut().unwrap().turns = Some(turns.clone());
    assert_eq!(stalled(take_turns, with_gaps), None);
}

#[test]
fn a_load_that_stands_still_most_of_the_time_stalls() {
    let found = stalled(|_| {}, |t| if t % 5 < 2 { 1000 } else { 0 });
    let expected = "18 of 30 measured seconds (7, 8, 9, 12, 13 and 13 more) committed less than 10 % of the mean 400 per second";
    assert!(found.as_ref().is_some_and(|evidence| evidence.starts_with(expected)), "{found:?}");
}
