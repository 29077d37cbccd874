//! What is measured now: the page, and the parts of it that a server sends again when they change.

use analysis::finding::Finding;
use analysis::summary::limiter::Limiter;
use analysis::summary::{RunSummary, Second};

use super::{BarLink, Page, Site, encoded, links};
use crate::escape::escape_html;
use crate::html::data;
use crate::html::lead::{self, tiles};
use crate::prose::condense::{About, FindingGroup, Occurrence};
use crate::prose::{format, phrases};

/// The state of an experiment that is being measured.
#[derive(Debug, Clone, Default)]
pub struct ExperimentState {
    /// Number of the run, if one is under way.
    pub run: Option<u32>,
    /// Runs in total, with those that are repeated.
    pub n_runs: usize,
    /// Runs that have ended.
    pub n_ended: usize,
    /// Label of the case of the run.
    pub label: String,
    /// What happens, in words: `measure`, `loading: rows 43 %`.
    pub doing: String,
    /// Seconds until the load of the run ends; `None` before it begins.
    pub load_left_s: Option<f64>,
    /// Seconds until the last run ends, as the line of progress says, or else by what runs took so far.
    pub left_s: Option<f64>,
    /// The part of all work that is done, 0 to 1.
    pub share: f64,
    /// The figures of the last second.
    pub figures: Option<NowFigures>,
}

/// Figures of one second of a load.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NowFigures {
    /// Committed transactions per second.
    pub tps: f64,
    /// Median, 95th and 99th percentile of latency, and the largest, nanoseconds.
    pub latency_ns: [Option<u64>; 4],
    /// Failed and unknown transactions.
    pub errors: u64,
    /// Busy share of the processors of the server's host.
    pub cpu: Option<f64>,
    /// WAL written, MiB per second.
    pub wal: Option<f64>,
    /// Bytes written to disks, MiB per second.
    pub written: Option<f64>,
    /// What limits the load, by the last minutes.
    pub limiter: Option<String>,
}

impl NowFigures {
    /// The figures of the last second of a summary; `None` if there is none.
    pub fn from_run(latest: &RunSummary) -> Option<NowFigures> {
        let Second { tps, errors, p50_ns, p95_ns, p99_ns, max_ns, .. } = *latest.seconds.last()?;
        let last = |panel: &str, counts: &dyn Fn(&str) -> bool| {
            let of_panel = latest.series.iter().filter(|one| one.panel == panel && counts(&one.name));
            of_panel.filter_map(|one| one.points.last()).map(|(_, value)| *value).reduce(|a, b| a + b)
        };
        let is_user = |name: &str| !name.starts_with("cpu");
        Some(NowFigures {
            tps,
            latency_ns: [p50_ns, p95_ns, p99_ns, max_ns],
            errors,
            cpu: last("cpu", &is_user).map(|percent| (percent / 100.0).min(1.0)),
            wal: last("wal", &|_| true),
            written: last("disk", &|name| name.ends_with("written")),
            limiter: None,
        })
    }

    /// With what limits the load.
    pub fn limited_by(self, limiter: Option<&Limiter>) -> NowFigures {
        NowFigures { limiter: limiter.map(|limiter| limiter.name.as_str().to_string()), ..self }
    }
}

/// The part of the page that says what happens now, with the figures of the last second.
pub fn now(now: &ExperimentState) -> String {
    let run = match now.run {
        Some(run) => format!("<b>Run {run} of {}</b><span>{}</span>", now.n_runs, escape_html(&now.label)),
        None => format!("<b>{} of {}</b>", now.n_ended, phrases::plural(now.n_runs, "run")),
    };
    let left = |s: Option<f64>, what: &str| match s {
        Some(s) => format!("<span>{} {what}</span>", escape_html(&span(s))),
        None => String::new(),
    };
    let mut html = format!(
        "<p class=\"phase\">{run}<span>{}</span>{}{}</p>\n<progress max=\"1\" value=\"{:.4}\" aria-label=\"Part of the experiment that is done\"></progress>\n",
        escape_html(&now.doing),
        left(now.load_left_s, "of this load left"),
        left(now.left_s, "left in all"),
        now.share.clamp(0.0, 1.0)
    );
    html.push_str(&now.figures.as_ref().map(figures).unwrap_or_default());
    html
}

