//! `pgdyno list`: the stored results with their answers.

use std::path::Path;

use analysis::comparison::CaseComparison;
use anyhow::Result;
use model::experiment::plan::RunState;
use model::run::ExperimentData;
use model::text::columns;
use model::text::visible::on_one_line;
use serde::{Deserialize, Serialize};
use store::{Listing, Listings};

use crate::commands::compare::page;
use crate::commands::report::for_terminal;
use crate::commands::stored::explained::{Explained, KeptTelemetry};
use crate::front::cli::stored::{ListArgs, RESULTS};
use crate::front::shell;
use crate::planning::NOTE;
use crate::{Exit, print, print_exact, say};

/// The file that keeps the answer of an experiment, so that a list need not read all its records.
pub(crate) const ANSWER: &str = "answer.json";

/// Longest file that is read; pgdyno writes much shorter ones.
const BYTES_MAX: u64 = 1 << 20;

/// The experiments in a directory, oldest first. Damaged ones are reported on stderr. The default directory need not
/// exist yet.
pub(crate) fn listings(dir: &Path) -> Result<Vec<Listing>> {
    Ok(found(dir)?.experiments)
}

/// [`listings`], with the damaged ones.
pub(crate) fn found(dir: &Path) -> Result<Listings> {
    if dir == Path::new(RESULTS) && !dir.exists() {
        return Ok(Listings::default());
    }
    let listings = store::list(dir)?;
    let words = |error: &anyhow::Error| format!("skipped damaged results: {error:#}");
    listings.damaged.iter().for_each(|error| say(&on_one_line(&words(error))));
    Ok(listings)
}

/// What an experiment found, in short.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ShortAnswer {
    title: String,
    /// The note of the user.
    #[serde(default)]
    note: String,
    headline: String,
    /// The grade of the headline.
    verdict: String,
    /// The servers, as the experiment names them.
    server: String,
    /// Names of the machines on which the servers ran, as far as they were observed.
    #[serde(default)]
    machine: String,
    /// Limiters of the cases.
    #[serde(default)]
    limiter: String,
    /// The throughput of the best case and how far off it can be: `8,392 ±11 %`; empty unless it is valid, and of a comparison.
    #[serde(default)]
    throughput: String,
    /// The range of that throughput, as ratios to it.
    #[serde(default)]
    range: Option<[f64; 2]>,
    /// The version of pgdyno that worded the answer.
    tool_version: String,
}

impl ShortAnswer {
    /// The answer of an explained experiment, and of the comparison that it was measured for.
    pub(crate) fn new(explained: &Explained, comparisons: &[CaseComparison]) -> ShortAnswer {
        let Explained { data, study } = explained;
        let (headline, grade) = match comparisons {
            [first, ..] => (report::comparison_headline(first), first.grade),
            [] => report::headline_and_grade(study),
        };
        let best = if data.plan.is_comparison { None } else { report::best_throughput(study) };
        ShortAnswer {
            throughput: best.map_or(String::new(), |(tps, range)| report::throughput_words(tps, range)),
            range: best.map(|(_, range)| range),
            title: data.plan.title.clone(),
            note: data
                .plan
                .description
                .rsplit_once(NOTE)
                .map_or_else(String::new, |(_, note)| note.to_string()),
            headline,
            verdict: grade.as_str().to_string(),
            server: servers(data),
            machine: distinct(
                data.runs.iter().filter_map(|run| Some(run.record.host.as_ref()?.hostname.clone())),
            ),
            limiter: distinct(
                study.cases.iter().filter_map(|case| Some(case.limiter.as_ref()?.name.as_str().to_string())),
            ),
            tool_version: env!("CARGO_PKG_VERSION").to_string(),
        }
    }

    /// The answer of an experiment that is being measured: what its runs say so far is none.
    fn of_running(self, dir: &Path) -> ShortAnswer {
        let words = ["pgdyno".to_string(), "report".to_string(), dir.display().to_string()];
        let command = shell::command(&words);
        ShortAnswer {
            headline: format!("being measured; {command} shows what there is so far"),
            verdict: "running".to_string(),
            throughput: String::new(),
            range: None,
            ..self
        }
    }

    /// The stored answer, or the one that the records give.
    pub(super) fn read(dir: &Path) -> Result<ShortAnswer> {
        let stored = files::read(&dir.join(ANSWER), BYTES_MAX).ok();
        let stored = stored.and_then(|bytes| store::parse_record::<ShortAnswer>(&bytes).ok());
        match stored.filter(|answer| answer.tool_version == env!("CARGO_PKG_VERSION")) {
            Some(answer) => Ok(answer),
            None => {
                let explained = Explained::read(dir, KeptTelemetry::No)?;
                Ok(ShortAnswer::new(&explained, &page::own_comparisons(dir, &explained)?))
            }
        }
    }
}

fn servers(data: &ExperimentData) -> String {
    distinct(data.plan.cases.iter().map(|case| match &case.server.target {
        Some(target) => target.name.clone(),
        None => case.server.source.to_string(),
    }))
}

