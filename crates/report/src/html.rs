//! The page: one HTML file that contains its style, its script, the chart library and its data.
//!
//! Rust writes all text and tables, so that the page can be read without its script; the script only draws charts from
//! the data block. The page may load nothing: its policy names the hash of each script and style.

mod capacity;
mod comparison;
pub(crate) mod data;
mod disclosure;
mod factors;
pub(crate) mod lead;
mod limits;
mod panels;
mod scripts;
mod tables;
pub(crate) mod thinning;
pub(crate) mod timeline;
mod tpcc;
mod uncertainty;
mod variation;

use crate::axis::Axis;
use crate::escape::{self, escape_html};
use crate::prose::{conditions, format, headline};
use crate::shell::{Page, PageShell};
use crate::{ComparisonInput, Input, axis};
pub(crate) use disclosure::not_default;
#[cfg(test)]
pub(crate) use factors::matrix::HEAT_STEPS;

/// How the page of a result reaches its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageDelivery<'a> {
    /// In a file of its own.
    File,
    /// On a server, with other results: these links, as HTML, lead to them.
    Served(&'a str),
}

/// The page of an experiment.
pub(crate) fn page(input: &Input, delivery: PageDelivery) -> Page {
    let axis = axis::arrange(input.study);
    let document = Document {
        title: headline::title(input.study),
        head: lead::head(input),
        sections: sections(input, &axis),
        data: data::from_study(input.study, &axis, Vec::new()),
        conditions: conditions::line(&input.study.plan),
        made: format::utc(input.study.plan.made_unix_ns),
        tool_version: input.tool_version,
        delivery,
    };
    document.page()
}

/// The page of a comparison: for one experiment with all its sections, for two with what concerns both.
pub(crate) fn comparison_page(input: &ComparisonInput, delivery: PageDelivery) -> Page {
    let headings = comparison::headings(input.purpose());
    let mut sections = vec![
        Section { id: "pairs", name: headings.0, body: comparison::pairs(input) },
        Section { id: "differences", name: "Differences", body: comparison::differences(input) },
    ];
    let ratios = comparison::data(input.cases);
    let data = match input.experiments {
        [one] => {
            let axis = axis::arrange(one.study);
            // The best case, and percentages of a baseline, are not judged by pairs.
            let more = self::sections(&one.input(input.tool_version), &axis);
            sections.extend(more.into_iter().filter(|section| section.id != "factors"));
            data::from_study(one.study, &axis, ratios)
        }
        several => {
            let ids = [("findings-a", "disclosure-a"), ("findings-b", "disclosure-b")];
            for ((one, (findings, disclosure)), names) in several.iter().zip(ids).zip(headings.1) {
                let of_one = one.input(input.tool_version);
                sections.push(Section { id: findings, name: names[0], body: lead::findings(one.study) });
                let body = disclosure::section(&of_one);
                sections.push(Section { id: disclosure, name: names[1], body });
            }
            sections.sort_by_key(|section| section.id.starts_with("disclosure"));
            data::of_ratios(ratios)
        }
    };
    if !input.commands.is_empty() {
        let body = format!("<pre>{}</pre>\n", escape_html(&input.commands.join("\n")));
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
        delivery,
    };
    document.page()
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
    delivery: PageDelivery<'a>,
}

impl Document<'_> {
    fn page(self) -> Page {
        let shell = PageShell {
            title: &self.title,
            tool_version: self.tool_version,
            style: "",
            script: "",
            body: &self.body(),
            data: &escape::json(&self.data),
            has_charts: true,
            is_served: self.delivery != PageDelivery::File,
        };
        shell.page()
    }

    fn body(&self) -> String {
        let shown = || self.sections.iter().filter(|section| !section.body.is_empty());
        let links: String =
            shown().map(|s| format!("<a href=\"#{}\">{}</a>", s.id, escape_html(s.name))).collect();
        let (brand, back) = match self.delivery {
            PageDelivery::File => ("#top", ""),
            PageDelivery::Served(back) => ("/", back),
        };
        let mut body = bar("report", brand, &format!("{back}{links}"));
        body.push_str(&self.head);
        for section in shown() {
            body.push_str(&format!(
                "<section id=\"{0}\" aria-labelledby=\"{0}-h\">\n<h2 id=\"{0}-h\">{1}</h2>\n{2}</section>\n",
                section.id,
                escape_html(section.name),
                named(&self.with_conditions(&section.body), section.name)
            ));
        }
        body.push_str(&format!(
            "</main>\n<footer>Drawn by pgdyno {} from the records of {}. Numbers in <code>runs.csv</code> are unrounded.</footer>\n",
            escape_html(self.tool_version),
            escape_html(&self.made)
        ));
        body
    }
}

