//! When an outage begins: at other instants in each block, spread evenly over its interval, and at the same one for all cases of a
//! block.

use model::experiment::topology::outage::OutageSpec;

/// The part of the golden ratio behind the point. Its multiples modulo 1 fall into the largest gap that those before have left
/// (Knuth, The Art of Computer Programming, volume 3, section 6.4), so that any number of blocks is spread evenly.
const GOLDEN_PART: f64 = 0.618_033_988_749_895;

/// Seconds after `go` at which the outage of a block, from 1, begins.
pub(super) fn begin_s(outage: &OutageSpec, block: u32) -> f64 {
    let part = (f64::from(block) * GOLDEN_PART).fract();
    outage.from_s + part * (outage.to_s - outage.from_s)
}

#[cfg(test)]
mod tests {
    use model::experiment::topology::outage::{Fault, Then};

    use super::*;

    #[test]
    fn blocks_are_spread_over_the_interval() {
        let outage = OutageSpec {
            name: "kill-primary".to_string(),
            fault: Fault::KillPrimary,
            from_s: 10.0,
            to_s: 40.0,
            then: Then::Nothing,
            lasts_s: None,
            run: Vec::new(),
            undo: Vec::new(),
            check: Vec::new(),
            script: None,
        };
        let mut all: Vec<f64> = (1..=6).map(|block| begin_s(&outage, block)).collect();
        all.sort_by(f64::total_cmp);
        assert!(all[0] >= 10.0 && all[5] < 40.0, "{all:?}");
        // Each gap is between a third and twice that of an even spread.
        let gaps: Vec<f64> = all.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (1.6..10.0).contains(gap)), "{gaps:?}");
        assert_eq!(begin_s(&OutageSpec { to_s: 10.0, ..outage }, 3), 10.0);
    }
}
