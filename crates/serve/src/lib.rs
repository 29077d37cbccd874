//! A web server over a directory of results: their list, each report, comparisons, histories, and what is measured now.
//!
//! It reads what measuring writes, and nothing else: it can be started and stopped while something is measured, by whomever.
//! Its runtime is in a thread of its own with the lowest priority. Pages are drawn by `report`; results are read and explained by
//! what [`Makers`] give it.

mod door;
mod index;
mod live;
mod pages;

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use report::site::{Link, Page};
use tokio::sync::watch;

pub use door::{Door, is_loopback};

/// Most connections at the same time: a browser opens six.
const CONNECTIONS_MAX: usize = 64;
/// Threads that read and draw. Two, so that a small page need not wait for a large one.
const DRAWING_THREADS: usize = 2;

/// How long a report may take to a browser of this machine.
const TRANSFER: Duration = Duration::from_secs(1);
/// How often the end of something is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// The directory that is served, and the readers that it is served to.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of results, or of one result.
    pub root: PathBuf,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Whether readers need a token although only this machine can reach the server.
    pub wants_token: bool,
    /// Names under which readers may reach the server, besides those of this machine.
    pub names: Vec<String>,
    /// Whether the server ends with what is measured, so that its reader needs the report at once.
    pub is_short: bool,
    /// Whether to take another port if the one of `listen` is in use.
    pub may_move: bool,
    /// Whether pages may stop what is measured and begin it again; readers then need a token.
    pub may_control: bool,
    /// Version of the pgdyno that serves.
    pub tool_version: &'static str,
}

/// Who reads results and draws their pages; names are those of directories below the root.
#[derive(Debug, Clone, Copy)]
pub struct Makers {
    /// The report of a directory.
    pub result: fn(&Path, &[Link]) -> Result<Page>,
    /// The comparison of two directories.
    pub comparison: fn([&Path; 2], &[Link]) -> Result<Page>,
    /// Several directories next to each other.
    pub several: fn(&[&Path], &[Link]) -> Result<Page>,
    /// The histories of the experiment with this name, which these directories have.
    pub history: fn(&str, &[&Path], &[Link]) -> Result<Page>,
    /// Asks whoever measures in a directory to stop.
    pub stop: fn(&Path) -> Result<()>,
    /// Measures the experiment of a directory again, with results below the second one.
    pub again: fn(&Path, &Path) -> Result<()>,
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct Serving {
    /// Where it listens.
    pub address: SocketAddr,
    /// The token that readers need, if they do.
    pub token: Option<String>,
    site: Arc<pages::Site>,
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
        let n_before = self.site.n_results();
        if self.site.end_lives() == 0 {
            return;
        }
        while begun.elapsed() < patience && self.is_running() && self.site.n_results() == n_before {
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

/// Starts to serve, in a thread of its own.
///
/// # Errors
/// When the address cannot be listened on, or the directory cannot be read.
pub fn start(options: Options, makers: Makers) -> Result<Serving> {
    let listener = bind(&options).with_context(|| {
        format!("cannot listen on `{}`; choose another address with --listen", options.listen)
    })?;
    listener.set_nonblocking(true).context("cannot listen without blocking")?;
    let address = listener.local_addr().context("the address of the server is not known")?;
    let door = Door::new(address, &options)?;
    let token = door.token().map(str::to_string);
    let site = Arc::new(pages::Site::new(options, makers, door)?);
    let (stop, stopped) = watch::channel(false);
    let of_thread = site.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(DRAWING_THREADS)
        .thread_name("serve")
        .on_thread_start(step_back)
        .build()
        .context("cannot start the runtime of the server")?;
    let thread = std::thread::Builder::new()
        .name("serve".to_string())
        .spawn(move || {
            step_back();
            let served = runtime.block_on(pages::serve(listener, of_thread, stopped));
            runtime.shutdown_background();
            served
        })
        .context("cannot start the thread of the server")?;
    Ok(Serving { address, token, site, stop, thread: Some(thread) })
}

fn bind(options: &Options) -> std::io::Result<TcpListener> {
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
