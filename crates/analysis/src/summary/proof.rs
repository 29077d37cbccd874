//! What a measured change of one thing proved of a limiter.

use std::fmt::Write as _;

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

/// The processors, as what bounds a lift.
pub(crate) const PROCESSORS: &str = "the processors";

/// What results say that no verdict on a limiter can come from: `2 pairs give no verdict`; none if one of them has pairs enough, or there
/// is none.
pub fn no_verdict(proofs: &[Proof]) -> Option<String> {
    let most = proofs.iter().map(|proof| proof.n_pairs).max()?;
    let verb = if most == 1 { "gives" } else { "give" };
    (most < PAIRS_MIN).then(|| format!("{} {verb} no verdict", model::text::prose::plural(most, "pair")))
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
            ProofOutcome::Undecided => write!(text, ": that neither proves nor refutes {name}.").ok(),
        };
        let is_lifted = self.outcome == ProofOutcome::Proven && self.kind == ProofKind::Lift;
        if let Some(next) = self.next.filter(|next| is_lifted && *next != self.limiter) {
            write!(text, " Next: {}.", next.as_str()).ok();
        }
        text
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
