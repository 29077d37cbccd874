//! Starts drivers on other machines, and eyes on the hosts of servers: the command, the greeting, the hello, and only then
//! the order with its password.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use model::experiment::driver::{DriverSpec, OWN_PROGRAM};
use model::load::drive::{DriveOrder, DriverLine, DriverPart};
use model::load::hands::HELPER;
use model::load::hello::{Build, Greeting, Hello};
use model::run::driver::DriverRecord;

use crate::drivers::{Fleet, Member, SILENCE, TURN};
use crate::pipes::{DriverOutput, Inbox, OutputEvent};
use crate::process::{self, DriverProcess, LOAD_DID, Start, StderrTo};
use crate::remote_command::run_there;
use crate::upload::{self, ProgramFiles};

/// Logins at a time: a server of ssh refuses some of more than ten (MaxStartups 10:30:100).
const LOGINS_AT_A_TIME: usize = 8;
/// How long a login and a hello may take.
const HELLO_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a login and the arrival of a copy of this program may take. Drivers that have answered wait 120 s for their order.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(100);
/// How often a login is tried that ends before the hello.
const TRIES: u32 = 3;
/// Pause before a login is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// ssh's exit status for all of its own errors.
const SSH_FAILED: i32 = 255;

impl Fleet {
    /// Starts a driver behind each of `specs` and sends it its part of the order. All are of the same build as `own`,
    /// this program's file, and `accept` has seen what is known of them all, before any of them gets its order. Where the
    /// program is missing or another one, a copy is put there if the driver's `upload` allows it.
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
        accept: &dyn Fn(&[&DriverRecord]) -> Result<()>,
        stop: &AtomicBool,
    ) -> Result<Fleet> {
        let role = RemoteRole::Driver { server: address_of(&order.load.target) };
        let mut fleet = Fleet::logged_in(specs, role, own, stop)?;
        fleet.is_accepted(accept)?;
        for (index, member) in fleet.drivers.iter_mut().enumerate() {
            let part = DriverPart { index: index as u32, of: specs.len() as u32 };
            member.process.order(&DriveOrder { part, ..order.clone() })?;
        }
        Ok(fleet)
    }

    /// Greets the driver behind each of `specs`, which must be of the same build as `own` and one that `accept` takes. The
    /// drivers are sent no order. Those that have a route to `server` say their address on it; its port does not matter.
    ///
    /// # Errors
    /// As [`Fleet::greeted`].
    pub fn try_to_greet(
        specs: &[DriverSpec],
        server: Option<SocketAddr>,
        own: &Path,
        accept: &dyn Fn(&[&DriverRecord]) -> Result<()>,
        stop: &AtomicBool,
    ) -> Result<()> {
        Fleet::logged_in(specs, RemoteRole::Driver { server }, own, stop)?.is_accepted(accept)
    }

    fn is_accepted(&self, accept: &dyn Fn(&[&DriverRecord]) -> Result<()>) -> Result<()> {
        let records: Vec<&DriverRecord> =
            self.drivers.iter().filter_map(|member| member.record.as_ref()).collect();
        accept(&records)
    }

    /// Logs in to all machines and waits for the hellos of far ends of our own build, which wait for their orders.
    ///
    /// # Errors
    /// When a machine cannot be reached, its program is missing or of another build, or `stop` is raised.
    pub(crate) fn logged_in(
        specs: &[DriverSpec],
        role: RemoteRole,
        own: &Path,
        stop: &AtomicBool,
    ) -> Result<Fleet> {
        let programs = ProgramFiles::next_to(own)?;
        let here = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let inbox = Inbox::for_drivers(specs.len());
        let logins = Logins { specs, role, inbox: &inbox, here: here.trim(), programs: &programs };
        let fleet = Fleet::new(logins.carry_out(stop)?, inbox.receiver);
        for (member, spec) in fleet.drivers.iter().zip(specs) {
            let who = &member.process.who;
            let expect = |record: &DriverRecord| expect_build(&record.hello, &programs, who, spec, role);
            member.record.iter().try_for_each(expect)?;
        }
        Ok(fleet)
    }
}

/// What runs on the other machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemoteRole {
    /// A driver of a load on this server, if its address is known.
    Driver {
        server: Option<SocketAddr>,
    },
    Eyes,
    Hands,
    Pages,
}

