//! Targets by their labels: a panel for each size, bars grouped by provider, one for each region.

use std::collections::BTreeSet;

use analysis::case::labels;
use analysis::summary::{CaseSummary, Study};
use model::text::prose::shown;

use super::super::escape::escape_html;
use super::super::thinning;
use crate::axis;
use crate::prose::{factors as told, format, phrases};

/// More panels than this are in the table of cases only.
const PANELS_MAX: usize = 12;
/// The label whose levels have panels of their own.
const SIZE: &str = "target.size";
/// The label that groups bars.
const PROVIDER: &str = "target.provider";

/// Bars of one panel, in groups.
struct Panel<'a> {
    /// Levels that all of its bars share.
    name: String,
    /// Names of the groups, with their bars: name and case.
    groups: Vec<(String, Vec<(String, &'a CaseSummary)>)>,
}

/// The bars; empty unless targets differ in their labels.
pub(super) fn section(study: &Study) -> String {
    let labels = labels::varying(study);
    if labels.is_empty() {
        return String::new();
    }
    let panels = panels(study, &labels);
    let n_bars: usize = panels.iter().flat_map(|panel| &panel.groups).map(|(_, bars)| bars.len()).sum();
    if panels.len() > PANELS_MAX || n_bars < 2 {
        return String::new();
    }
    let most = study.cases.iter().filter_map(|case| stats::quantile(&case.tps, 1.0)).fold(0.0, f64::max);
    let words: Vec<String> = labels.iter().map(|key| axis::factor_words(key)).collect();
    let mut html = format!(
        "<h3>Targets by {}</h3><p class=\"quiet\">Median throughput, tps; mark: from the lowest to the highest run. All panels have \
         one scale.</p><div class=\"trio targets\">",
        escape_html(&words.join(", "))
    );
    panels.iter().for_each(|panel| html.push_str(&figure(panel, most.max(1e-9))));
    html + "</div>\n"
}

/// The cases with a number in panels and groups.
fn panels<'a>(study: &'a Study, labels: &[String]) -> Vec<Panel<'a>> {
    // Everything but the target itself, which its labels replace, and its size have panels.
    let mut apart: Vec<String> = told::columns(study).into_iter().filter(|key| key != "target").collect();
    let (sizes, rest): (Vec<String>, Vec<String>) =
        labels.iter().cloned().partition(|key| key == SIZE && labels.len() > 1);
    apart.splice(0..0, sizes);
    let (group, bar): (Vec<String>, Vec<String>) = match rest.len() {
        0 | 1 => (Vec::new(), rest),
        _ => {
            let first = rest.iter().find(|key| *key == PROVIDER).unwrap_or(&rest[0]).clone();
            rest.into_iter().partition(|key| *key == first)
        }
    };
    let bar = needed(study, &[&apart[..], &group[..]].concat(), bar);
    let mut panels: Vec<Panel> = Vec::new();
    for case in study.cases.iter().filter(|case| case.tps_median.is_some()) {
        let [panel, group, mut bar] = [named(case, &apart), bare(case, &group), bare(case, &bar)];
        if bar.is_empty() {
            bar = case.case.level("target").unwrap_or(&case.label).to_string();
        }
        let at = panels.iter().position(|other| other.name == panel).unwrap_or_else(|| {
            panels.push(Panel { name: panel, groups: Vec::new() });
            panels.len() - 1
        });
        let groups = &mut panels[at].groups;
        match groups.iter_mut().find(|(name, _)| *name == group) {
            Some((_, bars)) => bars.push((bar, case)),
            None => groups.push((group, vec![(bar, case)])),
        }
    }
    panels
}

/// The labels without which some bars of a group would have one name: a region tells the country, but not the reverse.
fn needed(study: &Study, elsewhere: &[String], mut keys: Vec<String>) -> Vec<String> {
    let n_names = |keys: &[String]| {
        let names = study.cases.iter().map(|case| (named(case, elsewhere), bare(case, keys)));
        names.collect::<BTreeSet<(String, String)>>().len()
    };
    let all = n_names(&keys);
    for at in (0..keys.len()).rev() {
        let mut fewer = keys.clone();
        fewer.remove(at);
        if !fewer.is_empty() && n_names(&fewer) == all {
            keys = fewer;
        }
    }
    keys
}

fn named(case: &CaseSummary, keys: &[String]) -> String {
    let level = |key: &String| Some(format!("{} {}", axis::factor_words(key), shown(case.case.level(key)?)));
    keys.iter().filter_map(level).collect::<Vec<_>>().join(", ")
}

fn bare(case: &CaseSummary, keys: &[String]) -> String {
    keys.iter().filter_map(|key| case.case.level(key)).collect::<Vec<_>>().join(", ")
}

fn figure(panel: &Panel, most: f64) -> String {
    let mut rows = String::new();
    for (name, bars) in &panel.groups {
        if !name.is_empty() {
            rows.push_str(&format!(
                "<tr><th colspan=\"3\" scope=\"rowgroup\">{}</th></tr>\n",
                escape_html(name)
            ));
        }
        bars.iter().for_each(|(name, case)| rows.push_str(&bar(name, case, most)));
    }
    let caption = match panel.name.as_str() {
        "" => "All targets".to_string(),
        name => phrases::capital(name),
    };
    format!(
        "<figure><figcaption><strong>{0}</strong></figcaption><table aria-label=\"{0}\" class=\"bars\"><colgroup><col class=\"name\"><col><col class=\"figure\"></colgroup><tbody>\n{rows}</tbody></table></figure>\n",
        escape_html(&caption)
    )
}

fn bar(name: &str, case: &CaseSummary, most: f64) -> String {
    let width = |tps: f64| (100.0 * tps / most).clamp(0.2, 100.0);
    let median = case.tps_median.unwrap_or(0.0);
    let range = match (stats::quantile(&case.tps, 0.0), stats::quantile(&case.tps, 1.0)) {
        (Some(low), Some(high)) if high > low => {
            format!("<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"5\" y2=\"5\"/>", width(low), width(high))
        }
        _ => String::new(),
    };
    format!(
        "<tr title=\"{}\"><th scope=\"row\">{}</th><td><svg class=\"bar\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" \
         aria-hidden=\"true\"><rect width=\"{:.1}\" height=\"10\"/>{range}</svg></td><td>{}</td></tr>\n",
        escape_html(&case.label),
        escape_html(name),
        width(median),
        format::tps(thinning::rounded(median).unwrap_or(median))
    )
}
