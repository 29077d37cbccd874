//! A web server over a directory of results: their list, each report, comparisons, histories, and what is measured now.
//!
//! It reads what measuring writes, and nothing else: it can be started and stopped while something is measured, by whomever.
//! Its runtime is in a thread of its own with the lowest priority. Pages are drawn by `report`; results are read and explained by
//! what [`Makers`] give it.

mod answering;
mod door;
mod index;
mod live;
mod neighbour;
mod pages;
mod promises;

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use axum::Router;
use model::load::pages::{AnswerPart, PageRequest};
use report::site::{BarLink, Page};
use tokio::sync::watch;

use pages::front::{self, Front};
use pages::relay::{self, PageRelay};

pub use answering::{Answering, Say};
pub use door::{RequestGuard, is_loopback};

/// Threads that read and draw. Two, so that a small page need not wait for a large one.
const DRAWING_THREADS: usize = 2;
/// Threads for pages that need no report, so that none of them waits for one.
const QUICK_THREADS: usize = 2;

/// How long a report may take to a browser of this machine.
const TRANSFER: Duration = Duration::from_secs(1);
/// How often the end of something is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// The directory that is served, and the readers that it is served to.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Directory of results, or of one result.
    pub root: PathBuf,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Whether readers need a token although only this machine can reach the server. Without one, they are the user who serves,
    /// the one who called that user by sudo, and root.
    pub wants_token: bool,
    /// Names under which readers may reach the server, besides those of this machine.
    pub names: Vec<String>,
    /// The result that the server shows and ends with, so that readers of it need its report at once.
    pub companion: Option<String>,
    /// Whether to take another port if the one of `listen` is in use.
    pub may_move: bool,
    /// Whether pages may stop what is measured and begin it again; readers then need a token.
    pub may_control: bool,
    /// Name of this machine for readers on another one; empty for readers here.
    pub machine: String,
    /// Version of the pgdyno that serves.
    pub tool_version: &'static str,
    /// Bounds of connections.
    pub patience: ConnectionBounds,
}

impl ServeOptions {
    /// The directory, for people.
    fn place(&self) -> String {
        let dir = self.root.display();
        if self.machine.is_empty() { dir.to_string() } else { format!("{}: {dir}", self.machine) }
    }
}

/// Bounds of connections and of what they cause, so that some that say or take nothing keep nobody out for long.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionBounds {
    /// Most connections at the same time: a browser opens six.
    pub connections_max: usize,
    /// How long the head of a request may take to come.
    pub request: Duration,
    /// How long bytes may wait to be taken.
    pub stall: Duration,
    /// How long an experiment is followed after its last page was closed: one that is loaded again finds everything.
    pub linger: Duration,
}

impl Default for ConnectionBounds {
    fn default() -> ConnectionBounds {
        ConnectionBounds {
            connections_max: 64,
            request: Duration::from_secs(5),
            stall: Duration::from_secs(60),
            linger: Duration::from_secs(30),
        }
    }
}

/// Whoever answers for a directory on another machine; see [`Answering`].
pub trait Elsewhere: Send + Sync + std::fmt::Debug {
    /// Asks for a page. Its parts go to `sink`, which returns whether it wants more. Returns the number of the answer.
    fn ask(&self, asked: PageRequest, sink: Box<dyn FnMut(AnswerPart) -> bool + Send>) -> u64;
    /// A piece of this answer was taken.
    fn took(&self, id: u64);
    /// Nobody waits for this answer any more.
    fn leave(&self, id: u64);
}

/// Who reads results and draws their pages; names are those of directories below the root.
#[derive(Debug, Clone, Copy)]
pub struct Makers {
    /// The report of a directory.
    pub result: fn(&Path, &[BarLink]) -> Result<Page>,
    /// The comparison of two directories.
    pub comparison: fn([&Path; 2], &[BarLink]) -> Result<Page>,
    /// Several directories next to each other.
    pub several: fn(&[&Path], &[BarLink]) -> Result<Page>,
    /// The histories of the experiment with this name, which these directories have.
    pub history: fn(&str, &[&Path], &[BarLink]) -> Result<Page>,
    /// Asks whoever measures in a directory to stop.
    pub stop: fn(&Path) -> Result<()>,
    /// Measures the experiment of a directory again, with results below the second one, and with what readers have accepted.
    pub again: fn(&Path, &Path, &[MeasureConsent]) -> Result<Again>,
}

