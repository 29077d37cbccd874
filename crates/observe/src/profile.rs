//! Samples of what the server's processes execute, by the program `perf`, for a profile. `perf` knows the formats of
//! symbols and of stacks without frame pointers, as most servers are built; its output is data, with bounds.

mod script;

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use model::run::profile::{ProfileRecord, Stack};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, SysconfVar, sysconf};

use crate::host::counters;
use crate::host::process::ProcessTree;

/// Samples in all: 0.01 of them are known to within a tenth of itself.
const SAMPLES: u64 = 20_000;
/// More would slow the server; `perf` takes no fraction.
const FREQUENCY_HZ: (u64, u64) = (1, 997);
/// Callers are found by the tables for exceptions, which every build has, in a copy of so much of the stack.
const STACKS: &str = "dwarf,16384";
/// Longest recording: a longer one would say the same.
const LENGTH_S_MAX: u32 = 30;
/// Each process needs an open file on each processor.
const FILES_MAX: usize = 8_000;
/// Limit of what `perf` may write, and for its end and its answers.
const RECORDED_MIB_MAX: u32 = 2_048;
const END_LIMIT: Duration = Duration::from_secs(20);
const FOLD_LIMIT: Duration = Duration::from_secs(300);
/// Most of an error's text.
const ERROR_BYTES_MAX: u64 = 4_096;

/// A server that is to be recorded.
#[derive(Debug)]
pub struct Subject {
    /// Process id of the postmaster.
    pub postmaster_pid: i32,
    /// Length of the load's measurement, seconds.
    pub length_s: u32,
    /// Where the recording is until it is folded: as long as the samples' stacks, and private.
    pub scratch: PathBuf,
}

/// What `perf` has recorded, which is removed when the value is dropped.
#[derive(Debug)]
pub struct Recording {
    file: PathBuf,
    record: ProfileRecord,
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

impl Subject {
    /// Records the server's processes of now and those that they start, until `is_over` or for as long as is useful.
    ///
    /// # Errors
    /// Says why nothing was recorded.
    pub fn record(&self, is_over: &AtomicBool) -> Result<Recording, String> {
        let tree = ProcessTree::new(self.postmaster_pid).and_then(|mut tree| tree.used());
        let (_, processes) = tree.map_err(|error| format!("{error:#}"))?;
        let n_cpus = n_cpus();
        let pids: Vec<String> =
            processes.iter().take(FILES_MAX / n_cpus).map(|process| process.pid.to_string()).collect();
        let length_s = self.length_s.clamp(1, LENGTH_S_MAX);
        let frequency_hz = frequency(n_cpus.min(pids.len()), length_s);
        let file = self.scratch.join("perf.data");
        let recording = Recording {
            file,
            record: ProfileRecord {
                format: model::FORMAT,
                frequency_hz,
                length_s,
                n_processes: processes.len() as u32,
                n_left_out: (processes.len() - pids.len()) as u32,
                ..ProfileRecord::default()
            },
        };
        let mut command = perf(&["record", "-q", "-B", "-N", "--call-graph", STACKS, "-F"]);
        command.arg(frequency_hz.to_string()).arg("-o").arg(&recording.file);
        command.args(["--max-size", &format!("{RECORDED_MIB_MAX}M"), "-p", &pids.join(","), "--", "sleep"]);
        // If pgdyno is killed, perf ends with it.
        command.arg(length_s.to_string()).stdout(Stdio::null());
        let (mut child, said) = start(command)?;
        let deadline = Instant::now() + Duration::from_secs(length_s.into()) + END_LIMIT;
        let status = wait(&mut child, deadline, is_over)?;
        let has_samples = recording.file.metadata().is_ok_and(|file| file.len() > 0);
        // The signal that ends it is no failure.
        if !has_samples || !(status.success() || is_over.load(Ordering::Relaxed)) {
            return Err(failure("record", status, &said.join().unwrap_or_default()));
        }
        Ok(recording)
    }
}

impl Recording {
    /// Names the functions of the samples, and adds up equal stacks. Takes some seconds of one processor.
    ///
    /// # Errors
    /// Says why nothing could be read.
    pub fn fold(self) -> Result<(ProfileRecord, Vec<Stack>), String> {
        let mut command = perf(&["script", "--no-inline", "-F", "comm,pid,event,ip,sym,dso", "-i"]);
        command.arg(&self.file).stdout(Stdio::piped());
        let (mut child, said) = start(command)?;
        let output = child.stdout.take().ok_or("it has no output")?;
        let folding = thread::spawn(move || script::fold(output));
        let status = wait(&mut child, Instant::now() + FOLD_LIMIT, &AtomicBool::new(false))?;
        let folded = folding.join().map_err(|_| "its output could not be read".to_string())?;
        let folded = folded.map_err(|error| error.to_string())?;
        if folded.n_samples == 0 {
            let words = said.join().unwrap_or_default();
            let words = if words.is_empty() { "the server used no processor".to_string() } else { words };
            return Err(failure("script", status, &words));
        }
        let record = ProfileRecord {
            event: folded.event,
            n_samples: folded.n_samples,
            n_without_symbol: folded.n_without_symbol,
            ..self.record.clone()
        };
        Ok((record, folded.stacks))
    }
}

/// Processors online, whichever of them we may use: `perf` opens a file on each.
fn n_cpus() -> usize {
    let online = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    online.and_then(|n| usize::try_from(n).ok()).map_or(1, |n| n.max(1))
}

/// As many samples per second that a server with so many busy processors yields the desired number.
fn frequency(n_busy: usize, length_s: u32) -> u32 {
    let wanted = SAMPLES / (n_busy.max(1) as u64 * u64::from(length_s.max(1)));
    wanted.clamp(FREQUENCY_HZ.0, FREQUENCY_HZ.1) as u32
}

/// `perf` without the user's settings, and without a network: it must not ask servers for symbols.
fn perf(args: &[&str]) -> Command {
    let mut command = Command::new("perf");
    command.args(args).env("PERF_CONFIG", "/dev/null").env("LC_ALL", "C").env_remove("DEBUGINFOD_URLS");
    // Ctrl-Z at the terminal does not stop it while we go on.
    command.stdin(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    command
}

/// Starts it; the thread returns the beginning of what it says about errors, and reads on so that it never waits for us.
fn start(mut command: Command) -> Result<(Child, JoinHandle<String>), String> {
    let mut child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            "the program `perf` is not installed (package linux-perf, linux-tools or perf)".to_string()
        }
        _ => format!("`perf` cannot be started: {error}"),
    })?;
    let stderr = child.stderr.take();
    let said = thread::spawn(move || {
        let Some(mut stderr) = stderr else { return String::new() };
        let words = words(&mut stderr);
        let _ = std::io::copy(&mut stderr, &mut std::io::sink());
        words
    });
    Ok((child, said))
}

