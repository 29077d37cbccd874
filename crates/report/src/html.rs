//! The page: one HTML file that contains its style, its script, the chart library and its data.
//!
//! Rust writes all text and tables, so that the page can be read without its script; the script only draws charts from
//! the data block. The page may load nothing: its policy names the hash of each script and style.

mod capacity;
mod comparison;
mod data;
mod disclosure;
mod escape;
mod factors;
mod lead;
mod limits;
mod panels;
mod scripts;
mod tables;
pub(crate) mod thinning;
pub(crate) mod timeline;
mod tpcc;
mod variation;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::axis::Axis;
use crate::prose::{conditions, format, headline};
use crate::{ComparisonInput, Input, axis};
pub(crate) use disclosure::not_default;
use escape::text;
#[cfg(test)]
pub(crate) use factors::matrix::HEAT_STEPS;

const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = concat!(
    include_str!("../assets/page.js"),
    "\n",
    include_str!("../assets/lines.js"),
    "\n",
    include_str!("../assets/cases.js"),
    "\n",
    include_str!("../assets/pairs.js"),
    "\n",
    include_str!("../assets/factors.js"),
    "\n",
    include_str!("../assets/capacity.js"),
    "\n",
    include_str!("../assets/time.js"),
    "\n",
    include_str!("../assets/heat.js"),
    "\n",
    include_str!("../assets/compare.js")
);
const ECHARTS: &str = include_str!("../assets/echarts/echarts.min.js");

/// The page of an experiment.
pub(crate) fn page(input: &Input) -> String {
    let axis = axis::arrange(input.study);
    let document = Document {
        title: headline::title(input.study),
        head: lead::head(input),
        sections: sections(input, &axis),
        data: data::of(input.study, &axis, Vec::new()),
        conditions: conditions::line(&input.study.plan),
        made: format::utc(input.study.plan.made_unix_ns),
        tool_version: input.tool_version,
    };
    document.html()
}

/// The page of a comparison: for one experiment with all its sections, for two with what concerns both.
pub(crate) fn comparison_page(input: &ComparisonInput) -> String {
    let mut sections = vec![
        Section { id: "pairs", name: "A and B", body: comparison::pairs(input) },
        Section { id: "differences", name: "Differences", body: comparison::differences(input) },
    ];
    let ratios = comparison::data(input.cases);
    let data = match input.experiments {
        [one] => {
            let axis = axis::arrange(one.study);
            // The best case, and percentages of a baseline, are not judged by pairs.
            let more = self::sections(&one.input(input.tool_version), &axis);
            sections.extend(more.into_iter().filter(|section| section.id != "factors"));
            data::of(one.study, &axis, ratios)
        }
        several => {
            for (one, (findings, disclosure)) in several.iter().zip([
                (("findings-a", "Findings of A"), ("disclosure-a", "Disclosure of A")),
                (("findings-b", "Findings of B"), ("disclosure-b", "Disclosure of B")),
            ]) {
                let of_one = one.input(input.tool_version);
                let (id, name) = findings;
                sections.push(Section { id, name, body: lead::findings(one.study) });
                let (id, name) = disclosure;
                sections.push(Section { id, name, body: disclosure::section(&of_one) });
            }
            sections.sort_by_key(|section| section.id.starts_with("disclosure"));
            data::of_ratios(ratios)
        }
    };
    if !input.commands.is_empty() {
        let body = format!("<pre>{}</pre>\n", text(&input.commands.join("\n")));
        sections.push(Section { id: "again", name: "Repeat this comparison", body });
    }
    let document = Document {
        title: crate::comparison::title(input),
        head: lead::comparison_head(input),
        sections,
        data,
        conditions: input.experiments.first().and_then(|one| conditions::line(&one.study.plan)),
        made: comparison::made(input),
        tool_version: input.tool_version,
    };
    document.html()
}

/// The parts of a page.
struct Document<'a> {
    title: String,
    head: String,
    sections: Vec<Section>,
    data: data::Data,
    /// What the study's figures hold under: it stands in the caption of each.
    conditions: Option<String>,
    /// When the data was measured.
    made: String,
    tool_version: &'a str,
}

impl Document<'_> {
    fn html(self) -> String {
        let policy = format!(
            "default-src 'none'; script-src '{}' '{}'; style-src '{}'; base-uri 'none'; form-action 'none'",
            hash(SCRIPT),
            hash(ECHARTS),
            hash(STYLE)
        );
        let mut page = String::with_capacity(ECHARTS.len() + 1_000_000);
        // The page's script comes first, so that it sees every error and violation; it waits for the document.
        page.push_str(&format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta name=\"generator\" content=\"pgdyno {}\">\n\
             <title>{}</title>\n<script>{SCRIPT}</script>\n<style>{STYLE}</style>\n</head>\n<body>\n",
            text(self.tool_version),
            text(&self.title)
        ));
        page.push_str(&self.body());
        page.push_str("<script type=\"application/json\" id=\"data\">");
        page.push_str(&escape::json(&self.data));
        page.push_str("</script>\n<script>");
        page.push_str(ECHARTS);
        page.push_str("</script>\n</body>\n</html>\n");
        page
    }

    fn body(&self) -> String {
        let shown = || self.sections.iter().filter(|section| !section.body.is_empty());
        let links: String = shown().map(|s| format!("<a href=\"#{}\">{}</a>", s.id, text(s.name))).collect();
        let mut body = format!(
            "<a class=\"skip\" href=\"#top\">Skip to the report</a>\n\
             <nav class=\"bar\" aria-label=\"Sections\"><a class=\"brand\" href=\"#top\">pgdyno</a>\
             <div class=\"links\">{links}</div>\
             <button type=\"button\" id=\"theme\" aria-label=\"Switch between light and dark\">\
             <svg viewBox=\"0 0 16 16\" aria-hidden=\"true\"><circle cx=\"8\" cy=\"8\" r=\"6.5\"/><path d=\"M8 1.5a6.5 6.5 0 0 1 0 13z\"/></svg>\
             </button></nav>\n<main id=\"top\" tabindex=\"-1\">\n{}",
            self.head
        );
        for section in shown() {
            body.push_str(&format!(
                "<section id=\"{0}\" aria-labelledby=\"{0}-h\">\n<h2 id=\"{0}-h\">{1}</h2>\n{2}</section>\n",
                section.id,
                text(section.name),
                self.with_conditions(&section.body)
            ));
        }
        body.push_str(&format!(
            "</main>\n<footer>Drawn by pgdyno {} from the records of {}. Numbers in <code>runs.csv</code> are unrounded.</footer>\n",
            text(self.tool_version),
            text(&self.made)
        ));
        body
    }
}

