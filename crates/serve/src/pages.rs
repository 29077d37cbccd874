//! Addresses, and what each answers. Everything that reads or draws is done by threads for that, few at a time.

use std::future::IntoFuture;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use report::site::{self, BarLink, ListInput, ListedResult, Page};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinError;

use crate::index::{self, Index, ResultIndex};
use crate::live::Lives;
use crate::pages::listener::{Arrival, Bounded};
use crate::promises::Promises;
use crate::{ConnectionBounds, DRAWING_THREADS, Makers, QUICK_THREADS, ServeOptions};

mod change;
pub(crate) mod front;
mod listener;
mod query;
pub(crate) mod relay;

/// Most results that are shown next to each other.
const SEVERAL_MAX: usize = 12;
/// Largest number of a lane.
const LANES_MAX: usize = 1000;
/// Most results whose histories are joined, the newest. What a history shows of a result is read once.
const HISTORY_MAX: usize = 1000;

/// Everything that answers are made from.
#[derive(Debug)]
pub(crate) struct PageSources {
    options: ServeOptions,
    makers: Makers,
    index: Mutex<Index>,
    lives: Lives,
    /// The threads that draw. Requests wait for one of them here and not among what the runtime is to do, because those whose
    /// readers leave are forgotten only here.
    drawing: Arc<Semaphore>,
    /// The same for pages that are soon made. A report may take minutes.
    quick: Arc<Semaphore>,
    promises: Arc<Promises>,
}

type Shared = State<Arc<PageSources>>;

impl PageSources {
    pub(crate) fn new(options: ServeOptions, makers: Makers) -> Result<PageSources> {
        let mut index = Index::new(&options.root);
        index.refresh().context("cannot list the results")?;
        let promises = Arc::new(Promises::default());
        let lives = Lives::new(options.companion.clone(), options.patience.linger, promises.clone());
        let drawing = Arc::new(Semaphore::new(DRAWING_THREADS));
        let quick = Arc::new(Semaphore::new(QUICK_THREADS));
        Ok(PageSources { options, makers, index: Mutex::new(index), lives, drawing, quick, promises })
    }

    /// What the server was started to show has ended.
    pub(crate) fn end_lives(&self) {
        self.lives.end();
    }

    /// Whether a page needs the report of what has ended, or will hear at once that it has.
    pub(crate) fn owes_report(&self, patience: Duration) -> bool {
        self.lives.are_ending() || self.promises.are_open(patience)
    }

    /// Does something on one of `threads`, as soon as one is free, unless whoever asked has left before.
    async fn on_thread<T: Send + 'static>(
        self: &Arc<PageSources>,
        threads: &Arc<Semaphore>,
        act: impl FnOnce(&PageSources) -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let place = threads.clone().acquire_owned().await;
        let site = self.clone();
        tokio::task::spawn_blocking(move || {
            let made = act(&site);
            drop(place);
            made
        })
        .await
    }

    fn listed(&self) -> Result<ResultIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner).refresh()
    }

    fn dir(&self, name: &str) -> Result<PathBuf, Failure> {
        let dir = self.index.lock().unwrap_or_else(PoisonError::into_inner).dir(name);
        dir.ok_or_else(|| Failure::not_found(format!("There is no result `{name}` here.")))
    }

    fn notice(&self, title: &str, words: &str) -> Page {
        site::notice(title, words, &[ALL], self.options.tool_version)
    }
}

const ALL: BarLink = BarLink { to: "/", words: "All results", is_here: false };

/// Answers requests until `stopped` says so.
pub(crate) async fn serve(
    listener: std::net::TcpListener,
    front: Arc<front::Front>,
    pages: Router,
    patience: ConnectionBounds,
    mut stopped: watch::Receiver<bool>,
) -> Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener).context("cannot listen")?;
    let service = pages.into_make_service_with_connect_info::<Arrival>();
    let served = axum::serve(Bounded::new(listener, patience, front), service).into_future();
    tokio::select! {
        served = served => served.context("the server ended"),
        _ = stopped.wait_for(|is_stopped| *is_stopped) => Ok(()),
    }
}

/// The pages of a directory here.
pub(crate) fn routes(site: Arc<PageSources>) -> Router {
    Router::new()
        .route("/", get(list))
        .route("/result/{name}", get(result))
        .route("/compare", get(compare))
        .route("/history/{name}", get(history))
        .route("/plan/{name}", get(plan))
        .route("/live", get(live_now))
        .route("/live/{name}", get(live))
        .route("/live/{name}/events", get(events))
        .route("/stop/{name}", post(change::stop))
        .route("/again/{name}", post(change::again))
        .fallback(nothing)
        .with_state(site)
}

