//! Where the server's processor time went: time itself by subsystem, a flame graph of each case, and of two what changed.

use analysis::profile::subsystem::{self, Subsystem};
use analysis::profile::tree::{self, TreeChanges};
use analysis::profile::{by_subsystem, of_case, of_work, pairs};
use analysis::summary::{CaseSummary, Study};
use model::run::profile::StoredProfile;

use super::flame::{self, Look};
use crate::html::escape::escape_html;
use crate::html::table;
use crate::prose::{format, phrases};

/// More graphs than this make the page slow; the stacks of all cases are in files.
const GRAPHS_MAX: usize = 6;
/// More columns than this are not compared.
const COLUMNS_MAX: usize = 8;
/// Changes of a share of all samples at which the colour becomes stronger.
const STEPS: [f64; 3] = [0.005, 0.02, 0.05];

/// The section; empty if no profile was asked for.
pub(in crate::html) fn section(study: &Study, profiles: &[StoredProfile]) -> String {
    let profiled: Vec<(&CaseSummary, &StoredProfile)> =
        study.cases.iter().filter_map(|case| Some((case, of_case(profiles, case.case.id)?))).collect();
    let mut html = missing(study, profiles);
    if profiled.is_empty() {
        return html;
    }
    html.push_str(
        "<p class=\"quiet\">From an extra run of each case, which does not count. Widths are shares of the samples of the \
         server's processes on a processor; a function lies on its caller. Hold the pointer over a frame for its share.</p>\n",
    );
    let pairs = pairs(study, profiles);
    html.push_str(&subsystems(&profiled, pairs.first().copied()));
    for (base, case) in pairs.into_iter().take(GRAPHS_MAX) {
        if let (Some(before), Some(after)) =
            (of_case(profiles, base.case.id), of_case(profiles, case.case.id))
        {
            html.push_str(&difference(base, before, case, after));
        }
    }
    html.push_str(&legend());
    for (case, profile) in profiled.iter().take(GRAPHS_MAX) {
        let root = tree::from_stacks(&of_work(&profile.stacks));
        let look = |path: &[String]| Look { class: class_of(path), more: String::new() };
        let graph = flame::svg(&root, &format!("Flame graph of {}", case.label), &look);
        let open = if profiled.len() == 1 { " open" } else { "" };
        html.push_str(&format!(
            "<details class=\"fold profile\"{open}><summary>{}</summary><p class=\"quiet\">{}</p>{graph}</details>\n",
            escape_html(&case.label),
            escape_html(&about(profile))
        ));
    }
    if profiled.len() > GRAPHS_MAX {
        html.push_str(&format!(
            "<p class=\"quiet\">{} further profiles are in <code>profiles/*/stacks.folded</code> of the results.</p>\n",
            profiled.len() - GRAPHS_MAX
        ));
    }
    html
}

/// Cases without a profile that was asked for; each reason once.
fn missing(study: &Study, profiles: &[StoredProfile]) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for profile in profiles.iter().filter(|profile| !profile.record.reason.is_empty()) {
        let Some(case) = study.cases.iter().find(|case| case.case.id == profile.record.case) else {
            continue;
        };
        match reasons.iter_mut().find(|(reason, _)| *reason == profile.record.reason) {
            Some((_, cases)) => cases.push(&case.label),
            None => reasons.push((&profile.record.reason, vec![&case.label])),
        }
    }
    let words = |(reason, cases): &(&str, Vec<&str>)| {
        format!(
            "<p class=\"quiet\">No profile of {}: {}.</p>\n",
            escape_html(&cases.join("; ")),
            escape_html(reason)
        )
    };
    reasons.iter().map(words).collect()
}

/// How a profile was made.
fn about(profile: &StoredProfile) -> String {
    let record = &profile.record;
    let unknown = record.n_without_symbol as f64 / record.n_samples.max(1) as f64;
    let mut about = format!(
        "{} samples of {} in {} s, {} Hz; {} of samples without a symbol; frames below {} are not drawn",
        format::count(record.n_samples),
        record.event,
        record.length_s,
        record.frequency_hz,
        format::percent(unknown),
        format::percent(flame::SHARE_MIN)
    );
    if let Some(tps) = record.tps {
        about.push_str(&format!("; {} tps while it was recorded", format::tps(tps)));
    }
    if record.n_left_out > 0 {
        about.push_str(&format!(
            "; {} of {} processes",
            record.n_processes.saturating_sub(record.n_left_out),
            record.n_processes
        ));
    }
    about + "."
}

fn class_of(path: &[String]) -> &'static str {
    let of = path.last().and_then(|name| subsystem::of_name(name)).unwrap_or(Subsystem::Other);
    class(of)
}

fn class(of: Subsystem) -> &'static str {
    match of {
        Subsystem::Wal => "f-wal",
        Subsystem::Buffers => "f-buffers",
        Subsystem::Locks => "f-locks",
        Subsystem::Transactions => "f-transactions",
        Subsystem::Tables => "f-tables",
        Subsystem::Executor => "f-executor",
        Subsystem::Planner => "f-planner",
        Subsystem::Network => "f-network",
        Subsystem::Kernel => "f-kernel",
        Subsystem::Other => "f-other",
    }
}