/// The bar at the top of a page, and the beginning of its main part.
pub(crate) fn bar(what: &str, brand: &str, links: &str) -> String {
    format!(
        "<a class=\"skip\" href=\"#top\">Skip to the {what}</a>\n\
         <nav class=\"bar\" aria-label=\"Sections\"><a class=\"brand\" href=\"{brand}\">pgdyno</a>\
         <div class=\"links\">{links}</div>\
         <button type=\"button\" id=\"theme\" aria-label=\"Switch between light and dark\">\
         <svg viewBox=\"0 0 16 16\" aria-hidden=\"true\"><circle cx=\"8\" cy=\"8\" r=\"6.5\"/><path d=\"M8 1.5a6.5 6.5 0 0 1 0 13z\"/></svg>\
         </button></nav>\n<main id=\"top\" tabindex=\"-1\">\n"
    )
}

impl Document<'_> {
    /// A section whose figures say in their captions which conditions they hold under.
    fn with_conditions(&self, body: &str) -> String {
        match &self.conditions {
            None => body.to_string(),
            Some(line) => {
                let caption =
                    format!(" <span class=\"note conditions\">{}</span></figcaption>", escape_html(line));
                body.replace("</figcaption>", &caption)
            }
        }
    }
}

/// Outages, what limited the load, the figures, the chart, what spoiled them, and the rest. For a single case the figures are in the head.
fn sections(input: &Input, axis: &Axis) -> Vec<Section> {
    let study = input.study;
    let cases = |shown: bool| Section {
        id: "cases",
        name: "Cases",
        body: if shown { tables::cases(study, axis) } else { String::new() },
    };
    let is_one = study.cases.len() == 1;
    let is_analytical = study.cases.iter().any(|case| case.analytical.is_some());
    let scripts = || scripts::section(study, axis);
    vec![
        Section { id: "outages", name: "Outages", body: tables::outages::section(study, axis) },
        Section { id: "limits", name: "What limited it", body: limits::section(study, axis) },
        Section {
            id: "profile",
            name: "Where the processor time went",
            body: limits::profile::section(study, &input.data.profiles),
        },
        cases(!is_one),
        Section {
            id: "queries",
            name: "Queries",
            body: if is_analytical { scripts() } else { String::new() },
        },
        Section { id: "throughput", name: "Throughput", body: tables::throughput(study, axis) },
        Section { id: "capacity", name: "Highest rate", body: capacity::section(study, axis) },
        Section { id: "findings", name: "Findings", body: lead::findings(study) },
        Section { id: "latency", name: "Latency", body: tables::latency(study, axis) },
        cases(is_one),
        Section { id: "factors", name: "Factors", body: factors::section(study, axis) },
        Section { id: "uncertainty", name: "How far off", body: uncertainty::section(study, axis) },
        Section { id: "costs", name: "What a transaction costs", body: tables::costs::section(study, axis) },
        Section { id: "variation", name: "Variation", body: variation::section(study, axis) },
        Section { id: "tpcc", name: "TPC-C", body: tpcc::section(study, axis) },
        Section { id: "time", name: "Over time", body: timeline::section(study, axis) },
        Section {
            id: "scripts",
            name: "Transactions",
            body: if is_analytical { String::new() } else { scripts() },
        },
        Section { id: "fidelity", name: "Fidelity to the source", body: scripts::fidelity::section(study) },
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
pub(crate) struct ChartFigure<'a> {
    pub(crate) id: &'a str,
    pub(crate) title: &'a str,
    pub(crate) note: &'a str,
    pub(crate) height: &'a str,
    pub(crate) table: &'a str,
}

impl ChartFigure<'_> {
    pub(crate) fn html(&self) -> String {
        let note = match self.note {
            "" => String::new(),
            note => format!(" <span class=\"note\">{}</span>", escape_html(note)),
        };
        let table = match self.table {
            "" => String::new(),
            table => folded(self.title, table),
        };
        format!(
            "<figure><figcaption><strong>{}</strong>{note}</figcaption>\
             <div class=\"chart {}\" data-chart=\"{}\"></div>{table}</figure>\n",
            escape_html(self.title),
            self.height,
            escape_html(self.id)
        )
    }
}

/// The table of the figure with this title, folded.
pub(crate) fn folded(title: &str, table: &str) -> String {
    format!(
        "<details class=\"data\"><summary aria-label=\"Table: {}\">Table</summary>{}</details>",
        escape_html(title),
        named(table, title)
    )
}

/// What a screen reader says of a table, until the part that it stands in gives it that part's name.
const NAMELESS: &str = "aria-label=\"Table\"";

/// Gives tables the name of the part that they stand in, unless they have one.
pub(crate) fn named(html: &str, part: &str) -> String {
    html.replace(NAMELESS, &format!("aria-label=\"{}\"", escape_html(part)))
}

/// A table with a header; the cells are already HTML.
pub(crate) fn table(class: &str, heads: &[&str], rows: &[Vec<String>]) -> String {
    let mut html = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" {NAMELESS}><table {NAMELESS} class=\"{class}\"><thead><tr>"
    );
    for head in heads {
        html.push_str(&format!("<th scope=\"col\">{}</th>", escape_html(head)));
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
