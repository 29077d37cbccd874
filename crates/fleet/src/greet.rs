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
use model::run::driver::DriverRecord;

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
    /// this program's file, and `accept` has seen what is known of each, before any of them gets its order.
    ///
    /// Call this from a thread that lives as long as the drivers are needed.
    ///
    /// # Errors
    /// When a machine cannot be reached, its program is missing or of another build, `accept` fails, or `stop` is raised. No driver is
    /// left then.
    pub fn greeted(
        specs: &[DriverSpec],
        order: &DriveOrder,
        own: &Path,
        accept: &dyn Fn(&DriverRecord) -> Result<()>,
        stop: &AtomicBool,
    ) -> Result<Fleet> {
        let sha256 = files::sha256(own).with_context(|| format!("cannot read `{}`", own.display()))?;
        let here = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let inbox = Inbox::for_drivers(specs.len());
        let mut members = Logins { specs, inbox: &inbox, here: here.trim() }.carry_out(stop)?;
        for (member, spec) in members.iter().zip(specs) {
            member.record.iter().try_for_each(|record| {
                expect_build(&record.hello, &sha256, spec)?;
                accept(record)
            })?;
        }
        for (index, member) in members.iter_mut().enumerate() {
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

/// The logins to all machines, some at a time.
struct Logins<'a> {
    specs: &'a [DriverSpec],
    inbox: &'a Inbox,
    /// Our kernel's boot id.
    here: &'a str,
}

/// A login that was begun: the driver's process, and its hello once it has answered.
struct Login {
    member: Member,
    n_tries: u32,
    begun: Instant,
}

impl Login {
    fn is_waiting(&self) -> bool {
        self.member.record.is_none()
    }
}

impl Logins<'_> {
    /// Waits for the hellos of all.
    fn carry_out(&self, stop: &AtomicBool) -> Result<Vec<Member>> {
        let mut logins: Vec<Login> = Vec::new();
        loop {
            while logins.len() < self.specs.len()
                && logins.iter().filter(|login| login.is_waiting()).count() < LOGINS_AT_A_TIME
            {
                let member = self.begin(logins.len(), &self.specs[logins.len()])?;
                logins.push(Login { member, n_tries: 1, begun: Instant::now() });
            }
            let Some(silent) = logins.iter().find(|login| login.is_waiting()) else { break };
            if stop.load(Ordering::Relaxed) {
                bail!("stopped before the load began");
            }
            if silent.begun.elapsed() > HELLO_TIMEOUT {
                let process = &silent.member.process;
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
        let (login, spec) = (&mut logins[heard.from], &self.specs[heard.from]);
        let member = &mut login.member;
        member.last_heard = Instant::now();
        match heard.what {
            What::Line(line) => {
                if let DriverLine::Hello(hello) = *line {
                    let is_here = !hello.boot_id.is_empty() && hello.boot_id == self.here;
                    let (name, hello) = (spec.name.clone(), *hello);
                    member.record = Some(DriverRecord { name, hello, is_here, ..DriverRecord::default() });
                }
                Ok(())
            }
            What::Garbage(garbage) => Err(member.process.misspoke(&garbage)),
            What::End(_) if member.record.is_some() => Err(member.process.obituary()),
            What::End(noise) => {
                let status = member.process.exit_status();
                let is_refused = status.and_then(|status| status.code()) == Some(SSH_FAILED);
                if is_refused && login.n_tries < TRIES {
                    std::thread::sleep(PAUSE);
                    login.n_tries += 1;
                    *member = self.begin(heard.from, spec)?;
                    return Ok(());
                }
                Err(no_hello(spec, status, &noise, &member.process))
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