fn figures(now: &NowFigures) -> String {
    let ms = |i: usize| now.latency_ns[i].map(|ns| format::ms(ns as f64));
    let shown = [
        (Some(format::tps(now.tps)), "tps", "throughput"),
        (ms(0), "ms", "p50 latency"),
        (ms(1), "ms", "p95 latency"),
        (ms(2), "ms", "p99 latency"),
        (now.cpu.map(|share| format::percent(share).replace(" %", "")), "%", "processors"),
        (now.wal.map(format::significant), "MiB/s", "WAL"),
        (now.written.map(format::significant), "MiB/s", "written to disk"),
        ((now.errors > 0).then(|| format::count(now.errors)), "/s", "errors"),
        (now.limiter.clone(), "", "limited by"),
    ];
    tiles(shown.into_iter().filter_map(|(value, unit, name)| Some((value?, unit, name))))
}

/// A length of time: `48 s`, `12 min`, `2 h 10 min`.
pub(super) fn span(s: f64) -> String {
    let s = s.max(0.0);
    match s {
        ..99.5 => format!("{s:.0} s"),
        ..5970.0 => format!("{:.0} min", s / 60.0),
        _ => format!("{:.0} h {:.0} min", (s / 3600.0).floor(), (s % 3600.0 / 60.0).floor()),
    }
}

/// The part of the page with the findings of a run so far.
pub fn findings_so_far(run: u32, label: &str, findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "<p class=\"quiet\">Nothing so far casts doubt on this run.</p>\n".to_string();
    }
    let item = |found: &Finding| {
        let about = About::Run(run, label.to_string());
        let group = FindingGroup {
            id: found.id,
            severity: found.severity,
            delays: false,
            found: vec![Occurrence::new(about, found)],
        };
        lead::finding(&group, 1)
    };
    format!("<ul class=\"findings\">\n{}</ul>\n", findings.iter().map(item).collect::<String>())
}

/// An experiment that is being measured, for its page.
#[derive(Debug, Clone, Copy)]
pub struct LivePage<'a> {
    /// Name of its directory.
    pub name: &'a str,
    /// Title.
    pub title: &'a str,
    /// Whether the page may ask to stop it.
    pub may_stop: bool,
    /// Number of the host whose runs are shown, of those that are measured side by side.
    pub lane: usize,
    /// These hosts; none if there is only one.
    pub lanes: &'a [BarLink<'a>],
}

/// The page of an experiment that is being measured.
pub fn live(page: &LivePage, back: &[BarLink], tool_version: &str) -> Page {
    let LivePage { name, title, may_stop, lane, lanes } = *page;
    let hosts = if lanes.is_empty() {
        String::new()
    } else {
        format!("<nav class=\"lanes\" aria-label=\"Measured side by side\">{}</nav>\n", links(lanes))
    };
    let stop = if may_stop {
        format!(
            "<form method=\"post\" action=\"/stop/{}\" class=\"acts\"><button type=\"submit\" class=\"quietly\">Stop the experiment</button></form>\n",
            encoded(name)
        )
    } else {
        String::new()
    };
    let main = format!(
        "<header class=\"small\">\n<p class=\"over\">{}</p>\n<h1>{}</h1>\n{hosts}<div id=\"now\" class=\"now\"></div>\n\
         <p id=\"line\" role=\"status\">Connecting …</p>\n<div id=\"ended\" role=\"status\"></div>\n{stop}</header>\n\
         <section aria-labelledby=\"found-h\"><h2 id=\"found-h\">Findings so far</h2><div id=\"findings\" aria-live=\"polite\"></div></section>\n\
         <section id=\"time\" aria-labelledby=\"time-h\"><h2 id=\"time-h\">Over time</h2>\
         <div id=\"run\" role=\"region\" aria-label=\"The run under way\"><p class=\"quiet\">The charts begin with the load.</p></div>\
         <noscript><p class=\"banner\">Live charts need JavaScript, which is disabled.</p></noscript></section>\n\
         <section aria-labelledby=\"plan-h\"><h2 id=\"plan-h\">Plan</h2><div id=\"plan\"></div></section>\n",
        escape_html(name),
        escape_html(title)
    );
    Site {
        title: &format!("{title}: running"),
        tool_version,
        links: &links(back),
        main: &format!(
            "<div id=\"live\" data-events=\"/live/{0}/events?lane={lane}\">{main}</div>",
            encoded(name)
        ),
        script: include_str!("../../assets/live.js"),
        data: data::nothing(),
        has_charts: true,
    }
    .page()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_units_that_people_use() {
        for (s, expected) in
            [(-3.0, "0 s"), (48.2, "48 s"), (99.0, "99 s"), (120.0, "2 min"), (7800.0, "2 h 10 min")]
        {
            assert_eq!(span(s), expected);
        }
    }
}
