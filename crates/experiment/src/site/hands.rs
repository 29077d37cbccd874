//! Hands on the hosts of servers by URL: opened when a case first asks for values of the operating system there, and kept
//! until another host needs them or the experiment ends.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, anyhow, bail, ensure};
use fleet::HostAgent;
use model::experiment::case::{Case, ServerSource};
use model::experiment::driver::DriverSpec;
use model::load::hands::{AgentOrder, RestoredValue};
use server::database::target::backend_of;
use wire::session::Session;

/// Hands on one host at a time.
#[derive(Debug)]
pub struct HostAgents {
    /// This program's file.
    program: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: Option<Open>,
    /// Hosts where values are, or may be, set.
    owed: Vec<DriverSpec>,
}

#[derive(Debug)]
struct Open {
    host: DriverSpec,
    /// The server whose devices they know.
    source: ServerSource,
    hands: HostAgent,
}

impl HostAgents {
    /// Hands that are `program`, this program's file, on any host.
    pub fn new(program: PathBuf) -> HostAgents {
        HostAgents { program, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(
        &self,
        host: &DriverSpec,
        session: Option<&mut Session>,
        stop: &AtomicBool,
    ) -> Result<HostAgent> {
        let order = AgentOrder { format: model::FORMAT, backend: session.and_then(backend_of) };
        HostAgent::open(host, order, self.program.clone(), stop)
            .with_context(|| format!("cannot set values of the operating system on `{}`", host.name))
    }

    /// Why hosts cannot have the values of `cases`, all on the server of `session`. Sets nothing there.
    ///
    /// # Errors
    /// When a host cannot be reached.
    pub(crate) fn refusals(
        &self,
        cases: &[&Case],
        session: &mut Session,
        stop: &AtomicBool,
    ) -> Result<Vec<String>> {
        let mut by_host: Vec<(&DriverSpec, Vec<(String, String)>)> = Vec::new();
        for case in cases {
            // A look ahead puts no program on another machine.
            let Some(host) = case.server.host.as_ref().filter(|host| !host.upload && !case.os.is_empty())
            else {
                continue;
            };
            let index = by_host.iter().position(|(known, _)| *known == host).unwrap_or_else(|| {
                by_host.push((host, Vec::new()));
                by_host.len() - 1
            });
            let asked = &mut by_host[index].1;
            for pair in case.os.iter().map(|(key, value)| (key.clone(), value.clone())) {
                if !asked.contains(&pair) {
                    asked.push(pair);
                }
            }
        }
        let mut reasons = Vec::new();
        for (host, levels) in by_host {
            let mut hands = self.begin(host, Some(&mut *session), stop)?;
            for refused in hands.check(levels)? {
                let no_disks = hands.no_disks.as_ref();
                let why = no_disks.filter(|_| host::is_of_disks(&refused.key)).unwrap_or(&refused.reason);
                reasons.push(format!("os.{} = {} on `{}`: {why}", refused.key, refused.value, host.name));
            }
        }
        Ok(reasons)
    }

    /// Sets a case's values on its host. Returns each with the previous one, and reports those that a dead pgdyno had left
    /// there.
    ///
    /// # Errors
    /// When the host cannot be reached, or does not take a value.
    pub(crate) fn apply(
        &self,
        case: &Case,
        host: &DriverSpec,
        session: &mut Session,
        stop: &AtomicBool,
        report: &mut dyn FnMut(String),
    ) -> Result<BTreeMap<String, String>> {
        if case.os.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut state = self.lock();
        let State { open, owed } = &mut *state;
        let is_it = |open: &Open| open.host == *host && open.source == case.server.source;
        if !open.as_mut().is_some_and(|open| is_it(open) && open.hands.expect_there().is_ok()) {
            // Two hands on one host would wait for each other.
            *open = None;
            let hands = self.begin(host, Some(session), stop)?;
            *open = Some(Open { host: host.clone(), source: case.server.source.clone(), hands });
        }
        let Some(Open { hands, .. }) = open.as_mut() else { bail!("no hands are open") };
        let on_host = |hands: &HostAgent| match &hands.no_disks {
            Some(why) if case.os.keys().any(|key| host::is_of_disks(key)) => {
                format!("on `{}`: {why}", host.name)
            }
            _ => format!("on `{}`", host.name),
        };
        let mut undone = Vec::new();
        if !owed.contains(host) {
            // They acquire the right to set values first. Where others have it, nothing is set, and nothing is owed.
            undone = hands.put_back().with_context(|| format!("on `{}`", host.name))?;
            owed.push(host.clone());
        }
        let values = hands.set(&case.os).with_context(|| on_host(hands))?;
        undone.extend(values.undone);
        undone.iter().for_each(|value| report(words(host, value)));
        let mut detail = values.detail;
        detail.insert("os".to_string(), format!("set on {}", host.name));
        Ok(detail)
    }

    /// Whether the values that were set have been in force all the time.
    ///
    /// # Errors
    /// When their hands have ended, and restored them.
    pub(crate) fn expect_there(&self) -> Result<()> {
        let mut state = self.lock();
        let State { open, owed } = &mut *state;
        match open.as_mut().filter(|open| owed.contains(&open.host)) {
            Some(open) => open.hands.expect_there().with_context(|| {
                format!("values of the operating system of `{}` went back during the load", open.host.name)
            }),
            None => Ok(()),
        }
    }

    /// Also restores, from now on, what others could not.
    pub(crate) fn take_over(&self, others: &HostAgents) {
        let owed = std::mem::take(&mut others.lock().owed);
        self.lock().owed.extend(owed);
    }

    /// Restores all values. Hands that have ended did so, or others do it now. Values that cannot be restored are tried
    /// again by the next call.
    ///
    /// # Errors
    /// When a value could not be restored, or nobody knows.
    pub fn put_back(&self) -> Result<()> {
        let mut state = self.lock();
        let mut problems = Vec::new();
        for host in std::mem::take(&mut state.owed) {
            if let Err(error) = self.put_back_on(&host, &mut state.open) {
                problems.push(format!("{error:#}"));
                state.owed.push(host);
            }
        }
        ensure!(problems.is_empty(), "{}", problems.join("; "));
        Ok(())
    }

    /// Restores the values on one host. Nobody is asked whether to stop: this is what stopping waits for.
    fn put_back_on(&self, host: &DriverSpec, open: &mut Option<Open>) -> Result<()> {
        let restored = match open.as_mut().filter(|open| open.host == *host) {
            Some(open) => open.hands.put_back(),
            None => Err(anyhow!("no hands are open")),
        };
        let undone = restored.or_else(|_| {
            *open = None;
            let begun = self.begin(host, None, &AtomicBool::new(false));
            begun.and_then(|mut hands| hands.put_back()).with_context(|| {
                format!(
                    "values of the operating system of `{0}` might not be restored: {1} restores what is left, and so does a \
                     restart of {0}",
                    host.name,
                    how_to_clean(host)
                )
            })
        })?;
        let problems: Vec<String> =
            undone.iter().filter(|value| value.problem.is_some()).map(|value| words(host, value)).collect();
        ensure!(problems.is_empty(), "{}", problems.join("; "));
        Ok(())
    }

    /// Restores what a killed pgdyno has left on a host, in words.
    ///
    /// # Errors
    /// When the host cannot be reached, or its journal cannot be read.
    pub fn clean(&self, host: &DriverSpec, stop: &AtomicBool) -> Result<Vec<RestoredValue>> {
        self.begin(host, None, stop)?.put_back()
    }
}

/// The command that restores what is left on a host.
fn how_to_clean(host: &DriverSpec) -> String {
    match host.as_option() {
        Some(option) => format!("`pgdyno clean --host {option}`"),
        None => "`pgdyno clean`, run there as root,".to_string(),
    }
}

/// What became of a value, in words.
pub fn words(host: &DriverSpec, undone: &RestoredValue) -> String {
    let RestoredValue { path, now, problem, is_kept, left, remains } = undone;
    let left = left.as_ref().map_or_else(String::new, |left| format!(", {left}"));
    let remains = remains.as_ref().map_or_else(String::new, |remains| format!("; {remains}"));
    let again = if *is_kept { format!(", and {} tries again", how_to_clean(host)) } else { String::new() };
    match problem {
        Some(problem) => format!("not put back on `{}`: `{path}` is {now}: {problem}{again}", host.name),
        None => format!("put back `{path}` to {now} on `{}`{left}{remains}", host.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_kept_comes_with_the_command_that_tries_again() {
        let kept = RestoredValue {
            path: "/proc/x".into(),
            now: "7".into(),
            problem: Some("it was 60; `/run/x` keeps it".into()),
            is_kept: true,
            left: None,
            remains: None,
        };
        let changed =
            RestoredValue { problem: Some("it was changed".into()), is_kept: false, ..kept.clone() };
        let via = ["sh", "-c"].map(str::to_string).to_vec();
        let by_shell = DriverSpec { name: "db1".into(), via, ..DriverSpec::default() };
        let check = |host: &DriverSpec, value: &RestoredValue, expected: &str| {
            assert_eq!(words(host, value), format!("not put back on `db1`: `/proc/x` is 7: {expected}"));
        };
        let by_ssh: DriverSpec = "ssh:db1".parse().unwrap();
        check(&by_ssh, &kept, "it was 60; `/run/x` keeps it, and `pgdyno clean --host ssh:db1` tries again");
        check(
            &by_shell,
            &kept,
            "it was 60; `/run/x` keeps it, and `pgdyno clean`, run there as root, tries again",
        );
        check(&by_ssh, &changed, "it was changed");
    }
}
