//! What what-ifs proved, kept with the results that they explain.

use std::path::Path;

use analysis::summary::Study;
use analysis::summary::proof::{Proof, ProofOutcome};
use analysis::what_if;
use anyhow::{Context, Error, Result, ensure};
use serde::{Deserialize, Serialize};

/// Longest file that is read; pgdyno writes much shorter ones.
const BYTES_MAX: u64 = 1 << 20;

/// The file of proofs.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    /// Format version, [`model::FORMAT`].
    format: u32,
    /// Each case of which something was tested.
    cases: Vec<Proofs>,
}

/// The proofs of a case.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Proofs {
    /// Number of the case.
    pub(crate) case: u32,
    /// Results of the what-ifs.
    pub(crate) measured_in: String,
    /// Each what-if.
    pub(crate) proofs: Vec<Proof>,
}

/// Keeps what was proven of the results in `dir`, instead of what was proven of the same case before. What says less than an
/// earlier result does not replace it. Returns what is kept of the case, and the results that stay in it, with the directories of their
/// runs.
///
/// # Errors
/// When the directory is not writable, or the file is damaged.
pub(crate) fn keep(dir: &Path, proofs: &Proofs) -> Result<(Proofs, Vec<Proof>)> {
    let mut kept = read(dir)?;
    kept.format = model::FORMAT;
    let earlier = kept.cases.iter().find(|known| known.case == proofs.case);
    let (best, stay) =
        earlier.map_or_else(|| (proofs.clone(), Vec::new()), |earlier| better(earlier, proofs));
    kept.cases.retain(|known| known.case != proofs.case);
    kept.cases.push(best.clone());
    let text = serde_json::to_string_pretty(&kept)?;
    store::write_report(&dir.join(store::names::PROOFS), text.as_bytes())?;
    Ok((best, stay))
}

/// What to keep of a case after it was tested again, and the earlier results that stay in it. If nothing new is said at all, all that
/// was known stays: a stopped `why` may have tested other changes than the one before.
fn better(earlier: &Proofs, new: &Proofs) -> (Proofs, Vec<Proof>) {
    let in_its_directory = |proof: &Proof| {
        let measured_in = proof.measured_in.clone().unwrap_or_else(|| earlier.measured_in.clone());
        Proof { measured_in: Some(measured_in), ..proof.clone() }
    };
    let that_stays = |proof: &Proof| earlier.proofs.iter().find(|known| proof.yields_to(known));
    let says_more = |proof: &Proof| proof.is_telling() && that_stays(proof).is_none();
    if !new.proofs.iter().any(says_more) {
        let telling: Vec<Proof> =
            earlier.proofs.iter().filter(|proof| proof.is_telling()).map(in_its_directory).collect();
        if !telling.is_empty() {
            return (earlier.clone(), telling);
        }
    }
    let of_each = |proof: &Proof| that_stays(proof).map_or_else(|| proof.clone(), in_its_directory);
    let tested: Vec<Proof> = new.proofs.iter().map(of_each).collect();
    // What was decided by another change than now stays decided, and comes first.
    let decided = |proof: &&Proof| proof.is_telling() && proof.outcome != ProofOutcome::Undecided;
    let is_open =
        |earlier: &&Proof| !tested.iter().filter(decided).any(|proof| proof.limiter == earlier.limiter);
    let carried: Vec<Proof> =
        earlier.proofs.iter().filter(decided).filter(is_open).map(in_its_directory).collect();
    let stay = new.proofs.iter().filter_map(that_stays).map(in_its_directory).chain(carried.iter().cloned());
    let stay: Vec<Proof> = stay.collect();
    (Proofs { proofs: carried.into_iter().chain(tested).collect(), ..new.clone() }, stay)
}

/// What was proven of each case of the results in `dir`.
///
/// # Errors
/// When the file is damaged.
pub(crate) fn all_of(dir: &Path) -> Result<Vec<Proofs>> {
    Ok(read(dir)?.cases)
}

/// What was proven so far; nothing if there is no file.
fn read(dir: &Path) -> Result<Kept> {
    let path = dir.join(store::names::PROOFS);
    if !path.exists() {
        return Ok(Kept::default());
    }
    let within = || format!("`{}` is damaged; remove it, or run pgdyno why again", path.display());
    let bytes = files::read(&path, BYTES_MAX).with_context(within)?;
    let kept: Kept = store::parse_record(&bytes).map_err(Error::msg).with_context(within)?;
    ensure!(
        kept.format <= model::FORMAT,
        "`{}` has format {}, and this pgdyno reads formats up to {}; use a newer pgdyno",
        path.display(),
        kept.format,
        model::FORMAT
    );
    Ok(kept)
}