fn answer(page: Page) -> Response {
    let mut response = Response::new(Body::from(page.html));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    if let Ok(policy) = HeaderValue::from_str(&page.policy) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// Why there is no page.
struct Failure {
    status: StatusCode,
    words: String,
}

impl Failure {
    fn not_found(words: String) -> Failure {
        Failure { status: StatusCode::NOT_FOUND, words }
    }

    fn bad(words: &str) -> Failure {
        Failure { status: StatusCode::BAD_REQUEST, words: words.to_string() }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        // The chain may quote a file that another program wrote.
        let words = model::secret::hide_text(&format!("{error:#}")).into_owned();
        Failure { status: StatusCode::UNPROCESSABLE_ENTITY, words }
    }
}

/// Draws a page for which results are read and explained, on a thread for that.
async fn drawn<F>(site: Arc<PageSources>, draw: F) -> Response
where
    F: FnOnce(&PageSources) -> Result<Page, Failure> + Send + 'static,
{
    let made = site.on_thread(&site.drawing, draw).await;
    response(&site, made)
}

/// Makes a page that is soon made.
async fn quick<F>(site: Arc<PageSources>, make: F) -> Response
where
    F: FnOnce(&PageSources) -> Result<Page, Failure> + Send + 'static,
{
    let made = site.on_thread(&site.quick, make).await;
    response(&site, made)
}

fn response(site: &PageSources, made: Result<Result<Page, Failure>, JoinError>) -> Response {
    let made = made.unwrap_or_else(|_| {
        Err(Failure {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            words: "This page cannot be drawn: a bug in pgdyno. Please report it.".to_string(),
        })
    });
    match made {
        Ok(page) => answer(page),
        Err(Failure { status, words }) => {
            (status, answer(site.notice("No such page", &words))).into_response()
        }
    }
}

async fn nothing(State(site): Shared) -> Response {
    quick(site, |_| Err(Failure::not_found("There is nothing at this address.".to_string()))).await
}

async fn list(State(site): Shared, RawQuery(query): RawQuery) -> Response {
    quick(site, move |site| {
        let wanted = index::wanted(&query::pairs(query.as_deref())?);
        let ResultIndex { entries, damaged } = site.listed()?;
        let found: Vec<&ListedResult> =
            entries.iter().filter(|entry| index::is_wanted(entry, &wanted)).collect();
        let here = BarLink { is_here: true, ..ALL };
        let now = BarLink { to: "/live", words: "Running now", is_here: false };
        let links = [here, now];
        let is_running = entries.iter().any(|entry| entry.is_running);
        Ok(site::list(&ListInput {
            entries: &found,
            n_all: entries.len(),
            wanted: &wanted,
            choices: &index::choices(&entries),
            damaged: &damaged,
            place: &site.options.place(),
            links: if is_running { &links } else { &links[..1] },
            tool_version: site.options.tool_version,
        }))
    })
    .await
}

async fn result(State(site): Shared, Path(name): Path<String>) -> Response {
    let report = site.promises.begin();
    let response = drawn(site.clone(), move |site| {
        let dir = site.dir(&name)?;
        let to = of_result(site, &name)?;
        Ok((site.makers.result)(&dir, &to.links())?)
    });
    let response = response.await;
    report.keep();
    response
}

/// Addresses that belong to one result.
struct OfResult {
    history: String,
    plan: String,
    live: Option<String>,
}

impl OfResult {
    fn links(&self) -> Vec<BarLink<'_>> {
        let link = |to, words| BarLink { to, words, is_here: false };
        let mut links = vec![ALL, link(&self.history, "History"), link(&self.plan, "Plan")];
        links.extend(self.live.iter().map(|to| link(to, "Live")));
        links
    }
}

fn of_result(site: &PageSources, name: &str) -> Result<OfResult, Failure> {
    let listed = site.listed()?;
    let entry = listed.entries.iter().find(|entry| entry.name == name);
    let experiment = entry.map_or(String::new(), |entry| entry.experiment.clone());
    Ok(OfResult {
        history: format!("/history/{}", site::encoded(&experiment)),
        plan: format!("/plan/{}", site::encoded(name)),
        live: entry.filter(|entry| entry.is_running).map(|_| format!("/live/{}", site::encoded(name))),
    })
}

async fn compare(State(site): Shared, RawQuery(query): RawQuery) -> Response {
    drawn(site, move |site| {
        let pairs = query::pairs(query.as_deref())?;
        let mut names: Vec<String> =
            pairs.into_iter().filter(|(key, _)| key == "r").map(|(_, name)| name).collect();
        // The list has the newest first; what is older is what the newer one is compared with.
        if query.as_deref().is_some_and(|query| !query.contains("order=")) {
            let entries = site.listed()?.entries;
            names.sort_by_key(|name| {
                entries.iter().find(|entry| entry.name == *name).map_or(0, |entry| entry.made_unix_ns)
            });
        }
        let dirs: Vec<PathBuf> = names.iter().map(|name| site.dir(name)).collect::<Result<_, Failure>>()?;
        match dirs.as_slice() {
            [] | [_] => Err(Failure::bad("Pick two results in the list to compare them.")),
            [a, b] => {
                let [first, second] = [&names[1], &names[0]].map(|name| site::encoded(name));
                let swapped = format!("/compare?order=as-is&r={first}&r={second}");
                let link = |to, words| BarLink { to, words, is_here: false };
                let [of_a, of_b] = [second, first].map(|name| format!("/result/{name}"));
                let swap = link(&swapped, "Swap A and B");
                let links = [ALL, swap, link(&of_a, "Report of A"), link(&of_b, "Report of B")];
                Ok((site.makers.comparison)([a.as_path(), b.as_path()], &links)?)
            }
            dirs if dirs.len() > SEVERAL_MAX => {
                Err(Failure::bad(&format!("At most {SEVERAL_MAX} results can be shown next to each other.")))
            }
            dirs => {
                let dirs: Vec<&std::path::Path> = dirs.iter().map(PathBuf::as_path).collect();
                Ok((site.makers.several)(&dirs, &[ALL])?)
            }
        }
    })
    .await
}

