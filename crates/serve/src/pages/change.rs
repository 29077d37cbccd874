//! What pages may change, if the server was started so: stop what is measured, and measure something again.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use report::site::{self, Page};

use super::{ALL, Failure, PageSources, Shared, answer, query, quick, redirect};
use crate::{Again, ConsentQuestion, MeasureConsent};

/// Asks whoever measures to stop, as Ctrl-C does.
pub(super) async fn stop(State(site): Shared, Path(name): Path<String>) -> Response {
    changed(site, move |site| {
        let dir = site.dir(&name)?;
        (site.makers.stop)(&dir)?;
        Ok(Change::Done(format!("/live/{}", site::encoded(&name))))
    })
    .await
}

/// Measures an experiment again.
pub(super) async fn again(
    State(site): Shared,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    changed(site, move |site| {
        let consents = consents(query.as_deref())?;
        let dir = site.dir(&name)?;
        if store::is_experiment_dir(&site.options.root) {
            let words =
                "This server shows a single result; one over a directory of results can measure it again.";
            return Err(Failure::bad(words));
        }
        if site.listed()?.entries.iter().any(|entry| entry.is_running) {
            return Err(Failure::bad("Something is measured here already, which this would disturb."));
        }
        match (site.makers.again)(&dir, &site.options.root, &consents)? {
            Again::Begun(Some(new)) => Ok(Change::Done(format!("/live/{}", site::encoded(&new)))),
            Again::Begun(None) => Ok(Change::Shown(site.notice(
                "It is being prepared",
                "The result is in the list as soon as its first run is about to begin.",
            ))),
            Again::Asks(question) => Ok(Change::Shown(asked(site, &name, &consents, &question))),
        }
    })
    .await
}

/// Before the number of a list in addresses.
const COMMANDS: &str = "commands-";
const SIZE: &str = "size";
/// Longest number of a list.
const NUMBER_BYTES_MAX: usize = 64;

/// A consent in addresses.
fn word(consent: &MeasureConsent) -> String {
    match consent {
        MeasureConsent::Commands(list) => format!("{COMMANDS}{list}"),
        MeasureConsent::Size => SIZE.to_string(),
    }
}

/// The consent that a word of an address gives. The number of a list comes back as it was shown, and becomes a word of a command.
fn consent(word: &str) -> Option<MeasureConsent> {
    let is_number = |text: &&str| {
        (1..=NUMBER_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    match word.strip_prefix(COMMANDS) {
        Some(list) => Some(list).filter(is_number).map(|list| MeasureConsent::Commands(list.to_string())),
        None => (word == SIZE).then_some(MeasureConsent::Size),
    }
}

/// The last of each kind: a list that has changed is asked about again.
fn consents(query: Option<&str>) -> Result<Vec<MeasureConsent>, Failure> {
    let pairs = query::pairs(query)?;
    let given = pairs.iter().filter(|(key, _)| key == "accept").filter_map(|(_, value)| consent(value));
    let mut all: Vec<MeasureConsent> = Vec::new();
    for consent in given {
        all.retain(|known| std::mem::discriminant(known) != std::mem::discriminant(&consent));
        all.push(consent);
    }
    Ok(all)
}

/// The page that asks for one more consent.
fn asked(site: &PageSources, name: &str, given: &[MeasureConsent], asked: &ConsentQuestion) -> Page {
    let ConsentQuestion { consent, text } = asked;
    let all: Vec<String> =
        given.iter().chain([consent]).map(|consent| format!("accept={}", word(consent))).collect();
    let question = site::PageQuestion {
        title: "May it do this?",
        reason: &model::secret::hide_text(text),
        to: &format!("/again/{}?{}", site::encoded(name), all.join("&")),
        button: match consent {
            MeasureConsent::Commands(_) => "Allow it, and measure",
            MeasureConsent::Size => "Measure it all the same",
        },
    };
    site::question(&question, &[ALL], site.options.tool_version)
}

/// The page after a change.
enum Change {
    /// It is done, and can be seen at this address.
    Done(String),
    Shown(Page),
}

/// Does something and goes on to another page.
async fn changed<F>(site: Arc<PageSources>, change: F) -> Response
where
    F: FnOnce(&PageSources) -> Result<Change, Failure> + Send + 'static,
{
    let result = site.on_thread(&site.quick, move |site| {
        if !site.options.may_control {
            let words = "This server only shows; one that was started with --control also stops and starts.";
            return Err(Failure { status: StatusCode::FORBIDDEN, words: words.to_string() });
        }
        change(site)
    });
    match result.await {
        Ok(Ok(Change::Done(to))) => redirect(&to),
        Ok(Ok(Change::Shown(page))) => (StatusCode::ACCEPTED, answer(page)).into_response(),
        Ok(Err(failure)) => quick(site, |_| Err(failure)).await,
        Err(_) => quick(site, |_| Err(Failure::bad("This failed: a bug in pgdyno."))).await,
    }
}
