//! `pgdyno capture show`: what a captured directory has, from its `capture.json`.

use std::fmt::Write;

use ::capture::directory::summary::{FILE, FORMAT};
use anyhow::{Context, Result, bail, ensure};
use model::text::prose::plural;
use serde_json::Value;

use crate::front::cli::data::capture::log::CaptureShowArgs;
use crate::{Exit, print, print_exact};

/// Longest file that is read.
const BYTES_MAX: u64 = 64 << 20;

/// Prints what a directory has.
pub(super) fn show(args: &CaptureShowArgs) -> Result<Exit> {
    let path = args.dir.join(FILE);
    let bytes = match files::read(&path, BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
            "`{}` has no `{FILE}`: it is none that `pgdyno capture log` has written; `pgdyno workload show` shows others",
            args.dir.display()
        ),
        Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    };
    let summary: Value =
        serde_json::from_slice(&bytes).with_context(|| format!("`{}` is no JSON", path.display()))?;
    let format = summary["format"].as_u64().unwrap_or(0);
    ensure!(format == FORMAT, "`{}` has format {format}; this pgdyno knows format {FORMAT}", path.display());
    if args.json {
        print_exact(&format!("{}\n", model::secret::hide_json(&summary.to_string())))?;
    } else {
        print(&text(&summary, args.verbose))?;
    }
    Ok(Exit::Done)
}

/// The summary as text.
pub(super) fn text(summary: &Value, is_verbose: bool) -> String {
    let mut out = String::new();
    let number = |name: &str| summary[name].as_f64().unwrap_or(0.0);
    let word = |name: &str| summary[name].as_str().unwrap_or("?");
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!("{}: {} ({})", word("name"), word("grade"), coverage(summary)));
    line(format!("window: {} for {:.1} s", word("began"), number("length_s")));
    line(format!("rate: {:.2} transactions/s{}", number("rate"), dispersion(summary)));
    let classes = summary["classes"].as_array().map_or(0, Vec::len);
    let kind = if classes == 0 { "all alike, a pool".to_string() } else { format!("{classes} classes") };
    line(match number("sessions") {
        // Counters say how often statements ran, and not who ran them.
        0.0 => format!("sessions: not known from counters; protocol {}", word("protocol")),
        sessions => format!(
            "sessions: {sessions}, {} of them in one second at most, {:.1} in a transaction on average; {kind}; protocol {}",
            number("clients"),
            number("active"),
            word("protocol")
        ),
    });
    out.push_str("\ntransactions\n");
    for template in summary["templates"].as_array().into_iter().flatten() {
        one_template(template, is_verbose, &mut out);
    }
    out.push_str("\nleft out\n");
    let left_out = summary["left_out"].as_array().map(Vec::as_slice).unwrap_or_default();
    if left_out.is_empty() {
        out.push_str("  nothing\n");
    }
    for one in left_out {
        let share = one["share"].as_f64().unwrap_or(0.0);
        let calls = one["calls"].as_u64().unwrap_or(0);
        writeln!(
            out,
            "  {:>6.2} %  {} ({calls} statements)",
            100.0 * share,
            one["about"].as_str().unwrap_or("?")
        )
        .ok();
    }
    writeln!(out, "\n{}", personal(summary)).ok();
    for note in summary["notes"].as_array().into_iter().flatten() {
        writeln!(out, "note: {}", note.as_str().unwrap_or("?")).ok();
    }
    out
}

fn coverage(summary: &Value) -> String {
    let share = summary["reproduced"]["share"].as_f64().unwrap_or(0.0);
    let what = if summary["has_durations"].as_bool() == Some(true) { "time" } else { "executions" };
    format!("{:.2} % of the {what} is reproduced", 100.0 * share)
}

fn dispersion(summary: &Value) -> String {
    match summary["dispersion"].as_f64() {
        Some(found) => format!(", dispersion {found:.2} (1 if they come independently of each other)"),
        None => String::new(),
    }
}

fn one_template(template: &Value, is_verbose: bool, out: &mut String) {
    let name = template["name"].as_str().unwrap_or("?");
    let rate = template["rate"].as_f64().unwrap_or(0.0);
    let statements = template["statements"].as_array().map(Vec::as_slice).unwrap_or_default();
    let n = match statements.len() {
        0 => "each transaction with its own statements".to_string(),
        n => plural(n, "statement"),
    };
    writeln!(out, "  {rate:>10.3}/s  {name}, {n}").ok();
    if is_verbose {
        for statement in statements.iter().filter_map(Value::as_str) {
            let words: Vec<&str> = statement.split_whitespace().collect();
            writeln!(out, "                  | {}", words.join(" ")).ok();
        }
    }
    for variable in template["variables"].as_array().into_iter().flatten() {
        let word = |name: &str| variable[name].as_str().unwrap_or("?");
        let mut text = format!("                  :{} {}", word("name"), word("role"));
        if let Some(column) = variable["column"].as_str().filter(|column| *column != word("name")) {
            write!(text, " of {column}").ok();
        }
        write!(text, ", {} distinct of {}", variable["distinct"], variable["n"]).ok();
        if let Some(unseen) = variable["unseen"].as_f64() {
            write!(text, ", the next one is new with {:.0} %", 100.0 * unseen).ok();
        }
        if let Some(exponent) = variable["zipf_exponent"].as_f64() {
            write!(text, ", Zipf {exponent:.2}").ok();
        }
        writeln!(out, "{text}").ok();
    }
}

/// The sentence about personal values.
fn personal(summary: &Value) -> String {
    let masked = summary["values_masked"].as_u64().unwrap_or(0);
    match summary["privacy"].as_str() {
        Some("values") => {
            "personal: values are in clear; keep the directory where the source's data may be kept"
                .to_string()
        }
        Some("hashed") => format!(
            "personal: texts are hashed ({masked} values), numbers and times are the source's. HASHED VALUES FIND NO ROWS in a real copy of the \
             data: run on data that was hashed with the same key, or capture with --privacy values on a machine that may hold the data"
        ),
        _ => "personal: nothing; no value is the source's, and values find no rows".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_that_lacks_everything_is_shown() {
        let text = text(&serde_json::json!({"privacy": "hashed"}), true);
        assert!(text.contains("FIND NO ROWS") && text.contains("nothing"), "{text}");
    }
}
