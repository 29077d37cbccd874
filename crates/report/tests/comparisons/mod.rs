//! Comparisons as text.

use analysis::comparison::{ComparedSide, MARGIN};
use analysis::explain::{compare, compare_repeat};
use report::{ComparisonInput, Measured};

use crate::synthetic::{self, Shape};

#[test]
fn comparisons_in_one_markdown_text_are_apart() {
    let (study, data) = synthetic::make(&Shape { clients: vec![8, 16], ..Shape::default() });
    let side = |case| ComparedSide { data: &data, study: &study, case };
    let cases = compare(&[(side(1), side(2)), (side(2), side(1))], MARGIN);
    assert!(cases.iter().all(|case| !case.findings.is_empty()), "a list ends each");
    let experiments = [Measured { name: "x", study: &study, data: &data, commands: &[] }];
    let (cases, experiments) = (&cases[..], &experiments[..]);
    let input = ComparisonInput { cases, floor: None, experiments, commands: &[], tool_version: "0.1.0" };
    let text = report::comparison_markdown(&input);
    assert_eq!(text.matches("\n\n**").count(), 2, "{text}");
    assert!(!text.contains("\n\n\n"), "{text}");
}

#[test]
fn the_sides_of_a_repetition_are_called_theirs_and_here_everywhere() {
    let (study, data) = synthetic::make(&Shape { clients: vec![8, 16], ..Shape::default() });
    let (other, other_data) = (study.clone(), data.clone());
    let theirs = ComparedSide { data: &data, study: &study, case: 1 };
    let here = ComparedSide { data: &other_data, study: &other, case: 2 };
    let cases = compare_repeat(&[(theirs, here)], MARGIN);
    let one = |name| Measured { name, study: &study, data: &data, commands: &[] };
    let experiments = [one("again/original"), one("again")];
    let (cases, experiments) = (&cases[..], &experiments[..]);
    let input = ComparisonInput { cases, floor: None, experiments, commands: &[], tool_version: "0.1.0" };

    let html = report::comparison_html(&input);
    assert!(html.contains(r#""names":["theirs","here"]"#), "the charts");
    let shown = without_scripts(&html);
    let texts =
        [report::comparison_text(&cases[0], None, 100, false), report::comparison_markdown(&input), shown];
    for text in &texts {
        assert!(text.contains("theirs, median") && text.contains("here, median"), "{text}");
        for old in ["A:", "B:", ">A<", ">B<", "A, median", "of A", "of B", "A and B", "B against A", "B is "]
        {
            assert!(!text.contains(old), "`{old}` in {text}");
        }
    }
    let value = serde_json::to_value(&cases[0]).unwrap();
    assert!(value["a"].is_string() && value["b"].is_string(), "the keys stay");
}

/// The text of a page without what only its scripts read.
fn without_scripts(html: &str) -> String {
    let parts = html.split("<script").enumerate();
    parts
        .map(
            |(n, part)| if n == 0 { part } else { part.split_once("</script>").map_or("", |(_, rest)| rest) },
        )
        .collect()
}
