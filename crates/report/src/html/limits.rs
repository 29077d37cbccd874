//! What limited the cases: the judgement of the best case with its evidence as bars, a strip of limiters along the axis, and
//! the evidence of every case.

mod flame;
pub(in crate::html) mod profile;
mod top_statements;

use analysis::summary::limiter::{Bottleneck, Confidence, Limiter, LimiterFigure};
use analysis::summary::proof::{Proof, conclusion, no_verdict};
use analysis::summary::{CaseSummary, Study};

use super::escape::{escape_html, escape_prose};
use crate::axis::Axis;
use crate::prose::limiter::standing;
use crate::prose::{format, headline, phrases};

/// The section; empty if nothing was judged.
pub(super) fn section(study: &Study, axis: &Axis) -> String {
    let judged: Vec<(&CaseSummary, &Limiter)> =
        study.cases.iter().filter_map(|case| Some((case, case.limiter.as_ref()?))).collect();
    let best = headline::best(study).map(|case| case.case.id);
    let Some((case, limiter)) =
        judged.iter().find(|(case, _)| best == Some(case.case.id)).or(judged.first()).copied()
    else {
        return top_statements::tables(study, axis);
    };
    let is_several = study.cases.len() > 1;
    let whose = if is_several { headline::name(case) } else { String::new() };
    let mut html = judgement("p", &whose, limiter);
    if is_several {
        html.push_str(&strips(study, axis));
    }
    if judged.len() > 1 {
        html.push_str(
            "<details class=\"fold\"><summary>Evidence of each case</summary><div class=\"each\">\n",
        );
        for (case, limiter) in &judged {
            html.push_str(&judgement("h4", &case.label, limiter));
        }
        html.push_str("</div></details>\n");
    }
    html.push_str(
        "<p class=\"quiet\">From samples of what the server's processes wait for, and from the use of processors and devices, \
         in this measurement.",
    );
    html.push_str(if limiter.proofs.is_empty() {
        " Not proven. Only lifting a limit proves it: pgdyno why does.</p>\n"
    } else {
        "</p>\n"
    });
    html.push_str(&top_statements::tables(study, axis));
    html
}

/// The limiter's name and confidence, the sentence, its figures as bars, what was second, and what to try.
fn judgement(element: &str, whose: &str, limiter: &Limiter) -> String {
    let whose =
        if whose.is_empty() { String::new() } else { format!("{}: ", escape_html(&phrases::capital(whose))) };
    let shared = limiter.shared.as_ref();
    let first = if whose.is_empty() { "First" } else { "first" };
    let shared = shared.map_or(String::new(), |words| format!("{first}, {}; then ", escape_html(words)));
    let second = limiter.runner_up.as_ref().map_or(String::new(), |(name, evidence)| {
        let evidence = escape_prose(&phrases::one_line(evidence));
        format!("<p class=\"quiet\">Second: {}, {evidence}.</p>", marked(*name))
    });
    let next = if limiter.proofs.is_empty() {
        format!("<p class=\"quiet\">{}</p>\n", escape_prose(limiter.next))
    } else {
        interventions(&limiter.proofs)
    };
    format!(
        "<{element} class=\"limited\">{whose}{shared}<b>{}</b>, {} <span class=\"badge note\">{}</span></{element}>\n\
         <p>{}.</p>\n{}{second}{next}",
        marked(limiter.name),
        escape_html(limiter.name.words()),
        escape_html(&standing(limiter)),
        escape_prose(&phrases::capital(&phrases::one_line(&limiter.evidence))),
        evidence(limiter),
    )
}

/// A limiter's name after a dot of its colour.
fn marked(name: Bottleneck) -> String {
    format!("<i class=\"dot c{}\" aria-hidden=\"true\"></i>{}", colour(name), name.as_str())
}

