//! Pages of a directory on another machine: `pgdyno pages` behind a command that leads a pipe there, followed by a thread of its
//! own, which logs in again when the pipe was lost and a page is asked for.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use model::experiment::driver::DriverSpec;
use model::load::drive::DriverLine;
use model::load::pages::{ANSWERS_MAX, AnswerPart, PageRequest, PagesCommand, PagesLine, PagesOrder};

use crate::connect::RemoteRole;
use crate::drivers::{Fleet, TURN};
use crate::process::Mailbox;

/// How long the other machine may take to list the directory after its hello.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);
/// Shortest time between two logins.
const RETRY: Duration = Duration::from_secs(2);

/// Takes the parts of an answer in turn; returns whether it wants more.
pub type PagePartSink = Box<dyn FnMut(AnswerPart) -> bool + Send>;
/// Says to the user what became of the pipe.
pub type PipeNotice = Box<dyn Fn(&str) + Send>;

/// `pgdyno pages` on another machine. Dropping it ends it.
pub struct Pages {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

#[derive(Default)]
struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    /// `None` while the pipe is lost.
    orders: Option<Mailbox>,
    /// Why it is lost.
    reason: String,
    /// Whether somebody has asked for something since.
    is_wanted: bool,
    n_asked: u64,
    sinks: HashMap<u64, PagePartSink>,
}

impl Pages {
    /// Logs in, and waits until the directory was listed. `own` is this program's file.
    ///
    /// # Errors
    /// When the machine cannot be reached, its program is missing or of another build, the directory cannot be read, or `stop`
    /// is raised.
    pub fn open(
        spec: &DriverSpec,
        order: PagesOrder,
        own: PathBuf,
        notice: PipeNotice,
        stop: &AtomicBool,
    ) -> Result<Pages> {
        let (found, opened) = mpsc::channel();
        let (shared, own_stop) = (Arc::<Shared>::default(), Arc::new(AtomicBool::new(false)));
        let far = Far { spec: spec.clone(), order, own, stop: own_stop.clone(), shared: shared.clone() };
        // The kernel kills the command when the thread that started it ends.
        let thread =
            std::thread::Builder::new().name("pages".into()).spawn(move || far.keep(&found, &notice));
        let thread = thread.context("cannot start a thread for the other machine")?;
        let pages = Pages { shared, thread: Some(thread), stop: own_stop };
        loop {
            match opened.recv_timeout(TURN) {
                Ok(found) => return found.map(|()| pages),
                Err(mpsc::RecvTimeoutError::Disconnected) => bail!("the thread for the other machine died"),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    ensure!(!stop.load(Ordering::Relaxed), "stopped before `{}` answered", spec.name);
                }
            }
        }
    }

    /// Asks for a page, whose parts go to `sink`. Returns the number of the answer.
    pub fn ask(&self, asked: PageRequest, mut sink: PagePartSink) -> u64 {
        let mut state = self.shared.lock();
        state.n_asked += 1;
        let id = state.n_asked;
        let lost = match &state.orders {
            None => Some(state.reason.clone()),
            Some(_) if state.sinks.len() >= ANSWERS_MAX => Some("too many pages are asked for".to_string()),
            Some(_) => None,
        };
        match lost {
            Some(reason) => {
                state.is_wanted = true;
                sink(AnswerPart::Lost(reason));
            }
            None => {
                state.sinks.insert(id, sink);
                state.say(&PagesCommand::Ask(PageRequest { id, ..asked }));
            }
        }
        id
    }

    /// A piece of an answer was taken, so that another one may come.
    pub fn took(&self, id: u64) {
        let state = self.shared.lock();
        if state.sinks.contains_key(&id) {
            state.say(&PagesCommand::Took(id));
        }
    }

    /// Nobody waits for an answer any more.
    pub fn leave(&self, id: u64) {
        self.shared.lock().leave(id);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap_or_default();
        }
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Pages").field("is_lost", &self.shared.lock().orders.is_none()).finish_non_exhaustive()
    }
}

