//! The plan as text.

use model::release::Release;

use crate::plan::ways::bytes;
use crate::plan::{CapturePlan, LoggingWay, SourceFacts};

pub(super) fn text(plan: &CapturePlan, facts: &SourceFacts) -> String {
    let mut text = format!("PostgreSQL {}", Release::new(facts.version_num).series());
    if let Some(service) = facts.service {
        text.push_str(&format!(", {}", service.name()));
    }
    text.push_str(&format!(
        ", role {}{}\n",
        facts.role,
        if facts.is_superuser { " (superuser)" } else { "" }
    ));
    text.push_str(&seen(facts));
    for obstacle in &plan.obstacles {
        text.push_str(&format!("note: {obstacle}\n"));
    }
    for (n, way) in (1..).zip(&plan.ways) {
        text.push_str(&format!("\n{n}. {}{}\n", way.title, volume(way)));
        text.push_str(&list("   missing: ", &way.missing));
        text.push_str(&list("   note: ", &way.notes));
        let is_changed = way.bytes_per_s.is_some();
        if is_changed && way.commands.is_empty() {
            text.push_str("   the settings are as they should be\n");
            continue;
        }
        text.push_str(if is_changed { "   to do:\n" } else { "" });
        text.push_str(&list("     ", &way.commands));
        if !way.undo.is_empty() {
            text.push_str("   to undo:\n");
            text.push_str(&list("     ", &way.undo));
        }
    }
    text.push_str("\nNothing was changed. Then: pgdyno capture log FILE... -o shop.workload\n");
    text
}

/// The line about rates.
fn seen(facts: &SourceFacts) -> String {
    let rates = &facts.rates;
    let number = |value: Option<f64>, unit: &str| match value {
        Some(value) => format!("{value:.0} {unit}/s"),
        None => format!("unknown {unit}/s"),
    };
    format!(
        "in {:.0} s: {}, {}{}\n",
        rates.seconds,
        number(rates.transactions_per_s, "transactions"),
        number(rates.statements_per_s, "statements"),
        rates.text_bytes.map_or(String::new(), |bytes| format!(" of {bytes:.0} bytes")),
    )
}

fn volume(way: &LoggingWay) -> String {
    match way.bytes_per_s {
        Some([least, most]) => format!(": {} to {} of log per second", bytes(least), bytes(most)),
        None => String::new(),
    }
}

fn list(before: &str, lines: &[String]) -> String {
    lines.iter().map(|line| format!("{before}{line}\n")).collect()
}
