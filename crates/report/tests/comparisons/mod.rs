//! Comparisons as text.

use analysis::comparison::{MARGIN, Side};
use analysis::explain::compare;
use report::{ComparisonInput, Measured};

use crate::synthetic::{self, Shape};

#[test]
fn comparisons_in_one_markdown_text_are_apart() {
    let (study, data) = synthetic::make(&Shape { clients: vec![8, 16], ..Shape::default() });
    let side = |case| Side { data: &data, study: &study, case };
    let cases = compare(&[(side(1), side(2)), (side(2), side(1))], MARGIN);
    assert!(cases.iter().all(|case| !case.findings.is_empty()), "a list ends each");
    let experiments = [Measured { name: "x", study: &study, data: &data, commands: &[] }];
    let (cases, experiments) = (&cases[..], &experiments[..]);
    let input = ComparisonInput { cases, floor: None, experiments, commands: &[], tool_version: "0.1.0" };
    let text = report::comparison_markdown(&input);
    assert_eq!(text.matches("\n\n**").count(), 2, "{text}");
    assert!(!text.contains("\n\n\n"), "{text}");
}
