//! What a measured change of one thing proved of a limiter.

use std::fmt::Write as _;

use model::text::prose::joined;
use serde::{Deserialize, Serialize};

use super::limiter::Bottleneck;

/// With half of the clients, at least this part of the throughput remains where they queue for something.
pub(crate) const QUEUE_MIN: f64 = 0.85;

/// Fewest pairs that prove or refute: below, an interval of 95 % is wider than most effects.
pub const PAIRS_MIN: usize = 4;

/// A lift that surely gives this much took away what held the load up, whatever comes next.
pub(crate) const MUCH: f64 = 2.0;

/// Factor within which a measured ratio is what was predicted: our convention.
const NEAR: f64 = 1.25;

/// An interval whose ends differ by more than this factor is wide: a tenth, as the least that a lift must give.
const WIDE: f64 = 1.1;

/// Beginnings of changes with which a crash may lose acknowledged commits, or data.
const RISKY: [&str; 3] = ["synchronous_commit=", "fsync=", "full_page_writes="];

/// The processors, as what bounds a lift.
pub(crate) const PROCESSORS: &str = "the processors";

/// What results say that no verdict on a limiter can come from: `2 pairs give no verdict`; none if one of them has pairs enough, or there
/// is none.
pub fn no_verdict(proofs: &[Proof]) -> Option<String> {
    let most = proofs.iter().map(|proof| proof.n_pairs).max()?;
    let verb = if most == 1 { "gives" } else { "give" };
    (most < PAIRS_MIN).then(|| format!("{} {verb} no verdict", model::text::prose::plural(most, "pair")))
}

/// What all results say together, where several speak: the limits that are proven, the largest first, and what gives most without the risk of
/// losing commits. `None` where each sentence says it.
pub fn conclusion(proofs: &[Proof]) -> Option<String> {
    let mut telling: Vec<&Proof> =
        proofs.iter().filter(|proof| proof.is_telling() && proof.n_pairs >= PAIRS_MIN).collect();
    telling.sort_by(|a, b| b.ratio.unwrap_or(0.0).total_cmp(&a.ratio.unwrap_or(0.0)));
    let mut proven: Vec<String> = Vec::new();
    for proof in telling.iter().filter(|proof| proof.outcome == ProofOutcome::Proven) {
        let name = proof.limiter.as_str().to_string();
        if !proven.contains(&name) {
            proven.push(name);
        }
    }
    let several = (proven.len() > 1).then(|| format!("{} limit it, each of them.", joined(&proven)));
    let gains = || telling.iter().filter(|proof| proof.is_gain());
    let is_most_risky = gains().next().is_some_and(|most| most.is_risky());
    let safe = gains().find(|proof| is_most_risky && !proof.is_risky());
    let safe = safe.and_then(|proof| {
        Some(format!(
            "Of the changes with which a crash loses nothing, {} gives most: {:.2}x.",
            proof.change, proof.ratio?
        ))
    });
    let is_all_open = !proofs.is_empty() && proofs.iter().all(Proof::is_open);
    let open = is_all_open.then(|| {
        "Nothing is proven: measure for longer (the same `why` with --time 5min), or when the machine is quieter.".to_string()
    });
    let all: Vec<String> = several.into_iter().chain(safe).chain(open).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

/// Whether the share of a limiter's first figure is lower with a change than without it; `None` if it is not known.
pub(crate) fn has_fallen(share: &(String, f64, Option<f64>)) -> Option<bool> {
    share.2.map(|after| after < share.1)
}

/// How a what-if tests a limiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProofKind {
    /// The limit is taken away or moved.
    Lift,
    /// The resource is lowered.
    Brake,
    /// Fewer clients queue.
    FewerClients,
}

/// The verdict on a limiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProofOutcome {
    /// It limits.
    Proven,
    /// It does not limit.
    Refuted,
    /// The interval contains both.
    Undecided,
}