/// A consent that a command line would need, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MeasureConsent {
    /// To execute and use what the list with this number shows, and nothing else.
    Commands(String),
    /// To measure for long.
    Size,
}

/// What a reader is asked before something is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsentQuestion {
    /// The consent that is missing.
    pub consent: MeasureConsent,
    /// Why it is needed, and all that it would allow.
    pub text: String,
}

/// What came of the wish to measure something again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Again {
    /// It has begun; its name, if its directory is there already.
    Begun(Option<String>),
    /// It needs a consent; nothing was done.
    Asks(ConsentQuestion),
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct Serving {
    /// Where it listens.
    pub address: SocketAddr,
    /// The token that readers need, if they do.
    pub token: Option<String>,
    /// `None` if another machine makes the pages.
    site: Option<Arc<pages::PageSources>>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Serving {
    /// Waits until the server ends by itself, which only an error makes it do.
    ///
    /// # Errors
    /// The error.
    pub fn wait(mut self) -> Result<()> {
        self.thread
            .take()
            .map_or(Ok(()), |thread| thread.join().map_err(|_| anyhow!("the server's thread panicked"))?)
    }

    /// Ends the server. Pages that are open on what was measured get its report before, if they fetch it in time.
    pub fn end_with_report(self, patience: Duration) {
        let begun = Instant::now();
        let Some(site) = &self.site else { return };
        site.end_lives();
        if !site.owes_report(patience) {
            return;
        }
        while begun.elapsed() < patience && self.is_running() && site.owes_report(patience) {
            std::thread::sleep(LOOK);
        }
        // The report is made, and on its way.
        std::thread::sleep(TRANSFER);
    }

    /// Whether it still serves.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        // Open streams end with the runtime, which waits for nothing.
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Starts to serve a directory, in a thread of its own.
///
/// # Errors
/// When the address cannot be listened on, or the directory cannot be read.
pub fn start(options: ServeOptions, makers: Makers) -> Result<Serving> {
    let site = Arc::new(pages::PageSources::new(options.clone(), makers)?);
    let routes = pages::routes(site.clone());
    let mut serving = listen(&options, routes)?;
    serving.site = Some(site);
    Ok(serving)
}

/// Starts to serve what another machine answers.
///
/// # Errors
/// When the address cannot be listened on.
pub fn start_relay(options: &ServeOptions, elsewhere: Box<dyn Elsewhere>) -> Result<Serving> {
    listen(options, relay::routes(PageRelay { elsewhere, tool_version: options.tool_version }))
}

fn listen(options: &ServeOptions, routes: Router) -> Result<Serving> {
    let listener = bind(options).with_context(|| {
        let option = if options.companion.is_some() { "--live=" } else { "--listen" };
        format!("cannot listen on `{}`; choose another address with {option}", options.listen)
    })?;
    listener.set_nonblocking(true).context("cannot listen without blocking")?;
    let address = listener.local_addr().context("the address of the server is not known")?;
    let front = Arc::new(Front::new(address, options)?);
    let token = front.token().map(str::to_string);
    let (stop, stopped) = watch::channel(false);
    let (routes, patience) = (front::behind(front.clone(), routes), options.patience);
    let runtime = runtime()?;
    let thread = std::thread::Builder::new()
        .name("serve".to_string())
        .spawn(move || {
            step_back();
            let served = runtime.block_on(pages::serve(listener, front, routes, patience, stopped));
            runtime.shutdown_background();
            served
        })
        .context("cannot start the thread of the server")?;
    Ok(Serving { address, token, site: None, stop, thread: Some(thread) })
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(DRAWING_THREADS + QUICK_THREADS)
        .thread_name("serve")
        .on_thread_start(step_back)
        .build()
        .context("cannot start the runtime of the server")
}

fn bind(options: &ServeOptions) -> std::io::Result<TcpListener> {
    match TcpListener::bind(options.listen) {
        Err(error) if error.kind() == ErrorKind::AddrInUse && options.may_move => {
            TcpListener::bind(SocketAddr::new(options.listen.ip(), 0))
        }
        other => other,
    }
}

/// Lets everything else on the machine go first: it may be what is measured.
fn step_back() {
    // Without the right to, the server is as any other process.
    let _ = rustix::process::setpriority_process(None, 19);
}