impl RemoteRole {
    /// The subcommand of pgdyno.
    fn command(self) -> &'static str {
        match self {
            RemoteRole::Driver { .. } => "drive",
            RemoteRole::Eyes => "watch",
            RemoteRole::Hands => "host",
            RemoteRole::Pages => "pages",
        }
    }

    /// The server that it will connect to, if its address is known.
    fn server(self) -> Option<SocketAddr> {
        match self {
            RemoteRole::Driver { server } => server,
            RemoteRole::Eyes | RemoteRole::Hands | RemoteRole::Pages => None,
        }
    }

    /// What its end should have waited for.
    fn until(self) -> &'static str {
        match self {
            RemoteRole::Driver { .. } | RemoteRole::Eyes | RemoteRole::Hands => LOAD_DID,
            RemoteRole::Pages => "it was asked to",
        }
    }

    /// Name of this far end in messages.
    fn who(self, spec: &DriverSpec) -> String {
        match self {
            RemoteRole::Driver { .. } => format!("driver `{}`", spec.name),
            RemoteRole::Eyes => format!("`pgdyno watch` on `{}`", spec.name),
            RemoteRole::Hands => format!("`pgdyno host` on `{}`", spec.name),
            RemoteRole::Pages => format!("`pgdyno pages` on `{}`", spec.name),
        }
    }
}

/// The address of a server, unless it is named otherwise.
fn address_of(target: &BTreeMap<String, String>) -> Option<SocketAddr> {
    let address: IpAddr = target.get("hostaddr").or(target.get("host"))?.parse().ok()?;
    Some(SocketAddr::new(address, target.get("port")?.parse().ok()?))
}

/// Drivers of other builds may offer another load, and eyes of other builds see something else.
fn expect_build(
    hello: &Hello,
    programs: &ProgramFiles,
    who: &str,
    spec: &DriverSpec,
    role: RemoteRole,
) -> Result<()> {
    let Build { version, architecture, sha256, .. } = &hello.build;
    let own = programs.own();
    let machine = if hello.host.is_empty() { "its machine" } else { &hello.host };
    let advice = match *architecture == own.architecture {
        true if role == RemoteRole::Hands => format!(
            "copy this program to `{}` on {machine}, and as root to `{HELPER}` if it is called there by sudo",
            spec.program
        ),
        true => format!(
            "copy this program to `{}` on {machine}, or let pgdyno do it (`upload = true`, --upload)",
            spec.program
        ),
        false => "both have to come from one `./package`, and its list `SHA256SUMS` has to lie next to this program".to_string(),
    };
    ensure!(
        programs.is_ours(&hello.build),
        "{who} is another build of pgdyno ({version} for {architecture}, {}) than this one ({} for {}, {}); {advice}",
        short(sha256),
        env!("CARGO_PKG_VERSION"),
        own.architecture,
        short(&own.sha256),
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
    role: RemoteRole,
    inbox: &'a Inbox,
    /// Our kernel's boot id.
    here: &'a str,
    programs: &'a ProgramFiles,
}

/// A login that was begun: the driver's process, and its hello once it has answered.
struct Login {
    member: Member,
    course: Course,
}

/// How far a login is, and since when.
struct Course {
    stage: Stage,
    begun: Instant,
    n_tries: u32,
}

/// Where a driver's login is. One with `upload` whose program is missing or of another build goes on from `Asked`
/// down to `Kept`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// What is there was asked for its hello.
    Asked,
    /// The hello was of another build; the end of that process is awaited.
    Replaced,
    /// A shell there was asked to receive a copy of this program, and may be receiving it.
    Receiving { has_begun: bool },
    /// A copy has arrived; the end of that shell is awaited.
    Received,
    /// The copy was asked for its hello.
    Kept,
}

impl Login {
    fn is_waiting(&self) -> bool {
        self.member.record.is_none()
    }

    fn is_late(&self) -> bool {
        self.is_waiting() && self.course.is_late()
    }
}

impl Course {
    /// Goes on to `stage`; another one than now has time and tries of its own.
    fn enter(&mut self, stage: Stage) {
        if std::mem::discriminant(&stage) != std::mem::discriminant(&self.stage) {
            (self.n_tries, self.begun) = (0, Instant::now());
        }
        self.stage = stage;
    }

    fn is_late(&self) -> bool {
        let timeout = match self.stage {
            Stage::Receiving { .. } => UPLOAD_TIMEOUT,
            _ => HELLO_TIMEOUT,
        };
        self.begun.elapsed() > timeout
    }
}

