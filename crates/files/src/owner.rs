//! Which process has changed something that outlives it, so that another one can say whose it was, and leaves it alone while that
//! process lives.

use std::fs;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::unistd::{User, getuid};
use serde::{Deserialize, Serialize};

/// Of `flags` in /proc/PID/stat: the process is about to end (`PF_EXITING`, include/linux/sched.h). Its locks may be gone already.
const EXITING: u64 = 0x4;
/// Longest word of a command line that names a command of pgdyno.
const COMMAND_MAX: usize = 12;

/// A process of pgdyno.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The process id.
    pub pid: u32,
    /// When the process was started, in ticks of the kernel since the machine's start: ids are given again.
    started: u64,
    /// The kernel's `boot_id`.
    boot_id: String,
    /// Identifies the namespace in which the process has its id.
    pid_namespace: String,
    /// Which command of pgdyno it is; empty if that is not known.
    command: String,
    /// Name of its user.
    user: String,
    /// When it first said who it is, seconds since 1970.
    since_unix_s: u64,
}

impl Owner {
    /// This process.
    pub fn this() -> Owner {
        static THIS: OnceLock<Owner> = OnceLock::new();
        THIS.get_or_init(|| Owner::from_pid(std::process::id())).clone()
    }

    /// A process of this user's, as it is now.
    fn from_pid(pid: u32) -> Owner {
        let uid = getuid();
        let user = User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name);
        let is_command =
            |word: &String| word.len() <= COMMAND_MAX && word.bytes().all(|byte| byte.is_ascii_lowercase());
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Owner {
            pid,
            started: Stat::read(pid).map_or(0, |stat| stat.started),
            boot_id: boot_id(),
            pid_namespace: pid_namespace(),
            command: std::env::args_os()
                .nth(1)
                .and_then(|word| word.into_string().ok())
                .filter(is_command)
                .unwrap_or_default(),
            user,
            since_unix_s: since.as_secs(),
        }
    }

    /// Whether it is this process.
    pub fn is_this(&self) -> bool {
        *self == Owner::this()
    }

    /// Whether it is another process that has not ended, as far as this one can see: of another machine, and of another namespace
    /// of processes, it cannot.
    pub fn is_another_that_lives(&self) -> bool {
        let is_here = self.boot_id == boot_id() && self.pid_namespace == pid_namespace();
        let is_it = |stat: Stat| stat.started == self.started && !stat.has_ended;
        is_here && !self.is_this() && Stat::read(self.pid).is_some_and(is_it)
    }

    /// In words.
    pub fn words(&self) -> String {
        let command = if self.command.is_empty() { String::new() } else { format!(" {}", self.command) };
        let (Owner { pid, user, .. }, since) = (self, utc(self.since_unix_s));
        format!("pgdyno{command} (process {pid}, user {user}, since {since})")
    }

    /// What to add about a value of this owner that another process has put back; nothing about one of our own.
    pub fn left(&self) -> Option<String> {
        (!self.is_this()).then(|| format!("left by {}, which ended without putting it back", self.words()))
    }
}

/// What the kernel says of a process.
struct Stat {
    started: u64,
    has_ended: bool,
}

impl Stat {
    fn read(pid: u32) -> Option<Stat> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before the last parenthesis may hold anything; the state is field 3.
        let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let has_ended = matches!(fields.first(), Some(&("Z" | "X"))) || number(9)? & EXITING != 0;
        Some(Stat { started: number(22)?, has_ended })
    }
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_string()
}

fn pid_namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

/// Date and time of seconds since 1970 (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
fn utc(unix_s: u64) -> String {
    let (days, s) = (unix_s / 86_400 + 719_468, unix_s % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", s / 3600, s / 60 % 60, s % 60)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_lives_until_it_has_ended_and_no_other_one_with_its_number_is_it() {
        let this = Owner::this();
        assert!(this.is_this() && !this.is_another_that_lives() && this.left().is_none());
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let owner = Owner::from_pid(child.id());
        assert!(owner.is_another_that_lives() && !owner.is_this());
        for other in [
            Owner { started: owner.started + 1, ..owner.clone() },
            Owner { boot_id: "another".to_string(), ..owner.clone() },
            Owner { pid_namespace: "another".to_string(), ..owner.clone() },
        ] {
            assert!(!other.is_another_that_lives(), "{other:?}");
        }
        child.kill().unwrap();
        // Nobody has waited for it yet: it is a zombie, or about to be one.
        while Stat::read(child.id()).is_some_and(|stat| !stat.has_ended) {
            std::thread::yield_now();
        }
        assert!(!owner.is_another_that_lives());
        child.wait().unwrap();
        assert!(!owner.is_another_that_lives());
        let owner =
            Owner { command: "run".to_string(), user: "bob".to_string(), since_unix_s: 0, pid: 7, ..owner };
        let expected = "pgdyno run (process 7, user bob, since 1970-01-01 00:00:00 UTC)";
        assert_eq!(owner.words(), expected);
    }

    #[test]
    fn seconds_since_1970_are_a_date() {
        for (unix_s, expected) in [
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_764_273_805, "2025-11-27 20:03:25 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(unix_s), expected);
        }
    }
}