/// A what-if that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The limiter that was tested.
    pub limiter: Bottleneck,
    /// How it was tested.
    pub kind: ProofKind,
    /// The change: `synchronous_commit=off`.
    pub change: String,
    /// Other effects of the change.
    pub side_effect: String,
    /// Throughput with the change over that without it, as predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<f64>,
    /// The next resource, in words, if that bounds what a lift can give, and not the rest of the clients' time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
    /// The measured ratio, the geometric mean over pairs; `None` below two pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Its interval of 95 % by Student's t on logarithms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// Of a brake with a prediction: logarithm of the ratio over that of the predicted one. 1 marks what limits, 0 exonerates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elasticity: Option<f64>,
    /// The server's CPU time per transaction without and with the change, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu_us: Option<[f64; 2]>,
    /// Pairs of runs in which both count.
    pub n_pairs: usize,
    /// What the limiter's first figure counts, and its share without and with the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<(String, f64, Option<f64>)>,
    /// The verdict.
    pub outcome: ProofOutcome,
    /// Why the change was not in effect, in words, if the load's sessions reported that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overruled: Option<String>,
    /// The limiter with the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Bottleneck>,
    /// The directory of its runs, if the other what-ifs of its case were measured elsewhere, later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_in: Option<String>,
}

impl Proof {
    /// Whether enough pairs count to say anything, and the change was in effect.
    pub fn is_telling(&self) -> bool {
        self.ratio.is_some() && self.interval.is_some() && self.overruled.is_none()
    }

    /// The verdict, which fewer pairs than [`PAIRS_MIN`] do not give.
    pub fn verdict(&self) -> ProofOutcome {
        if self.n_pairs < PAIRS_MIN { ProofOutcome::Undecided } else { self.outcome }
    }

    /// Whether an earlier result of the same what-if says more than this one, which says nothing, or decides nothing with fewer pairs.
    pub fn yields_to(&self, earlier: &Proof) -> bool {
        let is_same =
            (self.limiter, self.kind, &self.change) == (earlier.limiter, earlier.kind, &earlier.change);
        let decides_less = self.outcome == ProofOutcome::Undecided && self.n_pairs < earlier.n_pairs;
        is_same && earlier.is_telling() && (!self.is_telling() || decides_less)
    }

    /// Whether what was measured is what was predicted: within the interval, or no further off than a factor of 1.25. `None` without a
    /// prediction.
    fn agrees(&self) -> Option<bool> {
        let ((ratio, [low, high]), predicted) = (self.ratio.zip(self.interval)?, self.predicted?);
        let is_near = (ratio / predicted).ln().abs() <= NEAR.ln();
        Some(is_near || (low..=high).contains(&predicted))
    }

    /// Whether the measured ratio is as predicted, or it is seen why it is not: the change made transactions cheaper, or something else
    /// limits behind it. What has no prediction proves that something matters, and not how much.
    pub fn is_explained(&self) -> bool {
        let Some(ratio) = self.ratio else { return false };
        let is_lift = self.kind == ProofKind::Lift;
        match (self.agrees(), self.predicted) {
            (Some(true), _) => true,
            (Some(false), Some(predicted)) if is_lift && ratio > predicted => self.has_cheaper_work(),
            (Some(false), Some(_)) if is_lift => self.next.is_some_and(|next| next != self.limiter),
            (Some(false), _) => false,
            // Twice as much needs no prediction.
            (None, _) => is_lift && self.interval.is_some_and(|[low, _]| low >= MUCH),
        }
    }

