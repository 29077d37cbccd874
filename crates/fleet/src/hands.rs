//! Hands on a server's host: `pgdyno host` behind a command that leads a pipe there, kept by a thread of its own.
//!
//! The thread sends the beats. Hands that hear none restore what they have set, and so do hands whose pipe ends: values
//! never outlive whoever asked for them by more than some seconds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use model::experiment::driver::DriverSpec;
use model::experiment::os::OsSpec;
use model::load::drive::DriverLine;
use model::load::hands::{AgentAnswer, AgentCommand, AgentOrder, RefusedValue, RestoredValue, SetValues};

use crate::connect::RemoteRole;
use crate::drivers::Fleet;

/// How long the login, the hello and the search for the server may take together: tries of a login included.
const OPEN_TIMEOUT: Duration = Duration::from_secs(150);
/// How long an answer may take: a disk changes its scheduler when it is idle, and other hands there restore values first.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Time between two looks at what is asked.
const TURN: Duration = Duration::from_millis(20);

/// `pgdyno host` on a server's host. Dropping it restores the values that it has set, and ends it.
#[derive(Debug)]
pub struct HostAgent {
    /// Why the devices of data and WAL are not known there, if they are not.
    pub no_disks: Option<String>,
    /// `None` after the end.
    asks: Option<Sender<AgentCommand>>,
    answers: Receiver<Heard>,
    /// Why they failed, if they did.
    failed: Option<String>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

/// An answer, or why there will be none any more.
type Heard = Result<AgentAnswer, String>;

impl HostAgent {
    /// Logs in, and waits until the hands have looked for the server that `order` describes. `own` is this program's file.
    ///
    /// # Errors
    /// When the host cannot be reached, its program is missing, of another build or without root's rights, or `stop` is
    /// raised.
    pub fn open(spec: &DriverSpec, order: AgentOrder, own: PathBuf, stop: &AtomicBool) -> Result<HostAgent> {
        let (asks, asked) = mpsc::channel();
        let (sender, answers) = mpsc::channel();
        let own_stop = Arc::new(AtomicBool::new(false));
        let (spec, thread_stop) = (spec.clone(), Arc::clone(&own_stop));
        // The kernel kills the command when the thread that started it ends.
        let body = move || {
            let kept = keep(&spec, order, &own, &thread_stop, &sender, &asked);
            if let Err(error) = kept {
                // Whoever asked may be gone.
                sender.send(Err(format!("{error:#}"))).unwrap_or_default();
            }
        };
        let thread = std::thread::Builder::new().name("hands".into()).spawn(body);
        let mut hands = HostAgent {
            no_disks: None,
            asks: Some(asks),
            answers,
            failed: None,
            thread: Some(thread.context("cannot start a thread for the hands on the host")?),
            stop: own_stop,
        };
        match hands.hear(OPEN_TIMEOUT, Some(stop))? {
            AgentAnswer::Ready { no_disks } => hands.no_disks = no_disks,
            other => bail!("the hands answered {other:?} before anything was asked"),
        }
        Ok(hands)
    }

    /// Which of these pairs of key and value are impossible there.
    ///
    /// # Errors
    /// When the hands are gone.
    pub fn check(&mut self, levels: Vec<(String, String)>) -> Result<Vec<RefusedValue>> {
        match self.ask(AgentCommand::Check(levels))? {
            AgentAnswer::Checked(refused) => Ok(refused),
            other => Err(unexpected(other)),
        }
    }

    /// Sets values of `[os]`.
    ///
    /// # Errors
    /// When a value cannot be set, or the hands are gone.
    pub fn set(&mut self, os: &OsSpec) -> Result<SetValues> {
        match self.ask(AgentCommand::Set(os.clone()))? {
            AgentAnswer::Set(values) => Ok(values),
            other => Err(unexpected(other)),
        }
    }

    /// Restores all values.
    ///
    /// # Errors
    /// When the hands are gone: then they have restored the values, or will when they are started again.
    pub fn put_back(&mut self) -> Result<Vec<RestoredValue>> {
        match self.ask(AgentCommand::PutBack)? {
            AgentAnswer::Back(undone) => Ok(undone),
            other => Err(unexpected(other)),
        }
    }

    /// Whether they have been there all the time, and their values with them.
    ///
    /// # Errors
    /// Why they have ended.
    pub fn expect_there(&mut self) -> Result<()> {
        match self.answers.try_recv() {
            Ok(Err(reason)) => self.failed = Some(reason),
            Err(TryRecvError::Disconnected) => _ = self.failed.get_or_insert(GONE.to_string()),
            Ok(Ok(_)) | Err(TryRecvError::Empty) => {}
        }
        self.failed.as_ref().map_or(Ok(()), |reason| Err(anyhow!("{reason}")))
    }