/// Gives a study what was proven of it, if anything was.
///
/// # Errors
/// When the file is damaged.
pub(crate) fn confirm(dir: &Path, study: &mut Study) -> Result<()> {
    for proofs in read(dir)?.cases {
        what_if::confirm(study, proofs.case, &proofs.proofs);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use analysis::summary::limiter::Bottleneck;
    use analysis::summary::proof::ProofKind;

    use super::*;

    /// A result of a change from so many pairs.
    fn of(change: &str, n_pairs: usize, outcome: ProofOutcome) -> Proof {
        let estimate = (n_pairs >= 2).then_some(2.0);
        Proof {
            limiter: Bottleneck::WalSync,
            kind: ProofKind::Lift,
            change: change.to_string(),
            side_effect: String::new(),
            predicted: None,
            bound: None,
            ratio: estimate,
            interval: estimate.map(|ratio| [ratio - 0.5, ratio + 0.5]),
            elasticity: None,
            server_cpu_us: None,
            n_pairs,
            share: None,
            outcome,
            overruled: None,
            next: None,
            measured_in: None,
        }
    }

    /// Keeps one `why` after the other; returns the changes whose earlier results stay at the last one, and what is kept.
    fn kept_after(all: &[(&str, &[Proof])]) -> (Vec<String>, Proofs) {
        let dir = tempfile::tempdir().unwrap();
        let mut stay = Vec::new();
        for (measured_in, proofs) in all {
            let measured_in = (*measured_in).to_string();
            stay = keep(dir.path(), &Proofs { case: 1, measured_in, proofs: proofs.to_vec() }).unwrap().1;
        }
        let kept = super::all_of(dir.path()).unwrap();
        assert_eq!(kept.len(), 1, "one case was tested");
        (stay.into_iter().map(|proof| proof.change).collect(), kept[0].clone())
    }

    #[test]
    fn what_says_nothing_replaces_no_result_of_counted_pairs() {
        use ProofOutcome::{Proven, Refuted, Undecided};
        let finished = [of("a", 6, Proven), of("b", 6, Undecided)];
        let whole = ("finished", finished.as_slice());
        for stopped in [
            &[of("a", 0, Undecided), of("b", 0, Undecided)][..],
            &[of("a", 1, Undecided), of("b", 1, Undecided)],
            &[of("a", 2, Undecided), of("b", 2, Undecided)],
            &[of("another", 0, Undecided)],
        ] {
            let (stay, kept) = kept_after(&[whole, ("stopped", stopped)]);
            assert_eq!(stay, ["a", "b"], "{stopped:?}");
            assert_eq!((kept.measured_in.as_str(), kept.proofs.as_slice()), ("finished", &finished[..]));
        }
        let again = [of("a", 4, Refuted), of("b", 6, Undecided)];
        let (stay, kept) = kept_after(&[whole, ("again", &again[..])]);
        assert!(stay.is_empty(), "{stay:?}");
        assert_eq!((kept.measured_in.as_str(), kept.proofs.as_slice()), ("again", &again[..]));
        let (stay, kept) =
            kept_after(&[("stopped", &[of("a", 0, Undecided)][..]), ("too", &[of("b", 0, Undecided)][..])]);
        assert_eq!((stay.len(), kept.measured_in.as_str()), (0, "too"), "neither says anything");
    }

    #[test]
    fn what_another_change_decided_stays_until_that_limiter_is_decided_again() {
        use ProofOutcome::{Proven, Refuted, Undecided};
        let finished = [of("a", 6, Refuted)];
        let (stay, kept) =
            kept_after(&[("finished", &finished[..]), ("stopped", &[of("another", 2, Undecided)][..])]);
        assert_eq!(stay, ["a"]);
        let changes =
            |kept: &Proofs| kept.proofs.iter().map(|proof| proof.change.clone()).collect::<Vec<_>>();
        assert_eq!(changes(&kept), ["a", "another"], "what decides comes first");
        let (stay, kept) =
            kept_after(&[("finished", &finished[..]), ("again", &[of("another", 4, Proven)][..])]);
        assert_eq!((stay.len(), changes(&kept)), (0, vec!["another".to_string()]));
    }

    #[test]
    fn what_tested_nothing_replaces_no_result() {
        let overruled = Proof {
            overruled: Some("a role's setting overruled it".to_string()),
            ..of("a", 12, ProofOutcome::Undecided)
        };
        let valid = of("a", 6, ProofOutcome::Undecided);
        let (stay, kept) =
            kept_after(&[("valid", &[valid.clone()][..]), ("overruled", &[overruled.clone()][..])]);
        assert_eq!((stay, kept.proofs), (vec!["a".to_string()], vec![valid.clone()]));
        let (stay, kept) = kept_after(&[("overruled", &[overruled][..]), ("valid", &[valid.clone()][..])]);
        assert_eq!((stay.len(), kept.proofs), (0, vec![valid]));
    }

    #[test]
    fn each_what_if_keeps_its_better_result_with_the_directory_of_its_runs() {
        use ProofOutcome::{Proven, Refuted, Undecided};
        let finished = [of("a", 6, Proven), of("b", 6, Undecided)];
        let part = [of("a", 0, Undecided), of("b", 4, Refuted)];
        let (stay, kept) =
            kept_after(&[("finished", &finished[..]), ("part", &part[..]), ("stopped", &part[..1])]);
        assert_eq!(stay, ["a", "b"]);
        let of_first = Proof { measured_in: Some("finished".to_string()), ..finished[0].clone() };
        assert_eq!((kept.measured_in.as_str(), kept.proofs), ("part", vec![of_first, part[1].clone()]));
    }
}
