//! Pods of Kubernetes that are drivers, found by their labels with the user's own `kubectl`: its configuration, its rights.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use model::experiment::driver::DriverSpec;
use model::experiment::driver::inventory::PodsSection;
use serde::Deserialize;

use crate::drivers::TURN;
use crate::remote_command::{kubectl_options, way_into_pod};

/// How long kubectl may take to list pods.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longest list that is read: some ten thousand pods.
const LIST_BYTES_MAX: u64 = 256 << 20;
/// The label with a pod's number in an Indexed Job.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The drivers in these pods, by their number in an Indexed Job, else by name.
///
/// # Errors
/// When kubectl fails, no pod matches, or one of them does not run: a load with fewer drivers would be another one.
pub fn pods(section: &PodsSection, stop: &AtomicBool) -> Result<Vec<DriverSpec>> {
    pods_by("kubectl", section, stop)
}

pub(crate) fn pods_by(kubectl: &str, section: &PodsSection, stop: &AtomicBool) -> Result<Vec<DriverSpec>> {
    section.check().map_err(anyhow::Error::msg)?;
    let selector = format!("--selector={}", section.selector);
    let mut words = kubectl_options(section);
    words.extend(["get", "pods", selector.as_str(), "--output=json"].map(str::to_string));
    let json = said(kubectl, &words, stop)?;
    let list: List =
        serde_json::from_slice(&json).context("cannot parse the list of pods that kubectl gave")?;
    drivers_in(list, section)
}

/// What of `kubectl get pods -o json` matters here.
#[derive(Debug, Deserialize)]
struct List {
    items: Vec<Pod>,
}

#[derive(Debug, Deserialize)]
struct Pod {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    labels: std::collections::BTreeMap<String, String>,
    /// It is being removed.
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    container_statuses: Vec<Container>,
}

#[derive(Debug, Deserialize)]
struct Container {
    #[serde(default)]
    ready: bool,
}

impl Pod {
    /// What keeps it from being a driver.
    fn obstacle(&self) -> Option<&str> {
        let is_ready = self.status.container_statuses.iter().all(|container| container.ready);
        match self.status.phase.as_str() {
            _ if self.metadata.deletion_timestamp.is_some() => Some("being removed"),
            "Running" if is_ready => None,
            "Running" => Some("running, but not ready"),
            "" => Some("in no phase yet"),
            other => Some(other),
        }
    }

    fn place(&self) -> (u32, &str) {
        let index = self.metadata.labels.get(INDEX).and_then(|index| index.parse().ok());
        (index.unwrap_or(u32::MAX), &self.metadata.name)
    }
}

fn drivers_in(list: List, section: &PodsSection) -> Result<Vec<DriverSpec>> {
    let (selector, mut pods) = (&section.selector, list.items);
    let place = section.namespace.as_ref().map_or(String::new(), |name| format!(" in namespace `{name}`"));
    ensure!(!pods.is_empty(), "kubectl finds no pods `{selector}`{place}");
    pods.sort_by(|a, b| a.place().cmp(&b.place()));
    let idle: Vec<String> = pods
        .iter()
        .filter_map(|pod| Some(format!("`{}` is {}", pod.metadata.name, pod.obstacle()?)))
        .collect();
    ensure!(
        idle.is_empty(),
        "{} of {} pods `{selector}`{place} cannot drive a load: {}; wait for them (kubectl wait --for=condition=Ready), or remove \
         them",
        idle.len(),
        pods.len(),
        idle.join(", ")
    );
    Ok(pods.iter().map(|pod| driver_in(&pod.metadata.name, section)).collect())
}

fn driver_in(pod: &str, section: &PodsSection) -> DriverSpec {
    DriverSpec {
        name: pod.to_string(),
        via: way_into_pod(section, pod),
        program: "pgdyno".to_string(),
        ..DriverSpec::default()
    }
}

/// The standard output of a command that succeeds in time.
fn said(program: &str, words: &[String], stop: &AtomicBool) -> Result<Vec<u8>> {
    let mut command = Command::new(program);
    // It is not for others, and kubectl starts plugins.
    command.env_remove("PGPASSWORD");
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| {
        format!("cannot start `{program}`, which finds the pods of drivers; install it, and let `{program} get pods` work")
    })?;
    let out = reader_of(child.stdout.take().context("the command has no output")?);
    let err = reader_of(child.stderr.take().context("the command has no error output")?);
    let status = wait(&mut child, stop);
    if status.is_err() {
        let _already_gone = child.kill();
        let _nothing_to_reap = child.wait();
    }
    let status = status.with_context(|| format!("`{program} {}`", words.join(" ")))?;
    let text = |reader: std::thread::JoinHandle<Vec<u8>>| reader.join().unwrap_or_default();
    let (out, err) = (text(out), String::from_utf8_lossy(&text(err)).trim().to_string());
    ensure!(status.success(), "`{program} {}` failed ({status}): {err}", words.join(" "));
    Ok(out)
}

/// Reads all, so that the command never waits for us.
fn reader_of(from: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _what_arrived_counts = from.take(LIST_BYTES_MAX).read_to_end(&mut bytes);
        bytes
    })
}

fn wait(child: &mut Child, stop: &AtomicBool) -> Result<std::process::ExitStatus> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if stop.load(Ordering::Relaxed) {
            bail!("stopped");
        }
        if begun.elapsed() > TIMEOUT {
            bail!("no answer within {} s", TIMEOUT.as_secs());
        }
        std::thread::sleep(TURN / 10);
    }
}
