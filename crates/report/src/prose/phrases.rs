//! Small pieces of English shared by all forms of the report.

use analysis::summary::RunSummary;
use model::experiment::plan::RunState;

use analysis::finding::Severity;

pub(crate) use model::text::prose::plural;
use model::text::visible::visible;

/// [`plural`] for a number that is already text.
pub(crate) fn plural_of(n: &str, word: &str) -> String {
    plural(one_line(n), word)
}

/// An identifier of the catalogue as words: `checkpoint-in-window` becomes `checkpoint in window`, `foreign-cpu`
/// becomes `foreign CPU`.
pub(crate) fn of_id(id: &str) -> String {
    let words: Vec<String> = id
        .split(['-', '_'])
        .map(|word| match word {
            "cpu" | "wal" | "tls" | "numa" | "tps" | "jit" => word.to_uppercase(),
            "io" => "I/O".to_string(),
            _ => word.to_string(),
        })
        .collect();
    words.join(" ")
}

/// The text with a capital first letter, unless it begins with a name that people type, such as `work_mem` or a finding's.
pub(crate) fn capital(text: &str) -> String {
    let first = text.split_whitespace().next().unwrap_or_default();
    let is_id = analysis::findings::rule(first).is_some() && first.contains('-');
    let is_typed = is_id || first.contains('_') || first.trim_end_matches([',', '.', ':']).contains('.');
    if is_typed {
        return text.to_string();
    }
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// Sorted numbers with consecutive ones joined: `1, 3-5, 9`.
pub(crate) fn ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut i = 0;
    while i < numbers.len() {
        let mut end = i;
        while end + 1 < numbers.len() && numbers[end + 1] == numbers[end] + 1 {
            end += 1;
        }
        if end > i + 1 {
            parts.push(format!("{}-{}", numbers[i], numbers[end]));
            i = end + 1;
        } else {
            parts.push(numbers[i].to_string());
            i += 1;
        }
    }
    parts.join(", ")
}

/// The attempt that counts in place of a disturbed run, or of a repeat that was disturbed more.
pub(crate) fn replaced(run: &RunSummary) -> Option<String> {
    let by = run.replaced_by?;
    let rules = run.disturbance.as_ref().map(|found| found.rules.iter().map(|id| of_id(id)).collect());
    let why = rules.map_or(String::new(), |rules: Vec<String>| format!(" ({})", rules.join(", ")));
    Some(if by < run.run && run.state != RunState::Completed {
        let ended = one_line(&why_ended(run));
        format!("was to repeat run {by}, which counts because this one did not end ({ended})")
    } else if by < run.run {
        format!("was no better than run {by}, which it repeats{why}")
    } else {
        format!("replaced by run {by}{why}")
    })
}

/// The planned run that a run is an attempt at.
pub(crate) fn planned(run: &RunSummary) -> u32 {
    run.repeat.map_or(run.run, |repeat| repeat.of)
}

/// Why a run does not count, in short.
pub(crate) fn why_not(run: &RunSummary) -> String {
    if let Some(replaced) = replaced(run) {
        return replaced;
    }
    if run.state != RunState::Completed {
        return why_ended(run);
    }
    let voids = run.findings.iter().filter(|f| f.severity == Severity::Void);
    let ids: Vec<String> = voids.map(|finding| of_id(finding.id)).collect();
    if ids.is_empty() { "nothing was measured".to_string() } else { format!("void: {}", ids.join(", ")) }
}

/// How a run ended that was not completed: its state, and the reason if one is known.
fn why_ended(run: &RunSummary) -> String {
    match run.reason.as_str() {
        "" => of_state(run.state).to_string(),
        reason => format!("{}: {reason}", of_state(run.state)),
    }
}

/// The word for the state of a run.
pub(crate) fn of_state(state: RunState) -> &'static str {
    match state {
        RunState::Started => "cut off",
        RunState::Completed => "completed",
        RunState::Partial => "partial",
        RunState::Failed => "failed",
    }
}

/// Text on one line, with control characters and characters that hide text escaped.
pub(crate) fn one_line(text: &str) -> String {
    visible(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

/// The first paragraph of a text, and all others.
pub(crate) fn paragraphs(text: &str) -> (&str, Vec<&str>) {
    let mut all = text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty());
    (all.next().unwrap_or_default(), all.collect())
}

/// What a paragraph says before its list, with the number of items, and the items, which begin with `- `.
pub(crate) fn list(paragraph: &str) -> (String, Vec<&str>) {
    let items: Vec<&str> = paragraph.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    if items.is_empty() {
        return (paragraph.to_string(), items);
    }
    let head: Vec<&str> = paragraph.lines().take_while(|line| !line.starts_with("- ")).collect();
    let head = head.join(" ");
    (format!("{} ({})", head.trim_end_matches(':'), items.len()), items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_from_three_on() {
        for (numbers, expected) in [
            (&[][..], ""),
            (&[1], "1"),
            (&[1, 2], "1, 2"),
            (&[1, 3, 4, 5, 9], "1, 3-5, 9"),
            (&[1, 2, 3], "1-3"),
        ] {
            assert_eq!(ranges(numbers), expected);
        }
    }

    #[test]
    fn what_people_type_keeps_its_letters() {
        assert_eq!(capital("the runs differ"), "The runs differ");
        for typed in ["work_mem is 4 MB", "server.version", "foreign-cpu in 1 of 2 runs"] {
            assert_eq!(capital(typed), typed);
        }
        assert_eq!(capital("spread of the runs"), "Spread of the runs");
    }

    #[test]
    fn a_line_holds_nothing_that_steers_a_terminal() {
        assert_eq!(one_line("a\u{1b}[31m\nb\u{202e}c"), "a\\u{1b}[31m b\\u{202e}c");
    }

    #[test]
    fn a_description_is_a_question_and_further_paragraphs_some_with_a_list() {
        let text =
            "How fast?\n\nScaled to the machine:\n- scale 100 -> 17\n- clients 1, 2 -> 1\n\n Note: a try. ";
        let (question, more) = paragraphs(text);
        assert_eq!((question, more.len()), ("How fast?", 2));
        let expected = vec!["scale 100 -> 17", "clients 1, 2 -> 1"];
        assert_eq!(list(more[0]), ("Scaled to the machine (2)".to_string(), expected));
        assert_eq!(list(more[1]), ("Note: a try.".to_string(), Vec::new()));
        assert_eq!(paragraphs(" \n\n "), ("", Vec::new()));
    }
}