impl State {
    fn say(&self, command: &PagesCommand) {
        if let Some(orders) = &self.orders {
            // Whoever reads the lines of a machine that is gone reports it.
            orders.say(command).unwrap_or_default();
        }
    }

    fn leave(&mut self, id: u64) {
        if self.sinks.remove(&id).is_some() {
            self.say(&PagesCommand::Leave(id));
        }
    }

    fn pass(&mut self, id: u64, part: AnswerPart) {
        let is_last = matches!(part, AnswerPart::End | AnswerPart::Lost(_));
        let is_wanted = self.sinks.get_mut(&id).is_some_and(|sink| sink(part));
        match is_last {
            true => drop(self.sinks.remove(&id)),
            false if !is_wanted => self.leave(id),
            false => {}
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lose(&self, reason: String) {
        let mut state = self.lock();
        state.orders = None;
        state.is_wanted = false;
        for (_, mut sink) in state.sinks.drain() {
            sink(AnswerPart::Lost(reason.clone()));
        }
        state.reason = reason;
    }
}

/// The other machine, as the thread sees it.
struct Far {
    spec: DriverSpec,
    order: PagesOrder,
    own: PathBuf,
    stop: Arc<AtomicBool>,
    shared: Arc<Shared>,
}

impl Far {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Keeps the pipe; only the first login has to succeed.
    fn keep(&self, found: &Sender<Result<()>>, notice: &PipeNotice) {
        let mut is_first = true;
        loop {
            let begun = Instant::now();
            let lost = match self.open() {
                Ok(mut fleet) => {
                    self.shared.lock().orders = fleet.drivers[0].process.mailbox();
                    if std::mem::take(&mut is_first) {
                        found.send(Ok(())).unwrap_or_default()
                    } else {
                        notice(&format!("note: `{}` answers again", self.spec.name))
                    }
                    self.follow(&mut fleet).err()
                }
                Err(error) if is_first => {
                    found.send(Err(error)).unwrap_or_default();
                    return;
                }
                Err(error) => Some(error),
            };
            if self.is_stopped() {
                return;
            }
            let Some(error) = lost else { return };
            let reason = format!("{error:#}");
            notice(&format!("note: {reason}; the next page that is asked for logs in again"));
            self.shared.lose(reason);
            while !self.is_stopped() && (!self.shared.lock().is_wanted || begun.elapsed() < RETRY) {
                std::thread::sleep(TURN);
            }
        }
    }

    fn open(&self) -> Result<Fleet> {
        let mut fleet =
            Fleet::logged_in(std::slice::from_ref(&self.spec), RemoteRole::Pages, &self.own, &self.stop)?;
        fleet.drivers[0].process.say(&self.order)?;
        let begun = Instant::now();
        loop {
            match fleet.next(TURN)? {
                Some((_, DriverLine::Pages(PagesLine::Open))) => return Ok(fleet),
                Some((from, DriverLine::Failed { message })) => return Err(fleet.failure(from, message)),
                _ => {}
            }
            let who = &fleet.drivers[0].process.who;
            ensure!(!self.is_stopped(), "stopped before {who} answered");
            let waited_s = OPEN_TIMEOUT.as_secs();
            ensure!(begun.elapsed() < OPEN_TIMEOUT, "{who} has not listed its directory within {waited_s} s");
        }
    }

    /// Passes on what arrives until nobody needs it any more.
    fn follow(&self, fleet: &mut Fleet) -> Result<()> {
        while !self.is_stopped() {
            match fleet.next(TURN)? {
                Some((_, DriverLine::Pages(PagesLine::Part { id, part }))) => {
                    self.shared.lock().pass(id, part)
                }
                Some((from, DriverLine::Failed { message })) => return Err(fleet.failure(from, message)),
                _ => {}
            }
        }
        Err(anyhow!("stopped"))
    }
}
