//! What is measured now: a thread follows the files of an experiment as long as a page shows it, and each page gets what it lacks.
//!
//! Nothing is queued for a page: it is given the difference between what it has and what there is when it can take it. A page that
//! slept, or whose server was killed, says what it has when it comes back.

mod experiment;
mod run;

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use report::site::{self, BarLink, Lacking, Page, PlanHead, Reached};
use tokio::sync::watch;

use crate::live::experiment::FollowedExperiment;
use crate::promises::Promises;

/// Most experiments that are followed at the same time; of hosts side by side, each counts.
const FOLLOWED_MAX: usize = 16;
/// Most pages that are open on one of them.
const READERS_MAX: usize = 24;
/// How often the files are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How often a comment shows a page that the server is there.
const BEAT: Duration = Duration::from_secs(10);
/// When a page asks again after its connection was lost.
const RETRY: Duration = Duration::from_secs(1);
/// When a page asks again that found no place.
const RETRY_PLACE: Duration = Duration::from_secs(10);

/// The experiments that are followed.
#[derive(Debug)]
pub(crate) struct Lives {
    /// The result that the server ends with.
    companion: Option<String>,
    linger: Duration,
    promises: Arc<Promises>,
    /// Keys are name and lane.
    followed: Mutex<HashMap<(String, usize), Arc<Live>>>,
    /// Whether the companion is known to have ended.
    is_over: Arc<AtomicBool>,
}

/// An experiment that is followed.
#[derive(Debug)]
struct Live {
    /// Distinguishes what this follower counts from what an earlier one did, of this process or another.
    epoch: u64,
    shown: Mutex<Shown>,
    changed: watch::Sender<u64>,
    n_readers: AtomicUsize,
    /// Whether it makes room for another, because no page shows it.
    is_given_up: AtomicBool,
}

/// The contents of pages.
#[derive(Debug, Default)]
struct Shown {
    /// Parts of the page by their ids, as HTML.
    parts: Vec<(&'static str, String)>,
    charts: Option<site::LiveCharts>,
    /// How many attempts at runs had charts before: what a page has of another attempt cannot be continued.
    attempt: u32,
    /// What became of the experiment, once it has ended.
    ended: Option<String>,
}

impl Lives {
    pub(crate) fn new(companion: Option<String>, linger: Duration, promises: Arc<Promises>) -> Lives {
        Lives { companion, linger, promises, followed: Mutex::default(), is_over: Arc::default() }
    }

    /// What the server ends with has ended.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Whether pages will hear at once that it has ended.
    pub(crate) fn are_ending(&self) -> bool {
        let followed = lock(&self.followed);
        let mut own = followed.iter().filter(|((name, _), _)| self.is_companion(name));
        self.is_over.load(Ordering::Relaxed) && own.any(|(_, live)| live.is_read())
    }

    fn is_companion(&self, name: &str) -> bool {
        self.companion.as_deref() == Some(name)
    }

    /// The stream of events for a page on the runs of a lane; `after` is the id of the last one that it has. If too many are
    /// open, it says so and ends.
    pub(crate) fn stream(&self, name: &str, dir: &Path, lane: usize, after: Option<&str>) -> Response {
        let Some(place) = self.place(name, dir, lane) else {
            let words =
                "Too many pages are open on what this server follows. Close one; this page tries again.";
            let data = serde_json::json!({ "words": words, "retry_ms": RETRY_PLACE.as_millis() }).to_string();
            let event = Event::default().event("full").data(data).retry(RETRY_PLACE);
            return Sse::new(stream::once(async { Ok::<Event, Infallible>(event) })).into_response();
        };
        let has = after.and_then(Id::parse).filter(|id| id.epoch == place.live.epoch);
        let changed = place.live.changed.subscribe();
        let reader = Reader {
            place,
            changed,
            has: has.map(|id| (id.attempt, id.reached)),
            sent: HashMap::new(),
            waiting: VecDeque::new(),
            is_first: true,
            is_over: false,
            report: format!("/result/{}", site::encoded(name)),
            promises: self.companion.is_some().then(|| self.promises.clone()),
        };
        let events = stream::unfold(reader, |mut reader| async move {
            let event = reader.next().await?;
            Some((Ok::<Event, Infallible>(event), reader))
        });
        let beat = KeepAlive::new().interval(BEAT).text("beat");
        Sse::new(events).keep_alive(beat).into_response()
    }

    /// A place at the experiment, which is followed from now on if it was not.
    fn place(&self, name: &str, dir: &Path, lane: usize) -> Option<Place> {
        let mut followed = lock(&self.followed);
        followed.retain(|_, live| !live.is_left());
        let key = (name.to_string(), lane);
        if let Some(live) = followed.get(&key) {
            return Place::take(live.clone());
        }
        if followed.len() >= FOLLOWED_MAX {
            let unread = followed.iter().find(|(_, live)| !live.is_read()).map(|(key, _)| key.clone())?;
            let given_up = followed.remove(&unread)?;
            given_up.is_given_up.store(true, Ordering::Relaxed);
        }
        let live = Arc::new(Live::new());
        let is_over = if self.is_companion(name) { self.is_over.clone() } else { Arc::default() };
        let (of_thread, dir, linger) = (live.clone(), dir.to_path_buf(), self.linger);
        let thread = std::thread::Builder::new().name("follow".to_string());
        thread.spawn(move || of_thread.follow(FollowedExperiment::new(dir, lane), linger, &is_over)).ok()?;
        followed.insert(key, live.clone());
        Place::take(live)
    }
}

impl Live {
    fn new() -> Live {
        let (changed, _) = watch::channel(0);
        Live {
            epoch: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64),
            shown: Mutex::default(),
            changed,
            n_readers: AtomicUsize::new(0),
            is_given_up: AtomicBool::new(false),
        }
    }

