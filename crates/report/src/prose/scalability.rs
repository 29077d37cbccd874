//! The fitted law of scalability, as text.

use analysis::summary::Study;
use analysis::summary::scalability::{EstimatedFigure, Fit, Scalability};

use crate::axis;
use crate::prose::{format, phrases};

/// A line for each combination of the other factors, with the limits of the fit.
pub(crate) fn lines(study: &Study) -> Vec<String> {
    // Two or three numbers of clients are a comparison, not a curve.
    let curves =
        study.scalability.iter().filter(|one| one.points.len() >= analysis::case::scalability::LEVELS_MIN);
    curves.map(line).collect()
}

fn line(one: &Scalability) -> String {
    let mut parts: Vec<String> = one.fit.iter().map(of_fit).collect();
    parts.extend(one.remarks.iter().map(|remark| phrases::one_line(remark)));
    format!("scalability of {}: {}", others(one), parts.join("; "))
}

fn of_fit(fit: &Fit) -> String {
    let peak = match (fit.peak_clients, fit.peak_tps) {
        (Some(clients), Some(tps)) => format!(
            ", peak {} tps at {} clients",
            with_interval(tps, format::tps),
            with_interval(clients, format::significant)
        ),
        _ => String::new(),
    };
    format!(
        "sigma {}, kappa {}{peak}, {} explained",
        with_interval(fit.sigma, format::significant),
        with_interval(fit.kappa, format::significant),
        format::percent(fit.explained)
    )
}

fn with_interval(figure: EstimatedFigure, words: fn(f64) -> String) -> String {
    match figure.interval {
        Some((low, high)) => format!("{} ({} to {})", words(figure.point), words(low), words(high)),
        None => words(figure.point),
    }
}

/// The levels of the other factors.
pub(crate) fn others(one: &Scalability) -> String {
    let level = |(key, level): (&String, &String)| format!("{} {level}", axis::factor_words(key));
    let others: Vec<String> = one.others.iter().map(level).collect();
    if others.is_empty() { "all cases".to_string() } else { others.join(", ") }
}
