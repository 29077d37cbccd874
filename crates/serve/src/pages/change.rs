//! What pages may change, if the server was started so: stop what is measured, and measure something again.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use report::site;

use super::{Failure, Shared, Site, drawn, redirect};

/// Asks whoever measures to stop, as Ctrl-C does.
pub(super) async fn stop(State(site): Shared, Path(name): Path<String>) -> Response {
    let to = format!("/live/{}", site::encoded(&name));
    changed(site, to, move |site| {
        let dir = site.dir(&name)?;
        Ok((site.makers.stop)(&dir)?)
    })
    .await
}

/// Measures an experiment again.
pub(super) async fn again(State(site): Shared, Path(name): Path<String>) -> Response {
    changed(site, "/live".to_string(), move |site| {
        let dir = site.dir(&name)?;
        if site.listed()?.entries.iter().any(|entry| entry.is_running) {
            return Err(Failure::bad("Something is measured here already, which this would disturb."));
        }
        Ok((site.makers.again)(&dir, &site.options.root)?)
    })
    .await
}

/// Does something and goes on to another page.
async fn changed<F>(site: Arc<Site>, to: String, change: F) -> Response
where
    F: FnOnce(&Site) -> Result<(), Failure> + Send + 'static,
{
    let of = site.clone();
    let result = tokio::task::spawn_blocking(move || {
        if !of.options.may_control {
            let words = "This server only shows; one that was started with --control also stops and starts.";
            return Err(Failure { status: StatusCode::FORBIDDEN, words: words.to_string() });
        }
        change(&of)
    });
    match result.await {
        Ok(Ok(())) => redirect(&to),
        Ok(Err(failure)) => drawn(site, |_| Err(failure)).await,
        Err(_) => drawn(site, |_| Err(Failure::bad("This failed: a bug in pgdyno."))).await,
    }
}
