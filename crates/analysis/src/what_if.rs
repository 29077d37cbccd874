//! What-ifs: changes of one thing each, which prove or refute what is said to limit a load.
//!
//! A *lift* takes a limit away: throughput rises by what the limit held up, unless something else is right behind it. A *brake*
//! lowers a resource: throughput falls with it if it limits, and stays otherwise (Curtsinger and Berger 2015, Coz). *Fewer clients* cost
//! nothing where they queue for one thing. `choose` says what to change, `judge` what the measured ratio means.

mod brakes;
mod choose;
mod devices;
mod judge;
mod load;
mod lowered;
mod settings;

use model::experiment::case::Case;

pub use choose::{Circumstances, GroupAbilities, telling_run, what_ifs};
pub use judge::{confirm, judge};
pub use settings::OF_SESSIONS;

use crate::summary::limiter::Bottleneck;
use crate::summary::proof::ProofKind;

/// A change of one thing.
#[derive(Debug, Clone, PartialEq)]
pub struct WhatIf {
    /// The limiter that it tests.
    pub limiter: Bottleneck,
    /// How it tests it.
    pub kind: ProofKind,
    /// The change as a user would write it: `synchronous_commit=off`.
    pub change: String,
    /// Throughput with the change over throughput without it that the limiter would explain.
    pub predicted: Option<f64>,
    /// The next resource, in words, if that bounds the prediction of a lift.
    pub bound: Option<String>,
    /// Whether only a part of the limit is taken away: then it can prove, and not refute.
    pub is_partial: bool,
    /// Whether throughput would fall with any limiter, since less is left than was used: then it can refute, and not prove.
    pub is_forced: bool,
    /// Other effects of the change.
    pub side_effect: &'static str,
    /// The case with the change.
    pub case: Case,
}
