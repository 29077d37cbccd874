//! Comparisons of made-up studies, as pages.

use analysis::comparison::{ComparedFigure, ComparedSide, MARGIN, Pairing};
use analysis::explain::{compare, compare_duet};
use analysis::summary::Study;
use model::FORMAT;
use model::load::duet::{Duet, SlicePair, Slicing};
use model::run::ExperimentData;
use report::{ComparisonInput, Measured, NoiseFloor};

use super::Random;

/// The cases 1 and 2 of a study as a comparison of pairs, as a duet, and as two experiments: name and page of each.
pub(crate) fn comparisons(study: &Study, data: &ExperimentData) -> Vec<(&'static str, String)> {
    let side = |case| ComparedSide { data, study, case };
    let floor = NoiseFloor {
        t_unix_ns: 1_795_175_000_000_000_000,
        hostname: "bench1".to_string(),
        workload: "tpcb".to_string(),
        n_clients: 8,
        n_pairs: 20,
        figure: ComparedFigure::Throughput,
        half_width: 0.011,
        detectable: Some(0.016),
    };
    let one = |name| Measured { name, study, data, commands: &[] };
    let commands = ["pgdyno compare --a server.version=15 --b server.version=18".to_string()];
    let page = |cases: &[_], experiments: &[_], floor| {
        let input = ComparisonInput { cases, floor, experiments, commands: &commands, tool_version: "0.1.0" };
        assert!(!report::comparison_markdown(&input).contains("NaN"));
        report::comparison_html(&input)
    };
    let pairs = compare(&[(side(1), side(2))], MARGIN);
    assert_eq!(pairs[0].pairing, Pairing::Blocks);
    let duet = [compare_duet(side(1), side(2), &duet(), MARGIN)];
    let (other, other_data) = (study.clone(), data.clone());
    let other_side = ComparedSide { data: &other_data, study: &other, case: 2 };
    let apart = compare(&[(side(1), other_side)], MARGIN);
    assert_eq!(apart[0].pairing, Pairing::None);
    vec![
        ("pairs", page(&pairs, &[one("results/pairs")], Some(&floor))),
        ("duet", page(&duet, &[one("results/duet")], None)),
        ("apart", page(&apart, &[one("results/<monday>"), one("results/tuesday")], Some(&floor))),
    ]
}

fn duet() -> Duet {
    let mut random = Random(7);
    let pair = |_| {
        let level = 500.0 * (1.0 + 0.4 * random.next());
        let of_side = |random: &mut Random, share: f64| (share * level * random.around(1.0, 0.03)) as u64;
        SlicePair {
            round: 1,
            is_a_first: random.next() < 0.5,
            a: of_side(&mut random, 1.0),
            b: of_side(&mut random, 0.975),
        }
    };
    Duet {
        format: FORMAT,
        slicing: Slicing::default(),
        rounds: Vec::new(),
        pairs: (0..120).map(pair).collect(),
    }
}
