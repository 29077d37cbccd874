//! The plan of an experiment: which runs have ended, which is under way, and what comes next.

use super::now::span;
use super::{BarLink, Page, Site, links};
use crate::escape::escape_html;
use crate::html::{named, table};
use crate::prose::format;

/// Most runs on a page of a plan.
const RUNS_MAX: usize = 1000;

/// A run of a plan, in the order of execution.
#[derive(Debug, Clone, Default)]
pub struct RunOfPlan {
    /// Number.
    pub run: u32,
    /// Block; 0 if it repeats another run.
    pub block: u32,
    /// Label of its case.
    pub label: String,
    /// State.
    pub state: RunProgress,
}

/// How far a run is.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum RunProgress {
    /// It waits, and will begin in about so many seconds, if that is known.
    #[default]
    Waits,
    /// It waits, and will begin in about so many seconds.
    In(f64),
    /// It is under way.
    Running,
    /// It has ended, after so many seconds, in this state, in words.
    Ended(Option<f64>, String),
}

/// Input of [`plan`].
#[derive(Debug, Clone, Copy)]
pub struct PlanInput<'a> {
    /// All runs.
    pub runs: &'a [RunOfPlan],
    /// Most runs that are shown around those that come next.
    pub n_shown: usize,
}

/// The runs around the next one as a table.
pub fn plan(input: &PlanInput) -> String {
    let PlanInput { runs, n_shown } = *input;
    if runs.is_empty() {
        return "<p class=\"quiet\">Nothing is planned.</p>\n".to_string();
    }
    let first_open =
        runs.iter().position(|run| !matches!(run.state, RunProgress::Ended(..))).unwrap_or(runs.len());
    let from = first_open.saturating_sub(n_shown / 3).min(runs.len().saturating_sub(n_shown));
    let to = (from + n_shown).min(runs.len());
    let rows: Vec<Vec<String>> = runs[from..to].iter().map(row).collect();
    let mut html = named(&table("plan", &["Run", "Case", "Block", "State"], &rows), "Runs");
    for (run, class) in runs[from..to].iter().map(|run| (run, class(&run.state))) {
        let head = format!("<tr><th scope=\"row\">{}</th>", run.run);
        html = html.replacen(&head, &head.replace("<tr>", &format!("<tr class=\"{class}\">")), 1);
    }
    let (before, after) = (from, runs.len() - to);
    if before + after > 0 {
        html.push_str(&format!(
            "<p class=\"quiet\">{before} earlier and {after} later runs are not shown.</p>\n"
        ));
    }
    html
}

fn class(state: &RunProgress) -> &'static str {
    match state {
        RunProgress::Waits | RunProgress::In(_) => "next",
        RunProgress::Running => "running",
        RunProgress::Ended(..) => "done",
    }
}

fn row(run: &RunOfPlan) -> Vec<String> {
    let state = match &run.state {
        RunProgress::Waits => "waits".to_string(),
        RunProgress::In(s) => format!("in about {}", span(*s)),
        RunProgress::Running => "running".to_string(),
        RunProgress::Ended(Some(s), words) => format!("{words}, after {}", span(*s)),
        RunProgress::Ended(None, words) => words.clone(),
    };
    let block = if run.block == 0 { "-".to_string() } else { run.block.to_string() };
    vec![run.run.to_string(), escape_html(&run.label), block, escape_html(&state)]
}

/// The head of a plan's page.
#[derive(Debug, Clone, Copy)]
pub struct PlanHead<'a> {
    /// Title of the experiment.
    pub title: &'a str,
    /// When the plan was made, nanoseconds since the Unix epoch.
    pub made_unix_ns: u64,
    /// The address at which the experiment can be asked for again, if it can.
    pub start: Option<&'a str>,
}

/// The page of the plan of an experiment.
pub fn page(head: &PlanHead, runs: &[RunOfPlan], back: &[BarLink], tool_version: &str) -> Page {
    let PlanHead { title, made_unix_ns, start } = *head;
    let start = start.map_or(String::new(), |to| {
        format!(
            "<form method=\"post\" action=\"{}\" class=\"acts\"><button type=\"submit\" class=\"quietly\">Measure it again</button></form>\n",
            escape_html(to)
        )
    });
    let main = format!(
        "<header class=\"small\">\n<p class=\"over\">Plan of {}</p>\n<h1>{}</h1>\n{start}</header>\n<section aria-label=\"Runs\">{}</section>\n",
        escape_html(&format::utc(made_unix_ns)),
        escape_html(title),
        plan(&PlanInput { runs, n_shown: RUNS_MAX })
    );
    Site::plain(title, tool_version, &links(back), &main).page()
}