/// The figures as bars, each a share of its whole.
fn evidence(limiter: &Limiter) -> String {
    if limiter.figures.is_empty() {
        return String::new();
    }
    let rows: String = limiter.figures.iter().map(row).collect();
    format!("<ul class=\"evidence\" aria-label=\"Evidence\">\n{rows}</ul>\n")
}

fn row(figure: &LimiterFigure) -> String {
    let class = figure.speaks_for.map_or("none".to_string(), |name| format!("c{}", colour(name)));
    format!(
        "<li><span>{}</span><svg class=\"bar {class}\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect class=\"track\" width=\"100\" height=\"10\"/><rect width=\"{:.1}\" height=\"10\"/></svg><span><b>{}</b> of {}</span></li>\n",
        escape_html(&phrases::capital(&figure.label)),
        (100.0 * figure.share).clamp(0.0, 100.0),
        format::percent(figure.share),
        escape_html(figure.of)
    )
}

/// What each change gave, as bars with intervals, and what that proves.
fn interventions(proofs: &[Proof]) -> String {
    let ends = proofs
        .iter()
        .flat_map(|proof| [proof.interval.map_or(0.0, |[_, high]| high), proof.predicted.unwrap_or(0.0)]);
    let most = 1.05 * ends.fold(1.0, f64::max);
    let rows: String = proofs.iter().map(|proof| intervention(proof, most)).collect();
    let sentences: Vec<String> = proofs.iter().map(Proof::in_full).chain(conclusion(proofs)).collect();
    format!(
        "<p class=\"quiet\">Throughput with one thing changed, over that without; bar: ratio and 95 % interval, dashed: \
         predicted, line: no change</p>\n<ul class=\"evidence\" aria-label=\"What-ifs\">\n{rows}</ul>\n<p>{}</p>\n",
        escape_html(&phrases::one_line(&sentences.join(" ")))
    )
}

/// One change on a scale from 0 to `most`.
fn intervention(proof: &Proof, most: f64) -> String {
    let Some((ratio, [low, high])) = proof.ratio.zip(proof.interval) else { return String::new() };
    let at = |value: f64| (100.0 * value / most).clamp(0.0, 100.0);
    let predicted = proof.predicted.map_or(String::new(), |value| {
        format!("<line class=\"predicted\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"0\" y2=\"10\"/>", at(value))
    });
    format!(
        "<li><span>{}</span><svg class=\"bar c{}\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect class=\"track\" width=\"100\" height=\"10\"/><rect width=\"{:.1}\" y=\"2\" height=\"6\"/>\
         <line class=\"interval\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"5\" y2=\"5\"/>{predicted}\
         <line class=\"one\" x1=\"{5:.1}\" x2=\"{5:.1}\" y1=\"0\" y2=\"10\"/></svg>\
         <span><b>{ratio:.2}x</b> {low:.2}x to {high:.2}x</span></li>\n",
        escape_html(&proof.change),
        colour(proof.limiter),
        at(ratio),
        at(low),
        at(high),
        at(1.0)
    )
}

/// Each case's limiter along the axis, a row for each group; neighbours that are limited alike share a field.
fn strips(study: &Study, axis: &Axis) -> String {
    let heads: String =
        axis.levels.iter().map(|level| format!("<th scope=\"col\">{}</th>", escape_html(level))).collect();
    let of_group = |group: usize| {
        let at = |level: usize| {
            let is_there = |case: &&CaseSummary| {
                axis.places
                    .get(&case.case.id)
                    .is_some_and(|place| (place.level, place.group) == (level, group))
            };
            study.cases.iter().find(is_there).and_then(|case| case.limiter.as_ref())
        };
        fields(&(0..axis.levels.len()).map(at).collect::<Vec<Option<&Limiter>>>())
    };
    let by = escape_html(if axis.title.is_empty() { "case" } else { &axis.title });
    let columns = "<col>".repeat(axis.levels.len());
    // A single row needs no name.
    let (columns, corner, rows) = match axis.groups.as_slice() {
        [_] => (columns, String::new(), format!("<tr>{}</tr>\n", of_group(0))),
        groups => {
            let row = |(group, name): (usize, &String)| {
                format!("<tr><th scope=\"row\">{}</th>{}</tr>\n", escape_html(name), of_group(group))
            };
            let rows = groups.iter().enumerate().map(row).collect();
            (format!("<col class=\"name\">{columns}"), format!("<th scope=\"col\">{by}</th>"), rows)
        }
    };
    format!(
        "<figure><figcaption><strong>Limiter by {by}</strong> <span class=\"note\">hatched: low confidence</span></figcaption>\
         <div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Limiter by {by}\"><table aria-label=\"Limiter by {by}\" class=\"strips\">{columns}\
         <thead><tr>{corner}{heads}</tr></thead><tbody>\n{rows}</tbody></table></div></figure>\n"
    )
}