impl Logins<'_> {
    /// Waits for the hellos of all.
    fn carry_out(&self, stop: &AtomicBool) -> Result<Vec<Member>> {
        let mut logins = Vec::new();
        let carried_out = self.wait_for_all(&mut logins, stop);
        if carried_out.is_err() {
            process::dismiss(logins.iter_mut().map(|login| &mut login.member.process));
        }
        carried_out.map(|()| logins.into_iter().map(|login| login.member).collect())
    }

    fn wait_for_all(&self, logins: &mut Vec<Login>, stop: &AtomicBool) -> Result<()> {
        loop {
            while logins.len() < self.specs.len()
                && logins.iter().filter(|login| login.is_waiting()).count() < LOGINS_AT_A_TIME
            {
                let member = self.begin(logins.len(), Stage::Asked)?;
                let course = Course { stage: Stage::Asked, begun: Instant::now(), n_tries: 1 };
                logins.push(Login { member, course });
            }
            if !logins.iter().any(Login::is_waiting) {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                bail!("stopped before the load began");
            }
            if let Some(late) = logins.iter().find(|login| login.is_late()) {
                let (process, waited) = (&late.member.process, late.course.begun.elapsed().as_secs());
                bail!("{} has not answered within {waited} s{}", process.who, process.last_words());
            }
            match self.inbox.receiver.recv_timeout(TURN) {
                Ok(heard) => self.take(heard, logins)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    }

    /// Starts the command that leads to driver `index`, for what `stage` asks there.
    fn begin(&self, index: usize, stage: Stage) -> Result<Member> {
        let spec = &self.specs[index];
        let words = match stage {
            Stage::Receiving { .. } => upload::words_to_receive(spec),
            _ if spec.upload => self.programs.words_to_run(spec, self.role.command()),
            _ => run_there(spec, self.role.command()),
        };
        let (program, args) = words.split_first().context("the command has no words")?;
        // A word that no banner contains.
        let nonce = files::random_hex(16)?;
        let process = DriverProcess::start(Start {
            who: self.role.who(spec),
            until: self.role.until(),
            program: if program == OWN_PROGRAM { &self.programs.own().path } else { Path::new(program) },
            args: args.iter().map(OsStr::new).collect(),
            stderr_to: StderrTo::Messages,
            index,
            inbox: self.inbox.sender.clone(),
            nonce: Some(nonce.clone()),
        })?;
        match stage {
            Stage::Receiving { .. } => process.send(format!("{nonce}\n").into_bytes()),
            _ => {
                let (silence_s, server) = (SILENCE.as_secs() as u32, self.role.server());
                process.say(&Greeting { nonce, silence_s, server })?;
            }
        }
        Ok(Member::new(process))
    }

    /// Logs in again.
    fn begin_again(&self, login: &mut Login, index: usize, stage: Stage) -> Result<()> {
        login.course.enter(stage);
        login.course.n_tries += 1;
        login.member = self.begin(index, stage)?;
        Ok(())
    }

    fn take(&self, heard: DriverOutput, logins: &mut [Login]) -> Result<()> {
        let (login, spec) = (&mut logins[heard.from], &self.specs[heard.from]);
        login.member.last_heard = Instant::now();
        match (login.course.stage, heard.what) {
            (Stage::Receiving { .. }, OutputEvent::Line(line)) => self.hand_over(login, *line, spec),
            (stage, OutputEvent::Line(line)) => {
                if let DriverLine::Hello(hello) = *line {
                    if stage == Stage::Asked && spec.upload && !self.programs.is_ours(&hello.build) {
                        login.course.enter(Stage::Replaced);
                        login.member.process.kill();
                        return Ok(());
                    }
                    let is_here = !hello.boot_id.is_empty() && hello.boot_id == self.here;
                    let (name, hello) = (spec.name.clone(), *hello);
                    login.member.record =
                        Some(DriverRecord { name, hello, is_here, ..DriverRecord::default() });
                }
                Ok(())
            }
            (Stage::Replaced, OutputEvent::Garbage(_)) => Ok(()),
            (_, OutputEvent::Garbage(garbage)) => Err(login.member.process.misspoke(&garbage)),
            (_, OutputEvent::End(_)) if login.member.record.is_some() => Err(login.member.process.obituary()),
            (stage, OutputEvent::End(noise)) => self.log_in_again(login, heard.from, stage, &noise),
        }
    }

    /// What follows when a command has ended before the hello that was asked for.
    fn log_in_again(&self, login: &mut Login, index: usize, stage: Stage, noise: &[String]) -> Result<()> {
        let spec = &self.specs[index];
        let status = login.member.process.exit_status();
        if stage == Stage::Received {
            return self.begin_again(login, index, Stage::Kept);
        }
        if status.and_then(|status| status.code()) == Some(SSH_FAILED) {
            let has_begun = stage == Stage::Receiving { has_begun: true };
            if login.course.n_tries < TRIES && !has_begun && stage != Stage::Replaced {
                std::thread::sleep(PAUSE);
                return self.begin_again(login, index, stage);
            }
        } else if spec.upload && matches!(stage, Stage::Asked | Stage::Replaced) {
            return self.begin_again(login, index, Stage::Receiving { has_begun: false });
        }
        match stage {
            Stage::Receiving { has_begun: true } => Err(login.member.process.obituary()),
            _ => Err(no_hello(spec, self.role, status, noise, &login.member.process)),
        }
    }

    /// Sends a copy of this program to a shell that said which machine it is on, and goes on when the copy is there.
    fn hand_over(&self, login: &mut Login, line: DriverLine, spec: &DriverSpec) -> Result<()> {
        let process = &mut login.member.process;
        match line {
            DriverLine::Hello(hello) => {
                let architecture = &hello.build.architecture;
                let program = self.programs.of(architecture).with_context(|| {
                    format!(
                        "{} is on a machine of another architecture ({architecture}) than this pgdyno ({}), and \
                         there is no `{}` next to it; build that with `./package`, or install pgdyno there",
                        self.role.who(spec),
                        self.programs.own().architecture,
                        upload::file_name(architecture),
                    )
                })?;
                let (header, bytes) = upload::header_and_bytes(program)?;
                process.send(header.into_bytes());
                process.send(bytes);
                login.course.enter(Stage::Receiving { has_begun: true });
                Ok(())
            }
            DriverLine::Failed { message } if message == upload::KEPT => {
                login.course.enter(Stage::Received);
                Ok(())
            }
            DriverLine::Failed { message } => {
                process.exit_status();
                let (explained, words) = (upload::explain(&message), process.last_words());
                Err(anyhow!("{}: {explained}{words}", process.who))
            }
            _ => Ok(()),
        }
    }
}

/// The error for a command that ended without a hello.
fn no_hello(
    spec: &DriverSpec,
    role: RemoteRole,
    status: Option<std::process::ExitStatus>,
    noise: &[String],
    process: &DriverProcess,
) -> anyhow::Error {
    let ended = status.map_or("closed its output".to_string(), |status| format!("ended ({status})"));
    let printed =
        if noise.is_empty() { String::new() } else { format!("; it printed: {}", noise.join("\n")) };
    let advice = match status.and_then(|status| status.code()) {
        Some(126 | 127) if spec.upload => "; a copy of pgdyno can be put only where a shell is".to_string(),
        Some(126 | 127) => format!(
            "; is pgdyno at `{}` there, and may it be executed? `upload = true` (--upload) lets pgdyno put a copy there",
            spec.program
        ),
        Some(1) if role == RemoteRole::Hands => {
            format!("; a user who is not root needs `{HELPER}` and a line in sudoers: see docs/hosts.md")
        }
        _ => String::new(),
    };
    anyhow!(
        "the command of {} (`{}`) {ended} before pgdyno answered{printed}{}{advice}",
        process.who,
        run_there(spec, role.command()).join(" "),
        process.last_words()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_took_long_leaves_time_for_what_follows() {
        let before = |timeout: Duration| Instant::now().checked_sub(timeout).unwrap();
        let mut course = Course {
            stage: Stage::Receiving { has_begun: false },
            begun: before(UPLOAD_TIMEOUT * 2),
            n_tries: 2,
        };
        course.enter(Stage::Receiving { has_begun: true });
        assert!(course.is_late(), "a login and the arrival of its copy share their time");
        for stage in [Stage::Received, Stage::Kept] {
            (course.begun, course.n_tries) = (before(UPLOAD_TIMEOUT / 2), 2);
            course.enter(stage);
            assert!(!course.is_late() && course.n_tries == 0, "{stage:?}");
        }
        course.begun = before(HELLO_TIMEOUT * 2);
        course.enter(Stage::Kept);
        assert!(course.is_late(), "another try has no time of its own");
    }
}