/// Waits for the end, which is asked for when it `is_over`, and enforced at the deadline.
fn wait(child: &mut Child, deadline: Instant, is_over: &AtomicBool) -> Result<ExitStatus, String> {
    let mut is_asked = false;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Err("`perf` did not end in time".to_string());
        }
        if !is_asked && is_over.load(Ordering::Relaxed) {
            is_asked = true;
            let pid = i32::try_from(child.id()).map_err(|error| error.to_string())?;
            let _ = kill(Pid::from_raw(pid), Signal::SIGINT);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The beginning of an error's text in one line.
fn words(text: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = text.take(ERROR_BYTES_MAX).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn failure(what: &str, status: ExitStatus, words: &str) -> String {
    let hint = if words.contains("paranoid") || words.contains("permission") {
        format!(" (kernel.perf_event_paranoid is {})", counters::paranoid())
    } else {
        String::new()
    };
    format!("`perf {what}` failed ({status}): {words}{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_has_so_many_samples_whatever_the_machine() {
        for (n_busy, length_s, expected) in
            [(1, 30, 666), (2, 5, 997), (64, 30, 10), (256, 30, 2), (1_024, 30, 1), (0, 0, 997)]
        {
            let n_samples = u64::from(expected * length_s) * n_busy as u64;
            assert!(n_samples <= SAMPLES || expected == 1, "{n_samples}");
            assert_eq!(frequency(n_busy, length_s), expected, "{n_busy} processors, {length_s} s");
        }
    }

    #[test]
    fn what_perf_says_is_repeated_in_one_line_and_bounded() {
        assert_eq!(words(&b"Error:\n  no  access\n"[..]), "Error: no access");
        assert!(words("x ".repeat(100_000).as_bytes()).len() <= ERROR_BYTES_MAX as usize);
    }
}
