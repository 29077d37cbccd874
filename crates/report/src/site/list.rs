//! The list of results, with search and filter.

use analysis::finding::Grade;

use super::{BarLink, Page, Site, encoded, links};
use crate::escape::escape_html;
use crate::html::lead::badge;
use crate::prose::format;
use crate::prose::phrases::plural;

/// Names of a list that are shown: an experiment may have a hundred servers.
const N_NAMES: usize = 4;

/// One result, in short.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListedResult {
    /// Name of its directory, by which it is addressed.
    pub name: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Title of the experiment; empty if there is none.
    pub title: String,
    /// When the plan was made, nanoseconds since the Unix epoch.
    pub made_unix_ns: u64,
    /// Names of the machines.
    pub machine: String,
    /// Releases, binaries, or places of the servers.
    pub version: String,
    /// Kinds of the load.
    pub workload: String,
    /// Grade of the answer, if there is one.
    pub grade: Option<Grade>,
    /// The throughput of the best case and how far off it can be: `8,392 ±11 %`; empty if there is none.
    pub throughput: String,
    /// Limiters of the cases.
    pub limiter: String,
    /// The answer.
    pub headline: String,
    /// What became of the experiment, in a word.
    pub state: &'static str,
    /// Whether it is being measured.
    pub is_running: bool,
    /// Planned runs that were measured completely.
    pub n_completed: usize,
    /// Planned runs.
    pub n_planned: usize,
}

/// What is wanted of the list; empty: everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// Words, all of which an entry has somewhere.
    pub words: String,
    /// By the name of a [`FilterChoice`]: the value wanted.
    pub values: Vec<(&'static str, String)>,
}

/// A property by which the list is filtered, with its values.
#[derive(Debug, Clone)]
pub struct FilterChoice {
    /// Name in addresses.
    pub name: &'static str,
    /// Name for people.
    pub label: &'static str,
    /// The values that entries have.
    pub values: Vec<String>,
}

/// Input of [`list`].
#[derive(Debug, Clone, Copy)]
pub struct ListInput<'a> {
    /// The entries that are wanted, newest first.
    pub entries: &'a [&'a ListedResult],
    /// Number of all entries.
    pub n_all: usize,
    /// Search and filters.
    pub wanted: &'a ListFilter,
    /// The filters that there are.
    pub choices: &'a [FilterChoice],
    /// Results that cannot be read, with the reason.
    pub damaged: &'a [String],
    /// The directory.
    pub place: &'a str,
    /// Links of the bar.
    pub links: &'a [BarLink<'a>],
    /// Version of the pgdyno that serves.
    pub tool_version: &'a str,
}

/// The page.
pub fn list(input: &ListInput) -> Page {
    let main = format!(
        "<header class=\"small\">\n<p class=\"over\">{}</p>\n<h1>Results</h1>\n</header>\n{}{}{}",
        escape_html(input.place),
        search(input),
        found(input),
        damaged(input.damaged),
    );
    let script = include_str!("../../assets/list.js");
    Site { script, ..Site::plain("pgdyno: results", input.tool_version, &links(input.links), &main) }.page()
}

/// The form, which works without its script, too.
fn search(input: &ListInput) -> String {
    let select = |choice: &FilterChoice| {
        let wanted =
            input.wanted.values.iter().find(|(name, _)| *name == choice.name).map(|(_, value)| value);
        let option = |value: &String| {
            let selected = if wanted == Some(value) { " selected" } else { "" };
            format!("<option{selected}>{}</option>", escape_html(value))
        };
        format!(
            "<label>{}<select name=\"{}\"><option value=\"\">all</option>{}</select></label>",
            escape_html(choice.label),
            choice.name,
            choice.values.iter().map(option).collect::<String>()
        )
    };
    let selects: String = input.choices.iter().filter(|choice| choice.values.len() > 1).map(select).collect();
    format!(
        "<form method=\"get\" action=\"/\" id=\"filter\" role=\"search\" class=\"filter\">\
         <label class=\"wide\">Search<input type=\"search\" name=\"q\" value=\"{}\" autocomplete=\"off\"></label>{selects}\
         <button type=\"submit\">Filter</button></form>\n<form method=\"get\" action=\"/compare\" id=\"pick\"></form>\n",
        escape_html(&input.wanted.words)
    )
}

/// What was found: the script replaces this part when the form changes.
fn found(input: &ListInput) -> String {
    let n = input.entries.len();
    let count = if n == input.n_all {
        plural(n, "result")
    } else {
        format!("{n} of {}", plural(input.n_all, "result"))
    };
    let mut html = format!("<div id=\"found\">\n<p class=\"quiet\" role=\"status\">{count}</p>\n");
    match (n, input.n_all) {
        (0, 0) => html.push_str("<p>Nothing was measured here yet: <code>pgdyno run</code> does.</p>\n"),
        (0, _) => html.push_str("<p>Nothing has all of this. <a href=\"/\">Show all results</a></p>\n"),
        _ => html.push_str(&table(input.entries)),
    }
    html.push_str("</div>\n");
    if input.n_all > 1 {
        html.push_str(
            "<div class=\"picked\"><button type=\"submit\" form=\"pick\" class=\"act\">Compare</button>\
             <output form=\"pick\" id=\"n-picked\">Pick two results to compare them, or more to see them next to each other.</output></div>\n",
        );
    }
    html
}