/// The fields of a row; each covers the neighbours with the same limiter that is as sure.
fn fields(limiters: &[Option<&Limiter>]) -> String {
    let key = |limiter: &Option<&Limiter>| limiter.map(|limiter| (limiter.name, sureness(limiter)));
    let mut html = String::new();
    for alike in limiters.chunk_by(|a, b| key(a) == key(b)) {
        let span = alike.len();
        match key(&alike[0]) {
            None => html.push_str(&format!("<td colspan=\"{span}\" class=\"none\">-</td>")),
            Some((name, (class, words))) => html.push_str(&format!(
                "<td colspan=\"{span}\" class=\"c{} {class}\" title=\"{}\"><span>{}</span> <small>{}</small></td>",
                colour(name),
                escape_html(name.words()),
                name.as_str(),
                escape_html(&words)
            )),
        }
    }
    html
}

/// How sure a limiter is, as a class and in words. What-ifs of too few pairs leave no confidence, which is drawn as a low one.
fn sureness(limiter: &Limiter) -> (&'static str, String) {
    match no_verdict(&limiter.proofs) {
        Some(words) => (Confidence::Low.as_str(), words),
        None => (limiter.confidence.as_str(), format!("{} confidence", limiter.confidence.as_str())),
    }
}

/// The colour of what is short: limiters of one kind share it, as do sessions in the chart over time. Names tell the rest apart.
fn colour(name: Bottleneck) -> usize {
    match name {
        Bottleneck::DataRead | Bottleneck::DataWrite | Bottleneck::Memory => 0,
        Bottleneck::WalSync | Bottleneck::WalVolume | Bottleneck::Standby | Bottleneck::Checkpoint => 1,
        Bottleneck::ServerCpu
        | Bottleneck::Scheduling
        | Bottleneck::Quota
        | Bottleneck::Steal
        | Bottleneck::ForeignCpu => 2,
        Bottleneck::RowLock => 3,
        Bottleneck::ClientHeldLock
        | Bottleneck::Driver
        | Bottleneck::Network
        | Bottleneck::PoolerCpu
        | Bottleneck::PoolerSize
        | Bottleneck::OfferedLoad => 4,
        Bottleneck::Lwlock => 5,
        Bottleneck::Autovacuum => 6,
        Bottleneck::Mixed | Bottleneck::Unknown => 7,
    }
}

#[cfg(test)]
mod tests {
    use analysis::summary::proof::{ProofKind, ProofOutcome};

    use super::*;

    fn limiter(name: Bottleneck, confidence: Confidence) -> Limiter {
        Limiter::new(name, confidence, "a <b> lock")
    }

