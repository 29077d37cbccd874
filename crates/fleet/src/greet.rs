//! Starts drivers on other machines: the command, the greeting, the hello, and only then the order with its password.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use model::experiment::driver::DriverSpec;
use model::load::drive::{DriveOrder, DriverLine, DriverPart};
use model::load::hello::{Build, Greeting, Hello};

use crate::crew::{Fleet, Member, SILENCE, TURN};
use crate::pipes::{Heard, Inbox, What};
use crate::process::{DriverProcess, Start, StderrTo};

/// Logins at a time: a server of ssh refuses some of more than ten (MaxStartups 10:30:100).
const LOGINS_AT_A_TIME: usize = 8;
/// How long a login and a hello may take.
const HELLO_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a login is tried that ends before the hello.
const TRIES: u32 = 3;
/// Pause before a login is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// ssh's exit status for all of its own errors.
const SSH_FAILED: i32 = 255;

impl Fleet {
    /// Starts a driver behind each of `specs` and sends it its part of the order. All are of the same build as `own`,
    /// this program's file.
    ///
    /// Call this from a thread that lives as long as the drivers are needed.
    ///
    /// # Errors
    /// When a machine cannot be reached, its program is missing or of another build, or `stop` is raised. No driver is
    /// left then.
    pub fn greeted(specs: &[DriverSpec], order: &DriveOrder, own: &Path, stop: &AtomicBool) -> Result<Fleet> {
        let sha256 = files::sha256(own).with_context(|| format!("cannot read `{}`", own.display()))?;
        let here = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let inbox = Inbox::for_drivers(specs.len());
        let mut members = Vec::new();
        for (n_before, batch) in specs.chunks(LOGINS_AT_A_TIME).enumerate() {
            let logins = Logins { specs: batch, first: n_before * LOGINS_AT_A_TIME, inbox: &inbox };
            members.extend(logins.carry_out(stop)?);
        }
        for (index, (member, spec)) in members.iter_mut().zip(specs).enumerate() {
            let hello = member.hello.clone().unwrap_or_default();
            expect_build(&hello, &sha256, spec)?;
            member.record.is_here = !hello.boot_id.is_empty() && hello.boot_id == here.trim();
            member.record.name = spec.name.clone();
            member.record.hello = hello;
            let part = DriverPart { index: index as u32, of: specs.len() as u32 };
            member.process.order(&DriveOrder { part, ..order.clone() })?;
        }
        Ok(Fleet::of(members, inbox.receiver))
    }
}

/// Drivers of other builds may offer another load.
fn expect_build(hello: &Hello, sha256: &str, spec: &DriverSpec) -> Result<()> {
    let Build { version, architecture, .. } = &hello.build;
    ensure!(
        hello.build.sha256 == sha256,
        "driver `{}` is another build of pgdyno ({version} for {architecture}, {}) than this one ({}, {}); copy this \
         program to `{}` on {}",
        spec.name,
        short(&hello.build.sha256),
        env!("CARGO_PKG_VERSION"),
        short(sha256),
        spec.program,
        if hello.host.is_empty() { "its machine" } else { &hello.host },
    );
    Ok(())
}

/// Enough of a hash to see that it is another one.
fn short(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or("unknown")
}

/// Logins that are carried out at the same time.
struct Logins<'a> {
    specs: &'a [DriverSpec],
    /// Number of the first driver.
    first: usize,
    inbox: &'a Inbox,
}

/// A login: the driver's process, and what it said so far.
struct Login {
    member: Member,
    n_tries: u32,
}

impl Logins<'_> {
    /// Starts all, and waits for all hellos.
    fn carry_out(&self, stop: &AtomicBool) -> Result<Vec<Member>> {
        let begin = |(i, spec)| Ok(Login { member: self.begin(self.first + i, spec)?, n_tries: 1 });
        let mut logins = self.specs.iter().enumerate().map(begin).collect::<Result<Vec<Login>>>()?;
        let begun = Instant::now();
        while let Some(silent) = logins.iter().position(|login| login.member.hello.is_none()) {
            if stop.load(Ordering::Relaxed) {
                bail!("stopped before the load began");
            }
            if begun.elapsed() > HELLO_TIMEOUT {
                let process = &logins[silent].member.process;
                bail!(
                    "{} has not answered within {} s{}",
                    process.who,
                    HELLO_TIMEOUT.as_secs(),
                    process.last_words()
                );
            }
            match self.inbox.receiver.recv_timeout(TURN) {
                Ok(heard) => self.take(heard, &mut logins)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
        Ok(logins.into_iter().map(|login| login.member).collect())
    }

    fn begin(&self, index: usize, spec: &DriverSpec) -> Result<Member> {
        let words = spec.words();
        let (program, args) = words.split_first().context("a driver's command has no words")?;
        let nonce = nonce()?;
        let process = DriverProcess::start(Start {
            who: format!("driver `{}`", spec.name),
            program: Path::new(program),
            args: args.iter().map(OsStr::new).collect(),
            stderr_to: StderrTo::Messages,
            index,
            inbox: self.inbox.sender.clone(),
            nonce: Some(nonce.clone()),
        })?;
        process.say(&Greeting { nonce, silence_s: SILENCE.as_secs() as u32 })?;
        Ok(Member::new(process))
    }

    fn take(&self, heard: Heard, logins: &mut [Login]) -> Result<()> {
        let Some(place) = heard.from.checked_sub(self.first).filter(|place| *place < logins.len()) else {
            // A driver of an earlier batch: what it does before its order is seen when its lines are read.
            return Ok(());
        };
        let (login, spec) = (&mut logins[place], &self.specs[place]);
        login.member.last_heard = Instant::now();
        match heard.what {
            What::Line(line) => {
                if let DriverLine::Hello(hello) = *line {
                    login.member.hello = Some(*hello);
                }
                Ok(())
            }
            What::Garbage(garbage) => Err(login.member.process.misspoke(&garbage)),
            What::End(noise) => {
                let status = login.member.process.exit_status();
                let refused = status.and_then(|status| status.code()) == Some(SSH_FAILED);
                if refused && login.n_tries < TRIES && login.member.hello.is_none() {
                    std::thread::sleep(PAUSE);
                    login.n_tries += 1;
                    login.member = self.begin(heard.from, spec)?;
                    return Ok(());
                }
                Err(no_hello(spec, status, &noise, &login.member.process))
            }
        }
    }
}

/// The error for a command that ended without a hello.
fn no_hello(
    spec: &DriverSpec,
    status: Option<std::process::ExitStatus>,
    noise: &[String],
    process: &DriverProcess,
) -> anyhow::Error {
    let ended = status.map_or("closed its output".to_string(), |status| format!("ended ({status})"));
    let printed =
        if noise.is_empty() { String::new() } else { format!("; it printed: {}", noise.join("\n")) };
    let advice = match status.and_then(|status| status.code()) {
        Some(126 | 127) => format!("; is pgdyno at `{}` there, and may it be executed?", spec.program),
        _ => String::new(),
    };
    anyhow!(
        "the command of driver `{}` (`{}`) {ended} before pgdyno answered{printed}{}{advice}",
        spec.name,
        spec.words().join(" "),
        process.last_words()
    )
}

/// A word that no banner contains.
fn nonce() -> Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("cannot read `/dev/urandom`")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
