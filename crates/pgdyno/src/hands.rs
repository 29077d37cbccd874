//! `pgdyno host`: the hands on a server's host. A pgdyno elsewhere starts it through a remote shell; its lines are those of
//! `model::load::hands`. Values are set while the pipe is open and something arrives on it, and are restored at its end.
//!
//! Setting values needs root. Another user calls this same program by sudo, in a copy that only root can replace and that
//! does nothing else, whatever its arguments and its environment are.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Stdin};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use driver::far::{
    Begin, Outbox, ParentCommand as _, ParentInput, WallClock, begin, until_the_parent_has_gone,
};
use experiment::stage::os::{NEEDS_OURS, disks_below};
use host::{Disk, KEYS, Keeper, KernelFiles, RestoredValue};
use model::experiment::os::OsSpec;
use model::load::drive::DriverLine;
use model::load::hands::{
    AgentAnswer, AgentCommand, AgentOrder, HELPER, LINE_BYTES_MAX, RefusedValue, SetValues,
};
use nix::unistd::geteuid;
use server::database::target::{postmaster_of, wal_of};
use server::user::account::Account;

use crate::{Exit, guard, pipe, say, signals};

/// How long other hands that have lost their pgdyno may take to restore their values: 5 s of silence, and the rest.
const PATIENCE: Duration = Duration::from_secs(12);
/// How often signals are looked for.
const LOOK: Duration = Duration::from_millis(100);
/// Most pairs of key and value in one question.
const LEVELS_MAX: usize = 1000;

/// Whether this process is the helper: by the name of its file, or of a link to it, which only root can make where sudoers
/// lets others call it.
pub(crate) fn is_helper() -> bool {
    let called = std::env::args_os().next().map(PathBuf::from);
    let names = [std::env::current_exe().ok(), called];
    names.into_iter().flatten().any(|path| path.file_name() == Path::new(HELPER).file_name())
}

/// The helper: sets values for whoever may call it by sudo, if nobody but root could have changed it.
pub(crate) fn help() -> Exit {
    let checked = || -> Result<()> {
        ensure!(
            std::env::args_os().len() == 1,
            "this program takes no arguments: pgdyno on another machine starts it (docs/hosts.md)"
        );
        ensure!(
            geteuid().is_root(),
            "this program needs root's rights: a line in sudoers gives them (docs/hosts.md)"
        );
        files::trust::check_program(&std::env::current_exe()?, 0)
    };
    match checked() {
        Ok(()) => serve_as_root(),
        Err(error) => {
            say(&format!("pgdyno-host: error: {error:#}"));
            Exit::Failed
        }
    }
}

/// `pgdyno host`: serves as root, else becomes the helper.
pub(crate) fn host() -> Result<Exit> {
    if geteuid().is_root() {
        return Ok(serve_as_root());
    }
    ensure!(
        Path::new(HELPER).exists(),
        "setting values of the operating system needs root, and there is no `{HELPER}`; see docs/hosts.md"
    );
    let error = Command::new("sudo").args(["-n", HELPER]).exec();
    bail!("cannot call `{HELPER}` by sudo: {error}")
}

fn serve_as_root() -> Exit {
    guard::undo_on_panic();
    // Whoever calls the helper may press keys at its terminal, whatever user it is.
    let lifted = guard::lift_limits().and_then(|()| guard::leave_terminal());
    let input = BufReader::new(Bounded { input: io::stdin(), n_of_line: 0 });
    let stop = signals::patient_flag();
    pipe::answer(|outbox| serve(input, outbox, stop, lifted))
}

/// Standard input up to a line that is longer than any that is meant for us.
struct Bounded {
    input: Stdin,
    /// Bytes since the last end of a line.
    n_of_line: usize,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(buffer)?;
        for byte in &buffer[..n] {
            self.n_of_line = if *byte == b'\n' { 0 } else { self.n_of_line + 1 };
            if self.n_of_line > LINE_BYTES_MAX {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line has no end"));
            }
        }
        Ok(n)
    }
}