    fn ask(&mut self, command: AgentCommand) -> Result<AgentAnswer> {
        self.expect_there()?;
        if let Some(asks) = &self.asks {
            // Hands that are gone say why.
            asks.send(command).unwrap_or_default();
        }
        self.hear(ANSWER_TIMEOUT, None)
    }

    fn hear(&mut self, timeout: Duration, stop: Option<&AtomicBool>) -> Result<AgentAnswer> {
        let begun = Instant::now();
        loop {
            let heard = match self.answers.recv_timeout(TURN) {
                Ok(heard) => heard,
                Err(RecvTimeoutError::Disconnected) => Err(GONE.to_string()),
                Err(RecvTimeoutError::Timeout) => {
                    let is_stopped = stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
                    ensure!(!is_stopped, "stopped before the load began");
                    if begun.elapsed() < timeout {
                        continue;
                    }
                    Err(format!("nothing was answered within {} s", timeout.as_secs()))
                }
            };
            return match heard {
                Ok(AgentAnswer::Refused(reason)) => Err(anyhow!(reason)),
                Ok(answer) => Ok(answer),
                Err(reason) => {
                    self.failed = Some(reason.clone());
                    Err(anyhow!(reason))
                }
            };
        }
    }
}

const GONE: &str = "the hands on the host have ended";

fn unexpected(answer: AgentAnswer) -> anyhow::Error {
    anyhow!("the hands answered {answer:?}, which was not asked for")
}

impl Drop for HostAgent {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            // What it would report, the next hands there report too.
            thread.join().unwrap_or_default();
        }
    }
}

/// Starts the hands, and passes commands and answers on until nobody asks any more; then has everything restored.
fn keep(
    spec: &DriverSpec,
    mut order: AgentOrder,
    own: &Path,
    stop: &AtomicBool,
    answers: &Sender<Heard>,
    asked: &Receiver<AgentCommand>,
) -> Result<()> {
    let asked_at = Instant::now();
    let mut fleet = Fleet::logged_in(std::slice::from_ref(spec), RemoteRole::Hands, own, stop)?;
    // The login took time, by which the server process is older now.
    order.backend.iter_mut().for_each(|backend| backend.age_s += asked_at.elapsed().as_secs_f64());
    fleet.drivers[0].process.say(&order)?;
    loop {
        match asked.try_recv() {
            Ok(command) => fleet.drivers[0].process.say(&command)?,
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return end(&mut fleet),
        }
        match fleet.next(TURN)? {
            Some((_, DriverLine::Hands(answer))) => answers.send(Ok(answer)).unwrap_or_default(),
            Some((from, DriverLine::Failed { message })) => return Err(fleet.failure(from, message)),
            _ => {}
        }
    }
}

/// Waits until the hands have restored what they have set, or have said why they cannot, and lets them end.
fn end(fleet: &mut Fleet) -> Result<()> {
    fleet.drivers[0].process.say(&AgentCommand::Stop)?;
    let begun = Instant::now();
    while begun.elapsed() < ANSWER_TIMEOUT {
        if let Some((_, DriverLine::Hands(AgentAnswer::Back(_) | AgentAnswer::Refused(_)))) =
            fleet.next(TURN)?
        {
            fleet.drivers[0].has_ended = true;
            fleet.drivers[0].process.finish();
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use model::telemetry::watch::Backend;

    use super::*;
    use crate::tests::stand_in;

    #[test]
    fn the_age_of_the_server_process_is_that_after_the_login_and_hands_that_cannot_restore_may_end() {
        let dir = testbed::place();
        // They repeat the age of their order, and refuse everything.
        let then = r#"read -r order; age=${order#*age_s\":}; age=${age%%\}*}
            echo "{\"hands\":{\"ready\":{\"no_disks\":\"$age\"}}}"
            while read -r line; do case $line in *ping*) ;; *) echo '{"hands":{"refused":"no"}}' ;; esac; done"#;
        let own = stand_in::speaker(dir.path(), "own", then);
        let slow =
            std::fs::read_to_string(&own).unwrap().replace("read -r greeting", "read -r greeting; sleep 2");
        let own = stand_in::write(dir.path(), "own", &slow);
        let spec = stand_in::spec("db1", &["sh", "-c"].map(str::to_string), &own);
        let order = AgentOrder { format: model::FORMAT, backend: Some(Backend { pid: 1, age_s: 100.0 }) };
        let mut hands = HostAgent::open(&spec, order, own, &AtomicBool::new(false)).unwrap();
        let age_s: f64 = hands.no_disks.as_ref().unwrap().parse().unwrap();
        assert!((102.0..110.0).contains(&age_s), "{age_s}");
        assert_eq!(hands.put_back().unwrap_err().to_string(), "no");
        let begun = Instant::now();
        drop(hands);
        assert!(begun.elapsed() < ANSWER_TIMEOUT / 4, "{:?}", begun.elapsed());
    }
}