    /// Follows the experiment until no page has shown it for the time of `linger`.
    fn follow(&self, mut experiment: FollowedExperiment, linger: Duration, is_over: &AtomicBool) {
        crate::step_back();
        let mut last_reader = Instant::now();
        loop {
            if self.is_read() {
                last_reader = Instant::now();
            }
            if last_reader.elapsed() >= linger || self.is_given_up.load(Ordering::Relaxed) {
                break;
            }
            let has_ended = experiment.look(&self.shown, is_over.load(Ordering::Relaxed));
            self.changed.send_modify(|n| *n += 1);
            if has_ended {
                break;
            }
            std::thread::sleep(LOOK);
        }
        // Whoever comes later is given a new one.
        self.changed.send_modify(|n| *n = u64::MAX);
    }

    /// Whether a page shows it.
    fn is_read(&self) -> bool {
        self.n_readers.load(Ordering::Relaxed) > 0
    }

    /// Whether nobody follows the experiment any more.
    fn is_left(&self) -> bool {
        *self.changed.borrow() == u64::MAX
    }
}

/// A page's place among those that are open.
struct Place {
    live: Arc<Live>,
}

impl Place {
    fn take(live: Arc<Live>) -> Option<Place> {
        let n_before = live.n_readers.fetch_add(1, Ordering::Relaxed);
        let place = Place { live };
        (n_before < READERS_MAX).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.live.n_readers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One page, and what it has.
struct Reader {
    place: Place,
    changed: watch::Receiver<u64>,
    /// Attempt and place of its charts.
    has: Option<(u32, Reached)>,
    /// The parts that it has, by their ids.
    sent: HashMap<&'static str, String>,
    waiting: VecDeque<Event>,
    is_first: bool,
    is_over: bool,
    report: String,
    /// Set if the server ends soon: its page gets the report at once.
    promises: Option<Arc<Promises>>,
}

impl Reader {
    /// The next event, as soon as there is one; `None` at the end.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            if !std::mem::take(&mut self.is_first) && self.changed.changed().await.is_err() {
                return None;
            }
            self.changed.borrow_and_update();
            self.gather();
        }
    }

    /// Collects what the page lacks.
    fn gather(&mut self) {
        let live = self.place.live.clone();
        let shown = lock(&live.shown);
        for (id, html) in &shown.parts {
            if self.sent.get(id) != Some(html) {
                self.sent.insert(id, html.clone());
                let data = serde_json::json!({ "id": id, "html": html }).to_string();
                self.waiting.push_back(Event::default().event("part").data(data));
            }
        }
        if let Some(charts) = &shown.charts {
            let attempt = shown.attempt;
            let has = self.has.filter(|(of, _)| *of == attempt).map(|(_, reached)| reached);
            let event = match charts.lacking(has) {
                Lacking::Nothing => None,
                Lacking::Whole(data) => Some(("whole", data)),
                Lacking::More(data) => Some(("more", data)),
            };
            if let Some((name, data)) = event {
                let reached = charts.reached();
                self.has = Some((attempt, reached));
                let id = Id { epoch: live.epoch, attempt, reached };
                self.waiting.push_back(Event::default().event(name).id(id.text()).data(data).retry(RETRY));
            }
        }
        if let Some(words) = &shown.ended {
            let leaves = self.promises.is_some();
            let data = serde_json::json!({ "words": words, "to": self.report, "leaves": leaves });
            self.waiting.push_back(Event::default().event("ended").data(data.to_string()));
            self.promises.iter().for_each(|promises| promises.make());
            self.is_over = true;
        } else if live.is_left() {
            self.is_over = true;
        }
    }
}

/// The id of an event: what a page has when it has it.
#[derive(Debug, PartialEq, Eq)]
struct Id {
    epoch: u64,
    attempt: u32,
    reached: Reached,
}

impl Id {
    fn text(&self) -> String {
        format!("{}-{}-{}-{}", self.epoch, self.attempt, self.reached.generation, self.reached.step)
    }

    fn parse(text: &str) -> Option<Id> {
        let parts: Vec<&str> = text.split('-').collect();
        let [epoch, attempt, generation, step] = parts[..] else { return None };
        let reached = Reached { generation: generation.parse().ok()?, step: step.parse().ok()? };
        Some(Id { epoch: epoch.parse().ok()?, attempt: attempt.parse().ok()?, reached })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The page of the plan of the experiment in `dir`; `start` is where it can be asked for again.
///
/// # Errors
/// When the plan cannot be read.
pub(crate) fn plan_page(
    dir: &Path,
    start: Option<&str>,
    links: &[BarLink],
    tool_version: &str,
) -> Result<Page> {
    let mut experiment = FollowedExperiment::new(PathBuf::from(dir), 0);
    experiment.read_plan()?;
    let plan = experiment.plan().cloned().unwrap_or_default();
    let title = if plan.title.trim().is_empty() { &plan.name } else { &plan.title };
    let head = PlanHead { title, made_unix_ns: plan.made_unix_ns, start };
    Ok(site::plan_page(&head, &experiment.runs(), links, tool_version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_say_what_a_page_has() {
        let id = Id { epoch: 7, attempt: 2, reached: Reached { generation: 3, step: 40 } };
        assert_eq!(Id::parse(&id.text()), Some(id));
        for wrong in ["", "1-2-3", "1-2-3-x", "1-2-3-4-5", "-1-2-3"] {
            assert_eq!(Id::parse(wrong), None, "{wrong}");
        }
    }
}