fn serve(
    input: BufReader<Bounded>,
    outbox: &Outbox,
    stop: &AtomicBool,
    lifted: Result<(), String>,
) -> Result<(), String> {
    let Begin { order, is_far, commands } =
        begin::<AgentOrder, AgentCommand>(input, WallClock::read(), outbox)?;
    if !is_far {
        return Err("this is started by a pgdyno on another machine (--host)".to_string());
    }
    // Whoever called has been greeted, and hears it.
    lifted?;
    pipe::expect_format(order.format)?;
    let (disks, no_disks) = match disks_of(&order) {
        Ok(disks) => (disks, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    let mut hands = Hands { machine: KernelFiles::this(), disks, keeper: None };
    let say = |answer| outbox.say(&DriverLine::Hands(answer)).map_err(|error| error.to_string());
    say(AgentAnswer::Ready { no_disks })?;
    while !stop.load(Ordering::Relaxed) {
        match commands.recv_timeout(LOOK) {
            Some(ParentInput::Command(AgentCommand::Stop)) => {
                say(hands.answer(AgentCommand::Stop))?;
                until_the_parent_has_gone(&commands);
                return Ok(());
            }
            Some(ParentInput::Command(command)) => say(hands.answer(command))?,
            Some(ParentInput::TooManyLines) => {
                return Err(format!(
                    "more than {} lines waited: each command is answered before the next one",
                    AgentCommand::LINES_WAITING_MAX
                ));
            }
            Some(ParentInput::ParentIsGone { .. }) => break,
            None => {}
        }
    }
    // Dropping the keeper restores what it has set; what it cannot restore stays in the journal of this machine.
    Ok(())
}

/// Devices of the server's data and WAL. The directories are those of the server's processes: a caller names none.
fn disks_of(order: &AgentOrder) -> Result<Vec<Disk>, String> {
    let backend = order.backend.ok_or("the server did not say which process serves a session".to_string())?;
    let pid = postmaster_of(backend)?;
    let cwd = format!("/proc/{pid}/cwd");
    let data = std::fs::read_link(&cwd).map_err(|error| format!("`{cwd}`: {error}"))?;
    // With root's rights, the answer would say what a link that its user has put there leads to.
    let account =
        Account::of_owner(Path::new(&format!("/proc/{pid}"))).map_err(|error| format!("{error:#}"))?;
    let wal = account.act(|| io::Result::Ok(wal_of(&data))).map_err(|error| error.to_string())??;
    let dirs: BTreeMap<String, PathBuf> = [("data".to_string(), data), ("wal".to_string(), wal)].into();
    Ok(disks_below(&dirs))
}

/// The right to set values, once it was needed.
struct Hands {
    machine: KernelFiles,
    disks: Vec<Disk>,
    keeper: Option<Keeper>,
}

impl Hands {
    fn answer(&mut self, command: AgentCommand) -> AgentAnswer {
        let answer = match command {
            AgentCommand::Check(levels) if levels.len() > LEVELS_MAX => {
                return AgentAnswer::Refused(format!("more than {LEVELS_MAX} values were asked about"));
            }
            AgentCommand::Check(levels) => {
                let refused = levels.into_iter().filter_map(|(key, value)| {
                    let reason = self.refusal(&key, &value)?;
                    Some(RefusedValue { key, value, reason })
                });
                return AgentAnswer::Checked(refused.collect());
            }
            AgentCommand::Set(os) => self.set(&os).map(AgentAnswer::Set),
            AgentCommand::PutBack => self.put_back().map(AgentAnswer::Back),
            // Hands that were only asked what is possible must not wait for those that set values here.
            AgentCommand::Stop => {
                self.keeper.as_mut().map_or(Ok(Vec::new()), Keeper::undo).map(AgentAnswer::Back)
            }
            AgentCommand::Ping(_) => return AgentAnswer::Refused("a ping is no command".to_string()),
        };
        answer.unwrap_or_else(|error| AgentAnswer::Refused(format!("{error:#}")))
    }

    fn refusal(&self, key: &str, value: &str) -> Option<String> {
        if !KEYS.contains(&key) {
            return Some(NEEDS_OURS.to_string());
        }
        host::refusal(&self.machine, key, value, &self.disks)
    }

    fn set(&mut self, os: &OsSpec) -> Result<SetValues> {
        for (key, value) in os {
            if let Some(reason) = self.refusal(key, value) {
                bail!("os.{key} = {value}: {reason}");
            }
        }
        let undone = self.take()?;
        let mut detail = BTreeMap::new();
        let Some(keeper) = &mut self.keeper else { bail!("the right to set values is missing") };
        for (key, value) in os {
            for (path, value) in host::settings(&self.machine, key, value, &self.disks) {
                let before = keeper.set(&path, &value)?;
                detail.insert(path, format!("{value} (was {before})"));
            }
        }
        Ok(SetValues { detail, undone })
    }

    fn put_back(&mut self) -> Result<Vec<RestoredValue>> {
        // What a dead pgdyno has left here is restored where the right is acquired.
        let mut undone = self.take()?;
        if let Some(keeper) = &mut self.keeper {
            undone.extend(keeper.undo()?);
        }
        Ok(undone)
    }

    /// Acquires the right, if it is not held yet. Returns what was restored by that.
    fn take(&mut self) -> Result<Vec<RestoredValue>> {
        if self.keeper.is_some() {
            return Ok(Vec::new());
        }
        let (keeper, undone) = Keeper::take_within(&self.machine, PATIENCE)?;
        self.keeper = Some(keeper);
        Ok(undone)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SWAPPINESS: &str = "/proc/sys/vm/swappiness";

    #[test]
    fn hands_that_have_set_nothing_leave_the_right_and_the_journal_to_others() {
        let root = tempfile::tempdir().unwrap();
        let kernel_file = root.path().join(&SWAPPINESS[1..]);
        fs::create_dir_all(kernel_file.parent().unwrap()).unwrap();
        fs::write(&kernel_file, "60\n").unwrap();
        let machine = KernelFiles::at(root.path());
        let mut hands = Hands { machine: machine.clone(), disks: Vec::new(), keeper: None };
        let (mut other, _) = Keeper::take(&machine).unwrap();
        other.set(SWAPPINESS, "7").unwrap();
        let journal = fs::read(root.path().join("run/pgdyno/os-undo.jsonl")).unwrap();
        let levels = vec![("swappiness".to_string(), "8".to_string())];
        assert_eq!(hands.answer(AgentCommand::Check(levels)), AgentAnswer::Checked(Vec::new()));
        assert_eq!(hands.answer(AgentCommand::Stop), AgentAnswer::Back(Vec::new()));
        assert_eq!(fs::read(root.path().join("run/pgdyno/os-undo.jsonl")).unwrap(), journal);
        assert_eq!(machine.read(SWAPPINESS).unwrap(), "7");
        // What hands have set is restored by the end.
        drop(other);
        let os = [("swappiness".to_string(), "8".to_string())].into();
        assert!(matches!(hands.answer(AgentCommand::Set(os)), AgentAnswer::Set(_)));
        let AgentAnswer::Back(undone) = hands.answer(AgentCommand::Stop) else { panic!() };
        assert_eq!((undone.len(), machine.read(SWAPPINESS).unwrap().as_str()), (1, "60"));
    }
}
