//! What the parent says: a greeting if this process is on another machine, the order, commands; and its silence.
//!
//! A driver reads so, and so do the eyes and hands on a server's host and whoever answers for pages, with orders and commands of
//! their own.

use std::io::{self, BufRead};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::load::drive::{DriveCommand, DriverLine};
use model::load::hands::AgentCommand;
use model::load::hello::{Build, ClockState, Greeting, Hello, Pong};
use model::load::pages::PagesCommand;
use model::telemetry::watch::WatchCommand;
use nix::libc;
use nix::sys::signal::{Signal, raise};
use serde::de::DeserializeOwned;

use crate::clock::{self, WallClock};
use crate::control::commands::{Commands, ParentInput};
use crate::control::output::Outbox;

/// How long the parent may take to greet the other drivers of a load before it sends the order.
const ORDER_TIMEOUT: Duration = Duration::from_secs(120);
/// How long the parent may take to compare the clocks after the load.
const FAREWELL: Duration = Duration::from_secs(60);
/// How long a silence of its own the parent may ask to be borne, seconds.
const SILENCE_S: RangeInclusive<u32> = 1..=10;
/// How often silence is looked for.
const LOOK: Duration = Duration::from_millis(250);

/// A line that may follow an order.
pub trait ParentCommand: DeserializeOwned + Send + 'static {
    /// How long a process whose parent is gone may take to end: cancel its statements, or restore what it has set.
    const LAST_WILL: Duration = Duration::from_secs(4);
    /// How many lines may wait to be carried out.
    const LINES_WAITING_MAX: usize = 1024;

    /// The number of a ping, if it is one: this module answers it.
    fn ping(&self) -> Option<u64>;
}

impl ParentCommand for DriveCommand {
    fn ping(&self) -> Option<u64> {
        match self {
            DriveCommand::Ping(id) => Some(*id),
            _ => None,
        }
    }
}

impl ParentCommand for WatchCommand {
    fn ping(&self) -> Option<u64> {
        match self {
            WatchCommand::Ping(id) => Some(*id),
            _ => None,
        }
    }
}

impl ParentCommand for AgentCommand {
    // The kernel may take its time to restore a value: a disk's scheduler changes when the disk is idle.
    const LAST_WILL: Duration = Duration::from_secs(60);
    // Each line is answered before the next one is sent.
    const LINES_WAITING_MAX: usize = 16;

    fn ping(&self) -> Option<u64> {
        match self {
            AgentCommand::Ping(id) => Some(*id),
            _ => None,
        }
    }
}

impl ParentCommand for PagesCommand {
    fn ping(&self) -> Option<u64> {
        match self {
            PagesCommand::Ping(id) => Some(*id),
            _ => None,
        }
    }
}

/// The order, and what follows it.
#[derive(Debug)]
pub struct Begin<O, C> {
    /// The order.
    pub order: O,
    /// Whether the parent greeted us: it is on another machine, and has another clock.
    pub is_far: bool,
    /// Commands that follow the order.
    pub commands: Commands<C>,
}

/// When the parent counts as gone, unless something of it arrives before.
type Deadline = Arc<Mutex<Instant>>;

/// Reads up to the order, answers a greeting, and from then on reads commands in a thread, which answers pings whatever
/// the load does.
///
/// With a greeting, a parent that says nothing for [`Greeting::silence_s`] is gone, and so is one whose order does not
/// come; the process ends soon after, whatever it is doing.
///
/// # Errors
/// When the order cannot be read or parsed, or the greeting asks for another silence than 1 to 10 s.
pub fn begin<O: DeserializeOwned, C: ParentCommand>(
    mut input: impl BufRead + Send + 'static,
    wall: WallClock,
    outbox: &Outbox,
) -> Result<Begin<O, C>, String> {
    let commands = Commands::with_room_for(C::LINES_WAITING_MAX);
    let mut line = next_line(&mut input)?;
    let greeting: Option<Greeting> = serde_json::from_str(&line).ok();
    let mut far = None;
    if let Some(greeting) = &greeting {
        if !SILENCE_S.contains(&greeting.silence_s) {
            return Err(format!(
                "the greeting asks to bear {} s of silence; it may be {} to {} s",
                greeting.silence_s,
                SILENCE_S.start(),
                SILENCE_S.end()
            ));
        }
        let deadline = Deadline::new(Mutex::new(Instant::now() + ORDER_TIMEOUT));
        far = Some((Arc::clone(&deadline), Duration::from_secs(greeting.silence_s.into())));
        let commands = commands.share();
        std::thread::spawn(move || end_after(&deadline, &commands));
        outbox.say(&DriverLine::Hello(Box::new(hello(greeting)))).map_err(|error| error.to_string())?;
        line = next_line(&mut input)?;
    }
    let order = serde_json::from_str(&line).map_err(|e| format!("the order is not understood: {e}"))?;
    let (is_far, shared, outbox) = (far.is_some(), commands.share(), outbox.clone());
    std::thread::spawn(move || listen(input, far, &shared, wall, &outbox));
    Ok(Begin { order, is_far, commands })
}

