//! What limited the cases, as text.

use analysis::summary::limiter::Limiter;
use analysis::summary::proof::{Proof, conclusion, no_verdict};
use analysis::summary::{CaseSummary, Study};

use crate::prose::phrases;

/// A line for each case: its limiter, how sure that is, why, and what to try. Cases that are limited alike share what to try.
pub(crate) fn lines(study: &Study) -> Vec<String> {
    let several = study.cases.len() > 1;
    let line = |case: &CaseSummary| {
        let limiter = case.limiter.as_ref()?;
        let of_case = if several { format!("{}: ", phrases::one_line(&case.label)) } else { String::new() };
        Some(format!("{of_case}{}", words(limiter)))
    };
    study.cases.iter().filter_map(line).collect()
}

/// `wal-sync (medium confidence): at 97 % of the instants …. Try ….`
fn words(limiter: &Limiter) -> String {
    let second = limiter.runner_up.as_ref().map_or(String::new(), |(name, evidence)| {
        format!(" Second: {}, {}.", name.as_str(), phrases::one_line(evidence))
    });
    // Who has measured what the change gives needs no advice to try it.
    let next = match limiter.proofs.as_slice() {
        [] => limiter.next.to_string(),
        proofs => {
            let sentences = proofs.iter().map(Proof::in_full).chain(conclusion(proofs));
            let sentences: Vec<String> = sentences.collect();
            format!("Measured: {}", phrases::one_line(&sentences.join(" ")))
        }
    };
    let shared = limiter.shared.as_ref().map_or(String::new(), |words| format!("first, {words}; then "));
    format!(
        "{shared}{} ({}): {}.{second} {next}",
        limiter.name.as_str(),
        standing(limiter),
        phrases::one_line(&limiter.evidence),
    )
}

/// How sure the limiter is: `medium confidence`, or that the pairs of its what-ifs are too few, where there is none.
pub(crate) fn standing(limiter: &Limiter) -> String {
    match no_verdict(&limiter.proofs) {
        Some(words) => format!("{words}; to go on: pgdyno why DIR with the same options"),
        None => format!("{} confidence", limiter.confidence.as_str()),
    }
}
