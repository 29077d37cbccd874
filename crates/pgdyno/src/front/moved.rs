//! Targets of an interrupted experiment that got another address (`--target NAME=URL`).

use std::collections::BTreeSet;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use experiment::plan::file;
use model::experiment::case::ServerSource;
use model::experiment::plan::Plan;
use model::secret;

use crate::front::foreign::Ours;
use crate::front::{secrets, setup};

/// A target and its address now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Moved {
    name: String,
    url: String,
}

impl FromStr for Moved {
    type Err = String;

    fn from_str(text: &str) -> Result<Moved, String> {
        // Without the text: it may contain a password.
        let (name, url) = text.split_once('=').ok_or("no NAME=URL")?;
        Ok(Moved { name: name.to_string(), url: url.to_string() })
    }
}

/// Gives targets of a stored experiment their new addresses, in its plan and in its text. Returns these addresses and the names
/// of the targets.
///
/// # Errors
/// When the experiment has no such target, or it has no address.
pub(crate) fn apply(plan: &mut Plan, text: &mut String, all: &[Moved]) -> Result<(Ours, BTreeSet<String>)> {
    let mut ours = Ours::default();
    if all.is_empty() {
        return Ok((ours, BTreeSet::new()));
    }
    let mut experiment = file::parse(store::names::EXPERIMENT, text, &[])?;
    for Moved { name, url } in all {
        let known: Vec<String> =
            experiment.target.iter().map(|target| format!("`{}`", target.name)).collect();
        let target = experiment.target.iter_mut().find(|target| target.name == *name);
        let target = target.with_context(|| match known.as_slice() {
            [] => format!("--target {name}: the experiment has no targets"),
            known => format!("--target {name}: the experiment's targets are {}", known.join(", ")),
        })?;
        ensure!(
            target.url.is_some(),
            "--target {name}: pgdyno runs the server of this target itself; it has no address"
        );
        let conninfo = setup::resolve(url).with_context(|| format!("--target {name}"))?;
        let source = ServerSource::Url(conninfo.keywords());
        ours.add_source(source.clone());
        ours.add_url(secrets::keyword_text(&conninfo));
        target.url = Some(secrets::keyword_text(&conninfo));
        for case in plan.cases.iter_mut() {
            if case.server.target.as_ref().is_some_and(|target| target.name == *name) {
                case.server.source = source.clone();
            }
        }
    }
    *text =
        setup::toml_text(&secret::hidden(&experiment).context("cannot hide passwords in the experiment")?)?;
    Ok((ours, all.iter().map(|moved| moved.name.clone()).collect()))
}