    /// The result in a sentence or two.
    pub fn sentence(&self) -> String {
        let Some((ratio, [low, high])) = self.ratio.zip(self.interval) else {
            return format!("{}: too few runs count to say anything.", self.change);
        };
        if let Some(overruled) = &self.overruled {
            return format!("{}: {overruled}, so that this tests nothing.", self.change);
        }
        if self.n_pairs < PAIRS_MIN {
            return format!(
                "{} gave {ratio:.2}x in {} pairs, which give no verdict.",
                self.change, self.n_pairs
            );
        }
        let mut text = format!("{} gives {ratio:.2}x ({low:.2}x to {high:.2}x)", self.change);
        if let Some(predicted) = self.predicted {
            let is_more = self.kind == ProofKind::Lift && low > predicted;
            let words = if is_more { "more than the predicted" } else { "predicted" };
            write!(text, ", {words} {predicted:.2}x").ok();
            if let Some(bound) = &self.bound {
                write!(text, " (limited by {bound} at the use per transaction without it)").ok();
            }
            if let Some([before, after]) = self.server_cpu_us
                && is_more
                && self.has_cheaper_work()
            {
                write!(
                    text,
                    " because the server's CPU time per transaction fell from {before:.0} to {after:.0} µs"
                )
                .ok();
            }
        }
        if let Some(elasticity) = self.elasticity {
            write!(text, ", elasticity {elasticity:.2}").ok();
        }
        let name = self.limiter.as_str();
        match self.outcome {
            ProofOutcome::Proven if self.agrees() == Some(false) && !self.is_explained() => {
                write!(text, ": {name} limits it; why it is not what was predicted is not known.").ok()
            }
            ProofOutcome::Proven => write!(text, ": {name} limits it.").ok(),
            ProofOutcome::Refuted => write!(text, ": {name} does not limit it.").ok(),
            ProofOutcome::Undecided if self.kind == ProofKind::FewerClients && low >= QUEUE_MIN => {
                write!(text, ": the clients queue, for {name} or for something else.").ok()
            }
            ProofOutcome::Undecided => write!(text, ": {}.", self.undecided()).ok(),
        };
        let is_lifted = self.outcome == ProofOutcome::Proven && self.kind == ProofKind::Lift;
        if let Some(next) = self.next.filter(|next| is_lifted && *next != self.limiter) {
            write!(text, " With it, {} limits next.", next.as_str()).ok();
        }
        text
    }

    /// Whether this surely gives more throughput, whatever it says of its limiter.
    fn is_gain(&self) -> bool {
        self.kind == ProofKind::Lift && self.interval.is_some_and(|[low, _]| low > 1.0)
    }

    /// Whether more pairs may decide: the interval is wide, and the change can do more than show a queue.
    fn is_open(&self) -> bool {
        let is_wide = self.interval.is_some_and(|[low, high]| high > WIDE * low);
        let can_decide = self.is_telling() && self.kind != ProofKind::FewerClients;
        self.n_pairs >= PAIRS_MIN && self.outcome == ProofOutcome::Undecided && is_wide && can_decide
    }

    /// Why an interval leaves the limiter open. A gain is one all the same.
    fn undecided(&self) -> String {
        let name = self.limiter.as_str();
        if !self.is_gain() {
            return format!("that neither proves nor refutes {name}");
        }
        let why = match self.share.as_ref().and_then(has_fallen) {
            Some(false) => format!("{name} holds up as much as before"),
            None => format!("how much {name} still holds up was not seen"),
            Some(true) => "it is less than half of the prediction".to_string(),
        };
        format!("a gain, but {why}, so that it neither proves nor refutes {name}")
    }

    /// Whether a crash may lose commits or data with the change.
    fn is_risky(&self) -> bool {
        RISKY.iter().any(|start| self.change.starts_with(start))
    }

    /// Whether transactions need less of the processors with the change, where the prediction took that as constant.
    fn has_cheaper_work(&self) -> bool {
        self.bound.as_deref() == Some(PROCESSORS)
            && self.server_cpu_us.is_some_and(|[before, after]| after < before)
    }

    /// The result, and what became of the limiter's first figure.
    pub fn in_full(&self) -> String {
        let occupancy = self.occupancy().map_or(String::new(), |words| format!(" Seen: {words}."));
        format!("{}{occupancy}", self.sentence())
    }