/// Each text once, in order.
fn distinct(texts: impl Iterator<Item = String>) -> String {
    let mut found: Vec<String> = Vec::new();
    for text in texts {
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found.join(", ")
}

/// Prints the experiments, newest first.
pub(crate) fn list(args: &ListArgs) -> Result<Exit> {
    let mut listings = listings(&args.dir)?;
    listings.reverse();
    if listings.is_empty() {
        say(&format!("no results in `{}`", args.dir.display()));
    }
    let width = width(&listings);
    let now_s = jiff::Timestamp::now().as_second();
    for listing in listings {
        let answer = ShortAnswer::read(&listing.path).unwrap_or_else(|error| {
            say(&on_one_line(&format!("skipped the records of damaged results: {error:#}")));
            ShortAnswer::default()
        });
        let answer = if is_running(&listing) { answer.of_running(&listing.path) } else { answer };
        if args.json {
            print_exact(&format!("{}\n", json(&listing, &answer)))?;
        } else {
            print(&for_terminal(&text(&listing, &answer, width, now_s)))?;
        }
    }
    Ok(Exit::Done)
}

/// Columns of the longest name.
pub(super) fn width(listings: &[Listing]) -> usize {
    listings.iter().map(|listing| on_one_line(&listing.name).chars().count()).max().unwrap_or(0)
}

/// Whether it is being measured. A process that writes to one that has ended makes its report.
fn is_running(listing: &Listing) -> bool {
    listing.is_running && listing.state != RunState::Completed
}

fn state(listing: &Listing) -> &'static str {
    match listing.state {
        _ if is_running(listing) => "running",
        RunState::Completed => "completed",
        RunState::Partial => "partial",
        RunState::Failed => "failed",
        RunState::Started => "not finished",
    }
}

pub(super) fn json(listing: &Listing, answer: &ShortAnswer) -> serde_json::Value {
    let made = jiff::Timestamp::from_nanosecond(listing.made_unix_ns.into()).unwrap_or_default();
    serde_json::json!({
        "path": listing.path, "name": listing.name, "made": made.to_string(), "state": state(listing),
        "runs_completed": listing.n_runs_completed, "runs_planned": listing.n_runs_planned,
        "title": answer.title, "note": answer.note, "headline": answer.headline, "verdict": answer.verdict, "server": answer.server,
        "uncertainty_low": answer.range.map(|[low, _]| low), "uncertainty_high": answer.range.map(|[_, high]| high),
    })
}

/// Space in front of all lines of an experiment but the first.
const INDENT: &str = "             ";

pub(super) fn text(listing: &Listing, answer: &ShortAnswer, width: usize, now_s: i64) -> String {
    let Listing { path, name, made_unix_ns, n_runs_completed, n_runs_planned, .. } = listing;
    let name = columns::left(&on_one_line(name), width);
    let age = age(now_s - (made_unix_ns / 1_000_000_000) as i64);
    let state = match listing.state {
        RunState::Completed => String::new(),
        // The verdict says so.
        _ if is_running(listing) => String::new(),
        _ => format!(", {}", state(listing)),
    };
    let ShortAnswer { verdict, headline, title, note, throughput, .. } = answer;
    let range = if throughput.is_empty() { String::new() } else { format!("  {}", on_one_line(throughput)) };
    let [server, headline, verdict] = [&answer.server, headline, verdict].map(|text| on_one_line(text));
    let of_user: String = [title, note]
        .into_iter()
        .filter(|text| !text.is_empty())
        .fold(String::new(), |all, text| format!("{all}{INDENT}{}\n", on_one_line(text)));
    format!(
        "{age:>11}  {name}  {verdict:<8}{range}  {n_runs_completed}/{n_runs_planned} runs{state}  {server}\n\
         {of_user}{INDENT}{headline}\n{INDENT}{}\n",
        on_one_line(&path.to_string_lossy())
    )
}

/// How long ago something was.
fn age(s: i64) -> String {
    match s {
        ..60 => "just now".to_string(),
        60..7200 => format!("{} min ago", s / 60),
        7200..172_800 => format!("{} h ago", s / 3600),
        _ => format!("{} d ago", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_have_named_makes_no_lines_in_the_list() {
        let hostile = "a\n   just now  b\t\u{1b}[2J";
        let shown = "a\\n   just now  b\\t\\u{1b}[2J";
        let text_of = |text: &str| text.to_string();
        let listing = Listing {
            path: Path::new("results").join(hostile),
            name: text_of(hostile),
            made_unix_ns: 0,
            n_runs_planned: 1,
            n_runs_completed: 1,
            state: RunState::Completed,
            is_running: false,
        };
        let answer = ShortAnswer {
            title: text_of(hostile),
            note: text_of(hostile),
            headline: text_of(hostile),
            server: text_of(hostile),
            throughput: text_of(hostile),
            ..ShortAnswer::default()
        };
        let of = |answer: &ShortAnswer| text(&listing, answer, width(std::slice::from_ref(&listing)), 0);
        let text = of(&answer);
        assert_eq!((text.lines().count(), text.matches(shown).count()), (5, 7), "{text}");
        let answer = ShortAnswer {
            verdict: text_of("valid"),
            throughput: text_of("8,392 ±11 %"),
            range: Some([0.93, 1.11]),
            ..ShortAnswer::default()
        };
        assert!(of(&answer).contains("  valid     8,392 ±11 %  1/1 runs"), "{}", of(&answer));
        assert_eq!(json(&listing, &answer)["uncertainty_high"], 1.11);
        assert!(json(&listing, &ShortAnswer::default())["uncertainty_low"].is_null());
    }

    #[test]
    fn ages_are_shown_in_one_unit() {
        for (s, expected) in [
            (-5, "just now"),
            (59, "just now"),
            (60, "1 min ago"),
            (7199, "119 min ago"),
            (7200, "2 h ago"),
            (172_799, "47 h ago"),
            (172_800, "2 d ago"),
        ] {
            assert_eq!(age(s), expected);
        }
    }
}