async fn history(State(site): Shared, Path(experiment): Path<String>) -> Response {
    drawn(site, move |site| {
        let entries = site.listed()?.entries;
        let of_experiment =
            entries.iter().filter(|entry| entry.experiment == experiment && !entry.is_running);
        let dirs: Vec<PathBuf> = of_experiment
            .take(HISTORY_MAX)
            .map(|entry| site.dir(&entry.name))
            .collect::<Result<_, Failure>>()?;
        if dirs.is_empty() {
            return Err(Failure::not_found(format!("There is no finished result of `{experiment}`.")));
        }
        let dirs: Vec<&std::path::Path> = dirs.iter().map(PathBuf::as_path).collect();
        Ok((site.makers.history)(&experiment, &dirs, &[ALL])?)
    })
    .await
}

async fn plan(State(site): Shared, Path(name): Path<String>) -> Response {
    quick(site, move |site| {
        let dir = site.dir(&name)?;
        let result = format!("/result/{}", site::encoded(&name));
        let links = [ALL, BarLink { to: &result, words: "Report", is_here: false }];
        let again = format!("/again/{}", site::encoded(&name));
        let again = if site.options.may_control && store::writer_of(&dir).is_none() {
            Some(again.as_str())
        } else {
            None
        };
        Ok(crate::live::plan_page(&dir, again, &links, site.options.tool_version)?)
    })
    .await
}

async fn live_now(State(site): Shared) -> Response {
    let newest = site.on_thread(&site.quick, |site| {
        let entries = site.listed().map(|listed| listed.entries).unwrap_or_default();
        entries.into_iter().find(|entry| entry.is_running).map(|entry| entry.name)
    });
    match newest.await.ok().flatten() {
        Some(name) => redirect(&format!("/live/{}", site::encoded(&name))),
        None => quick(site, |_| Err(Failure::not_found("Nothing is measured here now.".to_string()))).await,
    }
}

fn redirect(to: &str) -> Response {
    let location = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response()
}

/// The lane that an address asks for, of those that a plan may have.
fn lane(query: Option<&str>) -> Result<usize, Failure> {
    let pairs = query::pairs(query)?;
    let lane = pairs.iter().find(|(key, _)| key == "lane").and_then(|(_, value)| value.parse().ok());
    Ok(lane.unwrap_or(0).min(LANES_MAX))
}

async fn live(State(site): Shared, Path(name): Path<String>, RawQuery(query): RawQuery) -> Response {
    quick(site, move |site| {
        let lane = lane(query.as_deref())?;
        let dir = site.dir(&name)?;
        let plan = store::read_plan(&dir).map_err(anyhow::Error::from)?;
        let title = if plan.title.trim().is_empty() { &plan.name } else { &plan.title };
        let OfResult { history, .. } = of_result(site, &name)?;
        let report = format!("/result/{}", site::encoded(&name));
        let link = |to, words| BarLink { to, words, is_here: false };
        let links = [ALL, link(&history, "History"), link(&report, "Report so far")];
        let hosts: Vec<(String, String)> = if plan.is_side_by_side() {
            plan.lanes.iter().enumerate().map(|(n, lane)| (format!("?lane={n}"), lane.name())).collect()
        } else {
            Vec::new()
        };
        let lanes: Vec<BarLink> = (hosts.iter().enumerate())
            .map(|(n, (to, words))| BarLink { to, words, is_here: n == lane })
            .collect();
        let page =
            site::LivePage { name: &name, title, may_stop: site.options.may_control, lane, lanes: &lanes };
        Ok(site::live(&page, &links, site.options.tool_version))
    })
    .await
}

async fn events(
    State(site): Shared,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    let dir = match site.dir(&name) {
        Ok(dir) => dir,
        // 204 is what makes a browser stop asking.
        Err(_) => return StatusCode::NO_CONTENT.into_response(),
    };
    let after =
        request.headers().get("last-event-id").and_then(|value| value.to_str().ok()).map(str::to_string);
    let asked_lane = lane(query.as_deref()).ok();
    let asked = query::pairs(query.as_deref()).unwrap_or_default();
    let after = after.or_else(|| asked.into_iter().find(|(key, _)| key == "after").map(|(_, value)| value));
    let lane = asked_lane.unwrap_or(0);
    site.lives.stream(&name, &dir, lane, after.as_deref())
}