    /// What the limiter's first figure was without and with the change: `somebody writing or syncing WAL (instants): 97 % before,
    /// 12 % after`. None for a brake, which does not free what it lowers.
    pub fn occupancy(&self) -> Option<String> {
        if self.kind != ProofKind::Lift {
            return None;
        }
        let (label, before, after) = self.share.as_ref()?;
        let after = match after {
            Some(after) => format!("{:.0} % after", 100.0 * after),
            None => "not known after".to_string(),
        };
        Some(format!("{label}: {:.0} % before, {after}", 100.0 * before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lift that was measured in six pairs.
    fn lift(limiter: Bottleneck, change: &str, ratio: f64, outcome: ProofOutcome) -> Proof {
        Proof {
            limiter,
            kind: ProofKind::Lift,
            change: change.to_string(),
            side_effect: String::new(),
            predicted: Some(4.0),
            bound: None,
            ratio: Some(ratio),
            interval: Some([ratio - 0.1, ratio + 0.1]),
            elasticity: None,
            server_cpu_us: None,
            n_pairs: 6,
            share: None,
            outcome,
            overruled: None,
            next: None,
            measured_in: None,
        }
    }

    #[test]
    fn a_gain_that_proves_nothing_says_why() {
        let of = |ratio, share: Option<(f64, Option<f64>)>| {
            let share = share.map(|(before, after)| ("waiting for rows".to_string(), before, after));
            let lift = lift(Bottleneck::RowLock, "scale=128", ratio, ProofOutcome::Undecided);
            Proof { share, ..lift }.sentence()
        };
        let ends = |text: String, end: &str| assert!(text.ends_with(end), "{text}");
        let gain =
            |why: &str| format!(": a gain, but {why}, so that it neither proves nor refutes row-lock.");
        ends(of(1.44, Some((0.6, Some(0.2)))), &gain("it is less than half of the prediction"));
        ends(of(1.44, Some((0.6, Some(0.7)))), &gain("row-lock holds up as much as before"));
        ends(of(1.44, Some((0.6, None))), &gain("how much row-lock still holds up was not seen"));
        ends(of(1.05, Some((0.6, Some(0.2)))), "predicted 4.00x: that neither proves nor refutes row-lock.");
    }

    #[test]
    fn what_several_changes_show_together_is_said_once() {
        let of_wal = lift(Bottleneck::WalSync, "synchronous_commit=off", 1.6, ProofOutcome::Proven);
        let of_rows = |outcome| lift(Bottleneck::RowLock, "scale=128", 1.44, outcome);
        let safe = "Of the changes with which a crash loses nothing, scale=128 gives most: 1.44x.";
        let said = conclusion(&[of_rows(ProofOutcome::Proven), of_wal.clone()]);
        assert_eq!(said, Some(format!("wal-sync and row-lock limit it, each of them. {safe}")));
        assert_eq!(conclusion(&[of_wal.clone(), of_rows(ProofOutcome::Undecided)]).as_deref(), Some(safe));
        assert_eq!(conclusion(std::slice::from_ref(&of_wal)), None);
        let larger = Proof { ratio: Some(2.0), interval: Some([1.9, 2.1]), ..of_rows(ProofOutcome::Proven) };
        let said = conclusion(&[of_wal.clone(), larger]);
        assert_eq!(said.as_deref(), Some("row-lock and wal-sync limit it, each of them."));
        let said = conclusion(&[of_rows(ProofOutcome::Undecided)]).unwrap_or_default();
        assert!(said.starts_with("Nothing is proven: measure for longer"), "{said}");
        let queue = Proof { kind: ProofKind::FewerClients, ..of_rows(ProofOutcome::Undecided) };
        assert_eq!(conclusion(&[queue]), None, "no length of time gives it a name");
        let sharp = Proof { interval: Some([1.43, 1.45]), ..of_rows(ProofOutcome::Undecided) };
        assert_eq!(conclusion(&[sharp]), None, "more pairs say the same");
        let few = Proof { n_pairs: 3, ..of_rows(ProofOutcome::Undecided) };
        assert_eq!(conclusion(&[of_wal, few]), None);
    }
}