fn table(entries: &[&ListedResult]) -> String {
    // Roles are written out, because a narrow screen shows rows as blocks, which takes a table's own roles away.
    let mut html = String::with_capacity(entries.len() * 900);
    html.push_str(
        "<table class=\"results\" role=\"table\" aria-label=\"Results, newest first\"><thead role=\"rowgroup\"><tr role=\"row\">\
         <th role=\"columnheader\" scope=\"col\"><span class=\"unseen\">Pick</span></th><th role=\"columnheader\" scope=\"col\">Result</th>\
         <th role=\"columnheader\" scope=\"col\">Verdict</th><th role=\"columnheader\" scope=\"col\">Limiter</th>\
         <th role=\"columnheader\" scope=\"col\">Load, server, machine</th><th role=\"columnheader\" scope=\"col\">When, runs</th>\
         </tr></thead><tbody role=\"rowgroup\">\n",
    );
    entries.iter().for_each(|entry| html.push_str(&row(entry)));
    html.push_str("</tbody></table>\n");
    html
}

fn row(entry: &ListedResult) -> String {
    let address = encoded(&entry.name);
    let name = escape_html(&entry.name);
    let title = match entry.title.as_str() {
        "" => &entry.experiment,
        title => title,
    };
    let (to, verdict) = match (entry.is_running, entry.grade) {
        (true, _) => (
            format!("/live/{address}"),
            "<span class=\"badge note\"><i aria-hidden=\"true\">●</i>running</span>".to_string(),
        ),
        (false, Some(grade)) => (format!("/result/{address}"), badge(grade)),
        (false, None) => {
            (format!("/result/{address}"), "<span class=\"badge none\">no answer</span>".to_string())
        }
    };
    let runs = if entry.n_completed == entry.n_planned {
        plural(entry.n_planned, "run")
    } else {
        format!("{} of {}", entry.n_completed, plural(entry.n_planned, "run"))
    };
    let state = match entry.state {
        "" => String::new(),
        state => format!(", {state}"),
    };
    format!(
        "<tr role=\"row\"><td role=\"cell\"><input type=\"checkbox\" form=\"pick\" name=\"r\" value=\"{name}\" aria-label=\"Pick {name}\"></td>\
         <th role=\"rowheader\" scope=\"row\"><a href=\"{to}\">{}</a><span class=\"of\"><a href=\"/history/{}\">{}</a> <i>·</i> {name}</span>\
         <span class=\"says\">{}</span></th>\
         <td role=\"cell\">{verdict}<span class=\"of\">{}</span></td><td role=\"cell\">{}</td><td role=\"cell\">{}</td>\
         <td role=\"cell\"><time>{}</time><span>{runs}{state}</span></td></tr>\n",
        escape_html(title),
        encoded(&entry.experiment),
        escape_html(&entry.experiment),
        escape_html(&entry.headline),
        escape_html(&entry.throughput),
        escape_html(&entry.limiter),
        facts(entry),
        escape_html(&format::utc(entry.made_unix_ns)),
    )
}

fn facts(entry: &ListedResult) -> String {
    let facts = [&entry.workload, &entry.version, &entry.machine];
    let shown = facts.iter().filter(|fact| !fact.is_empty());
    shown
        .map(|fact| format!("<span title=\"{}\">{}</span>", escape_html(fact), escape_html(&few(fact))))
        .collect()
}

/// The first names of a list; how many more there are.
fn few(names: &str) -> String {
    match names.match_indices(", ").nth(N_NAMES - 1) {
        Some((end, rest)) => {
            let n_more = names[end + rest.len()..].split(", ").count();
            if n_more > 1 { format!("{} and {n_more} more", &names[..end]) } else { names.to_string() }
        }
        None => names.to_string(),
    }
}

fn damaged(damaged: &[String]) -> String {
    if damaged.is_empty() {
        return String::new();
    }
    let items: String = damaged.iter().map(|reason| format!("<li>{}</li>", escape_html(reason))).collect();
    format!(
        "<details class=\"fold\"><summary>{} cannot be read</summary><ul>{items}</ul></details>\n",
        plural(damaged.len(), "result")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut() {
        for (names, expected) in [
            ("", ""),
            ("one", "one"),
            ("a, b, c, d, e", "a, b, c, d, e"),
            ("a, b, c, d, e, f", "a, b, c, d and 2 more"),
        ] {
            assert_eq!(few(names), expected);
        }
    }
}
