//! Pages that a server has besides those of results: the list, what runs now, histories, several results next to each other.
//!
//! They have the style, the script and the figures of the report. All input is values; a server reads the files and the clock.

mod history;
mod list;
mod now;
mod plan;
mod several;

pub use crate::html::timeline::live::{Lacking, LiveCharts, Reached};
pub use crate::shell::Page;
pub use history::history;
pub use list::{FilterChoice, ListFilter, ListInput, ListedResult, list};
pub use now::{ExperimentState, LivePage, NowFigures, findings_so_far, live, now};
pub use plan::{PlanHead, PlanInput, RunOfPlan, RunProgress, page as plan_page, plan};
pub use several::{Several, several};

use crate::escape::{self, escape_html};
use crate::html::data::Data;
use crate::html::{self, PageDelivery};
use crate::shell::PageShell;
use crate::{ComparisonInput, Input};

const STYLE: &str = include_str!("../assets/site.css");

/// A page of a server, around its own part.
struct Site<'a> {
    title: &'a str,
    tool_version: &'a str,
    /// Links of the bar, as HTML.
    links: &'a str,
    /// The main part, as HTML.
    main: &'a str,
    script: &'a str,
    data: Data,
    has_charts: bool,
}

impl<'a> Site<'a> {
    /// A page of text and tables.
    fn plain(title: &'a str, tool_version: &'a str, links: &'a str, main: &'a str) -> Site<'a> {
        Site { title, tool_version, links, main, script: "", data: html::data::nothing(), has_charts: false }
    }

    fn page(self) -> Page {
        let body = format!(
            "{}{}</main>\n<footer>Served by pgdyno {}.</footer>\n",
            html::bar("page", "/", self.links),
            self.main,
            escape_html(self.tool_version)
        );
        let shell = PageShell {
            title: self.title,
            tool_version: self.tool_version,
            style: STYLE,
            script: self.script,
            body: &body,
            data: &escape::json(&self.data),
            has_charts: self.has_charts,
            is_served: true,
        };
        shell.page()
    }
}

/// A link of the bar; the page that it leads to if it is this one is marked.
#[derive(Debug, Clone, Copy)]
pub struct BarLink<'a> {
    /// Address.
    pub to: &'a str,
    /// Text for people.
    pub words: &'a str,
    /// Whether it leads to the page itself.
    pub is_here: bool,
}

fn links(all: &[BarLink]) -> String {
    let link = |link: &BarLink| {
        let here = if link.is_here { " aria-current=\"page\"" } else { "" };
        format!("<a href=\"{}\"{here}>{}</a>", escape_html(link.to), escape_html(link.words))
    };
    all.iter().map(link).collect()
}

/// The report of an experiment as a page of a server, with links to others.
pub fn result(input: &Input, back: &[BarLink]) -> Page {
    html::page(input, PageDelivery::Served(&links(back)))
}

/// A comparison as a page of a server, with links to others.
pub fn comparison(input: &ComparisonInput, back: &[BarLink]) -> Page {
    html::comparison_page(input, PageDelivery::Served(&links(back)))
}

/// A page that says why there is no other.
pub fn notice(title: &str, words: &str, back: &[BarLink], tool_version: &str) -> Page {
    let main = format!("<header>\n<h1>{}</h1>\n{}</header>\n", escape_html(title), paragraphs(words));
    Site::plain(title, tool_version, &links(back), &main).page()
}

/// A text whose first line is a sentence; what follows it keeps its lines.
fn paragraphs(words: &str) -> String {
    let (first, rest) = words.split_once('\n').unwrap_or((words, ""));
    let rest = if rest.is_empty() { String::new() } else { format!("<pre>{}</pre>\n", escape_html(rest)) };
    format!("<p class=\"answer\">{}</p>\n{rest}", escape_html(first))
}

/// What a page asks before something is done.
#[derive(Debug, Clone, Copy)]
pub struct PageQuestion<'a> {
    /// The question.
    pub title: &'a str,
    /// Why it is asked, over several lines.
    pub reason: &'a str,
    /// The address at which the answer yes is posted.
    pub to: &'a str,
    /// Words for yes.
    pub button: &'a str,
}

/// A page that asks for a consent.
pub fn question(question: &PageQuestion, back: &[BarLink], tool_version: &str) -> Page {
    let main = format!(
        "<header>\n<h1>{}</h1>\n{}<form method=\"post\" action=\"{}\"><button type=\"submit\" class=\"act\">{}</button></form>\n</header>\n",
        escape_html(question.title),
        paragraphs(question.reason),
        escape_html(question.to),
        escape_html(question.button)
    );
    Site::plain(question.title, tool_version, &links(back), &main).page()
}

/// The page that asks for the token of a server, and has the browser keep it for this address and port.
pub fn login(tool_version: &str) -> Page {
    let main = "<header>\n<h1>The token, please</h1>\n<p class=\"question\">pgdyno printed it where this server was started.</p>\n\
                <p class=\"banner\" role=\"alert\" hidden>This is not the token.</p>\n\
                <form class=\"login\"><label for=\"token\">Token</label>\
                <input id=\"token\" type=\"password\" autocomplete=\"off\" required>\
                <button type=\"submit\" class=\"act\">Open</button></form>\n</header>\n";
    let script = include_str!("../assets/login.js");
    Site { script, ..Site::plain("pgdyno", tool_version, "", main) }.page()
}

/// A name as a part of an address.
pub fn encoded(name: &str) -> String {
    let mut address = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                address.push(char::from(byte))
            }
            other => address.push_str(&format!("%{other:02X}")),
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_for_addresses() {
        for (name, expected) in [("a-b_1.2~", "a-b_1.2~"), ("a b/..", "a%20b%2F.."), ("ü&?", "%C3%BC%26%3F")]
        {
            assert_eq!(encoded(name), expected);
        }
    }

    #[test]
    fn assets_of_a_site_cannot_end_their_element() {
        let assets = [
            STYLE,
            include_str!("../assets/login.js"),
            include_str!("../assets/list.js"),
            include_str!("../assets/live.js"),
        ];
        for source in assets {
            let lower = source.to_ascii_lowercase();
            for end in ["</script", "</style", "<!--"] {
                assert!(!lower.contains(end), "an asset contains {end}");
            }
        }
    }
}