fn legend() -> String {
    let key = |of: &Subsystem| key(class(*of), of.words());
    format!("<p class=\"swatches\">{}</p>\n", Subsystem::ALL.iter().map(key).collect::<String>())
}

fn key(class: &str, words: &str) -> String {
    format!("<span><i class=\"{class}\" aria-hidden=\"true\"></i>{}</span>", escape_html(words))
}

/// Time itself by subsystem: a column for each case, and of two the change, in the direction of their graphs.
fn subsystems(
    profiled: &[(&CaseSummary, &StoredProfile)],
    pair: Option<(&CaseSummary, &CaseSummary)>,
) -> String {
    let shown = &profiled[..profiled.len().min(COLUMNS_MAX)];
    let mut heads = vec!["Time itself".to_string()];
    heads.extend(shown.iter().map(|(case, _)| case.label.clone()));
    let pair = if shown.len() == 2 { pair } else { None };
    heads.extend(pair.map(|(base, case)| format!("Change from {} to {}", base.label, case.label)));
    let is_backward = pair.is_some_and(|(base, _)| base.case.id != shown[0].0.case.id);
    let shares: Vec<Vec<(Subsystem, f64)>> = shown.iter().map(|(_, profile)| by_subsystem(profile)).collect();
    let rows = shares[0].iter().map(|(of, _)| {
        let values: Vec<f64> = shares
            .iter()
            .map(|one| one.iter().find(|(other, _)| other == of).map_or(0.0, |(_, share)| *share))
            .collect();
        let mut row = vec![key(class(*of), &phrases::capital(of.words()))];
        row.extend(values.iter().map(|share| format!("{:.1} %", 100.0 * share)));
        row.extend(pair.map(|_| {
            let change = values[1] - values[0];
            points(if is_backward { -change } else { change })
        }));
        row
    });
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    table("plain swatches", &heads, &rows.collect::<Vec<_>>()) + "\n"
}

/// A change in percentage points.
fn points(change: f64) -> String {
    let tenths = (1000.0 * change).round();
    let sign = match tenths {
        0.0 => "",
        less if less < 0.0 => "\u{2212}",
        _ => "+",
    };
    format!("{sign}{:.1} points", tenths.abs() / 10.0)
}

/// Both graphs side by side, coloured by what changed from the first to the second.
fn difference(
    base: &CaseSummary,
    before: &StoredProfile,
    case: &CaseSummary,
    after: &StoredProfile,
) -> String {
    let (one, other) =
        (tree::from_stacks(&of_work(&before.stacks)), tree::from_stacks(&of_work(&after.stacks)));
    let changes = TreeChanges::between(&one, &other);
    let n = one.n.min(other.n).max(1) as f64;
    let look = |path: &[String]| {
        let [before, after] = changes.of(path);
        Look { class: change_class([before, after], n), more: format!(", {}", points(after - before)) }
    };
    let graph = |of: &CaseSummary, root| {
        let label = format!("Difference from {} to {}: {}", base.label, case.label, of.label);
        format!("<div><h4>{}</h4>{}</div>", escape_html(&of.label), flame::svg(root, &label, &look))
    };
    let keys = [
        ("d-up3", "larger share"),
        ("d-up1", "somewhat larger"),
        ("d-same", "as before, or by chance"),
        ("d-down1", "somewhat smaller"),
        ("d-down3", "smaller share"),
    ];
    format!(
        "<h3>From {} to {}</h3><p class=\"quiet\">Red: a larger share of the samples in {} than in {}; blue: a smaller one.</p>\
         <p class=\"swatches\">{}</p><div class=\"flames\">{}{}</div>\n",
        escape_html(&base.label),
        escape_html(&case.label),
        escape_html(&case.label),
        escape_html(&base.label),
        keys.iter().map(|(class, words)| key(class, words)).collect::<String>(),
        graph(base, &one),
        graph(case, &other)
    )
}

/// The colour of a change of a share. What is smaller than twice the standard error of the difference of two proportions of `n` samples
/// each is chance.
fn change_class([before, after]: [f64; 2], n: f64) -> &'static str {
    let mean = (before + after) / 2.0;
    let chance = 2.0 * (2.0 * mean * (1.0 - mean) / n).sqrt();
    let change = after - before;
    if change.abs() < chance {
        return "d-same";
    }
    match (STEPS.iter().filter(|step| change.abs() >= **step).count(), change > 0.0) {
        (0, _) => "d-same",
        (1, true) => "d-up1",
        (2, true) => "d-up2",
        (_, true) => "d-up3",
        (1, false) => "d-down1",
        (2, false) => "d-down2",
        (_, false) => "d-down3",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn red_and_blue_are_changes_beyond_chance() {
        for (shares, n, expected) in [
            ([0.10, 0.10], 10_000.0, "d-same"),
            ([0.10, 0.13], 10_000.0, "d-up2"),
            ([0.10, 0.107], 10_000.0, "d-same"),
            ([0.10, 0.12], 500.0, "d-same"),
            ([0.30, 0.40], 10_000.0, "d-up3"),
            ([0.40, 0.30], 10_000.0, "d-down3"),
            ([0.01, 0.0], 10_000.0, "d-down1"),
            ([0.001, 0.0], 1e6, "d-same"),
        ] {
            assert_eq!(change_class(shares, n), expected, "{shares:?} of {n}");
        }
    }
}