fn next_line(input: &mut impl BufRead) -> Result<String, String> {
    let mut line = String::new();
    input.read_line(&mut line).map_err(|e| format!("cannot read the order: {e}"))?;
    Ok(line)
}

/// Who this process is. Facts that the machine does not give stay empty.
fn hello(greeting: &Greeting) -> Hello {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_string();
    let host = nix::sys::utsname::uname().map(|name| name.nodename().to_string_lossy().into_owned());
    Hello {
        nonce: greeting.nonce.clone(),
        build: Build {
            version: env!("CARGO_PKG_VERSION").to_string(),
            sha256: files::sha256("/proc/self/exe".as_ref()).unwrap_or_default(),
            architecture: std::env::consts::ARCH.to_string(),
        },
        host: host.unwrap_or_default(),
        processors: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
        boot_id: read("/proc/sys/kernel/random/boot_id"),
        pid: std::process::id(),
        pid_namespace: std::fs::read_link("/proc/self/ns/pid")
            .map_or_else(|_| String::new(), |link| link.to_string_lossy().into_owned()),
        clock: clock_state(),
        address: greeting.server.and_then(|server| wire::address_toward(server).ok()),
    }
}

/// What the kernel says of its clock; unsynchronised if it says nothing.
fn clock_state() -> ClockState {
    // SAFETY: a zeroed `timex` is valid, and asks for no change.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for the call.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    let is_synchronised = state >= 0 && timex.status & libc::STA_UNSYNC == 0;
    ClockState { is_synchronised, error_max_us: u64::try_from(timex.maxerror).unwrap_or(u64::MAX) }
}

/// Reads commands until the input ends; `far` is the deadline that each line moves, and by how much.
fn listen<C: ParentCommand>(
    input: impl BufRead,
    far: Option<(Deadline, Duration)>,
    commands: &Commands<C>,
    wall: WallClock,
    outbox: &Outbox,
) {
    let is_alive = || {
        if let Some((deadline, silence)) = &far {
            *deadline.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + *silence;
        }
    };
    is_alive();
    for line in input.lines().map_while(Result::ok) {
        is_alive();
        let Ok(command) = serde_json::from_str::<C>(&line) else { continue };
        match command.ping() {
            Some(id) => answer(id, wall, outbox).unwrap_or_default(),
            None if commands.add(command) => {}
            None => break,
        }
    }
    commands.end(ParentInput::ParentIsGone { is_far: far.is_some() });
    if far.is_some() {
        end_soon(C::LAST_WILL);
    }
}

/// Waits after the load, while pings are answered: the parent compares the clocks once more, and then closes our input.
pub fn until_the_parent_has_gone<C>(commands: &Commands<C>) {
    let begun = Instant::now();
    while let Some(left) = FAREWELL.checked_sub(begun.elapsed())
        && let Some(ParentInput::Command(_)) = commands.recv_timeout(left)
    {}
}

fn answer(id: u64, wall: WallClock, outbox: &Outbox) -> io::Result<()> {
    let (unix_ns, wall_unix_ns) = (wall.unix(clock::now()), WallClock::read().unix(clock::now()));
    outbox.say(&DriverLine::Pong(Pong { id, unix_ns, wall_unix_ns }))
}

fn end_after<C: ParentCommand>(deadline: &Mutex<Instant>, commands: &Commands<C>) {
    while Instant::now() < *deadline.lock().unwrap_or_else(PoisonError::into_inner) {
        std::thread::sleep(LOOK);
    }
    commands.end_at_once(ParentInput::ParentIsGone { is_far: true });
    end_soon(C::LAST_WILL);
}

/// Ends the process if it does not end by itself: a load may be waiting for a server, and its report for a pipe that
/// nobody reads.
fn end_soon(last_will: Duration) {
    std::thread::sleep(last_will);
    // Nothing of it is worth waiting for: its threads may hang in the kernel.
    let _ended = raise(Signal::SIGKILL);
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use model::load::hands::AgentOrder;

    use super::*;
    use crate::control::output::with_outbox;

    #[test]
    fn a_silence_that_is_too_short_or_too_long_is_refused_before_the_hello() {
        for silence_s in [0, 11, u32::MAX] {
            let greeting = Greeting { nonce: "n".into(), silence_s, server: None };
            let input = Cursor::new(serde_json::to_string(&greeting).unwrap() + "\n");
            let mut said = Vec::new();
            let begun = with_outbox(&mut said, |outbox| {
                begin::<AgentOrder, AgentCommand>(input, WallClock::read(), outbox)
            });
            let error = begun.unwrap().unwrap_err();
            assert!(error.contains(&format!("{silence_s} s of silence; it may be 1 to 10 s")), "{error}");
            assert_eq!(said, b"");
        }
    }
}