    #[test]
    fn neighbours_that_are_limited_alike_share_a_field() {
        let low = limiter(Bottleneck::OfferedLoad, Confidence::Low);
        let sync = limiter(Bottleneck::WalSync, Confidence::Medium);
        let unsure = limiter(Bottleneck::WalSync, Confidence::Low);
        let check = |limiters: &[Option<&Limiter>], expected: &[(usize, &str)]| {
            let html = fields(limiters);
            let found: Vec<(usize, &str)> = html
                .split("<td colspan=\"")
                .skip(1)
                .map(|cell| {
                    let (span, rest) = cell.split_once("\" class=\"").unwrap();
                    (span.parse().unwrap(), rest.split_once('"').unwrap().0)
                })
                .collect();
            assert_eq!(found, expected, "{html}");
        };
        check(&[Some(&low), Some(&sync), Some(&sync)], &[(1, "c4 low"), (2, "c1 medium")]);
        check(&[Some(&sync), Some(&unsure)], &[(1, "c1 medium"), (1, "c1 low")]);
        check(&[None, None, Some(&low)], &[(2, "none"), (1, "c4 low")]);
    }

    #[test]
    fn what_ifs_of_too_few_pairs_leave_no_confidence_in_the_strip() {
        let proof = |n_pairs| Proof {
            limiter: Bottleneck::WalSync,
            kind: ProofKind::Lift,
            change: "synchronous_commit=off".to_string(),
            side_effect: String::new(),
            predicted: None,
            bound: None,
            ratio: None,
            interval: None,
            elasticity: None,
            server_cpu_us: None,
            n_pairs,
            share: None,
            outcome: ProofOutcome::Undecided,
            overruled: None,
            next: None,
            measured_in: None,
        };
        for (n_pairs, expected, other) in
            [(2, "2 pairs give no verdict", "confidence"), (4, "high confidence", "no verdict")]
        {
            let sync =
                Limiter { proofs: vec![proof(n_pairs)], ..limiter(Bottleneck::WalSync, Confidence::High) };
            let html = fields(&[Some(&sync)]);
            assert!(html.contains(expected) && !html.contains(other), "{n_pairs}: {html}");
        }
    }

    #[test]
    fn a_figure_is_a_bar_as_long_as_its_share() {
        let figure = |share, speaks_for| {
            row(&LimiterFigure {
                label: "waiting for <x>".to_string(),
                share,
                of: "sessions at work",
                speaks_for,
            })
        };
        for (share, speaks_for, parts) in [
            (
                0.97,
                Some(Bottleneck::WalSync),
                ["bar c1\"", "<rect width=\"97.0\"", "<b>97 %</b> of sessions at work"],
            ),
            (0.004, None, ["bar none\"", "<rect width=\"0.4\"", "<span>Waiting for &lt;x&gt;</span>"]),
        ] {
            let html = figure(share, speaks_for);
            parts.iter().for_each(|part| assert!(html.contains(part), "{part} is not in {html}"));
        }
    }

    #[test]
    fn a_judgement_says_whose_it_is_how_sure_and_what_was_second() {
        let lock = limiter(Bottleneck::RowLock, Confidence::Medium);
        let html = judgement("p", "8 clients", &lock);
        let lead = "8 clients: <b><i class=\"dot c3\" aria-hidden=\"true\"></i>row-lock</b>, locks whose holder is at work \
                    <span class=\"badge note\">medium confidence</span>";
        assert!(
            html.contains(lead) && html.contains("A &lt;b&gt; lock.") && !html.contains("Second"),
            "{html}"
        );
        let runner_up = Some((Bottleneck::WalSync, "a flush".to_string()));
        let html = judgement("p", "", &Limiter { runner_up, ..lock });
        assert!(html.contains("</i>wal-sync, a flush.</p>") && !html.contains(": <b>"), "{html}");
        let shared = Some("64 clients share 10 branches: 44.0 of them waited for locks".to_string());
        let html =
            judgement("p", "", &Limiter { shared, ..limiter(Bottleneck::RowLock, Confidence::Medium) });
        let lead = "<p class=\"limited\">First, 64 clients share 10 branches: 44.0 of them waited for locks; then <b>";
        assert!(html.starts_with(lead), "{html}");
    }
}