impl Document<'_> {
    /// A section whose figures say in their captions which conditions they hold under.
    fn with_conditions(&self, body: &str) -> String {
        match &self.conditions {
            None => body.to_string(),
            Some(line) => {
                let caption = format!(" <span class=\"note conditions\">{}</span></figcaption>", text(line));
                body.replace("</figcaption>", &caption)
            }
        }
    }
}

/// What limited the load, the figures, the chart, what spoiled them, and the rest. For a single case the figures are in the head.
fn sections(input: &Input, axis: &Axis) -> Vec<Section> {
    let study = input.study;
    let cases = |shown: bool| Section {
        id: "cases",
        name: "Cases",
        body: if shown { tables::cases(study, axis) } else { String::new() },
    };
    let is_one = study.cases.len() == 1;
    vec![
        Section { id: "limits", name: "What limited it", body: limits::section(study, axis) },
        Section {
            id: "profile",
            name: "Where the processor time went",
            body: limits::profile::section(study, &input.data.profiles),
        },
        cases(!is_one),
        Section { id: "throughput", name: "Throughput", body: tables::throughput(study, axis) },
        Section { id: "capacity", name: "Highest rate", body: capacity::section(study, axis) },
        Section { id: "findings", name: "Findings", body: lead::findings(study) },
        Section { id: "latency", name: "Latency", body: tables::latency(study, axis) },
        cases(is_one),
        Section { id: "factors", name: "Factors", body: factors::section(study, axis) },
        Section { id: "variation", name: "Variation", body: variation::section(study, axis) },
        Section { id: "tpcc", name: "TPC-C", body: tpcc::section(study, axis) },
        Section { id: "time", name: "Over time", body: timeline::section(study, axis) },
        Section { id: "scripts", name: "Scripts", body: scripts::section(study, axis) },
        Section { id: "statements", name: "Statements", body: tables::statements(study, axis) },
        Section { id: "runs", name: "Runs", body: tables::runs(study, axis) },
        Section { id: "disclosure", name: "Disclosure", body: disclosure::section(input) },
    ]
}

/// A section of the page; omitted if its body is empty.
struct Section {
    id: &'static str,
    name: &'static str,
    body: String,
}

/// A chart's place, with its text alternative and its table.
struct Figure<'a> {
    id: &'a str,
    title: &'a str,
    note: &'a str,
    height: &'a str,
    table: &'a str,
}

impl Figure<'_> {
    fn html(&self) -> String {
        let note = match self.note {
            "" => String::new(),
            note => format!(" <span class=\"note\">{}</span>", text(note)),
        };
        let table = match self.table {
            "" => String::new(),
            table => format!("<details class=\"data\"><summary>Table</summary>{table}</details>"),
        };
        format!(
            "<figure><figcaption><strong>{}</strong>{note}</figcaption>\
             <div class=\"chart {}\" data-chart=\"{}\"></div>{table}</figure>\n",
            text(self.title),
            self.height,
            text(self.id)
        )
    }
}

/// A table with a header; the cells are already HTML.
fn table(class: &str, heads: &[&str], rows: &[Vec<String>]) -> String {
    let mut html = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table class=\"{class}\"><thead><tr>"
    );
    for head in heads {
        html.push_str(&format!("<th scope=\"col\">{}</th>", text(head)));
    }
    html.push_str("</tr></thead><tbody>\n");
    for row in rows {
        html.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            match i {
                0 => html.push_str(&format!("<th scope=\"row\">{cell}</th>")),
                _ => html.push_str(&format!("<td>{cell}</td>")),
            }
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>");
    html
}

/// A source expression of the policy for an inline script or style.
fn hash(source: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(source.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_library_is_the_one_described() {
        let readme = include_str!("../assets/echarts/README.md");
        let sum: String =
            Sha256::digest(ECHARTS.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(readme.contains(&sum), "echarts.min.js has SHA-256 {sum}; its README says otherwise");
    }

    #[test]
    fn inlined_assets_cannot_end_their_element() {
        for source in [SCRIPT, ECHARTS, STYLE] {
            let lower = source.to_ascii_lowercase();
            for end in ["</script", "</style", "<!--"] {
                assert!(!lower.contains(end), "an asset contains {end}");
            }
        }
    }
}
