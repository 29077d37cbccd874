//! The way to the NATS server.

use std::fs::{Metadata, OpenOptions};
use std::future::Future;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use async_nats::{Client, ConnectOptions, Event};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::NatsServer;

/// How long a server may take to let us in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a server that does not answer is noticed by the library. Pipes have their own, quicker beats.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// Pause before the next try to connect again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
/// Messages of one pipe that may wait for us. More are dropped, which their numbers reveal.
/// A server passes on up to 1 MiB each.
pub(crate) const MESSAGES_WAITING: usize = 256;
/// The event that messages were dropped.
pub(crate) const DROPPED: &str = "messages came faster than they were taken, and some were dropped";

/// Longest file of credentials or certificates, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

impl NatsServer {
    /// Connects, with room for so many messages of each subscription. `on_event` hears what happens to the connection from
    /// now on.
    pub(crate) async fn connect(
        &self,
        name: &str,
        n_waiting_max: usize,
        on_event: impl Fn(String) + Send + Sync + 'static,
    ) -> Result<Client> {
        self.check()?;
        let mut options = ConnectOptions::new()
            .name(name)
            .connection_timeout(CONNECT_TIMEOUT)
            .ping_interval(PING_INTERVAL)
            .subscription_capacity(n_waiting_max)
            .ignore_discovered_servers()
            .reconnect_delay_callback(|_| RECONNECT_PAUSE)
            .require_tls(self.url.starts_with("tls://"));
        let on_event = Arc::new(on_event);
        options = options.event_callback(move |event| {
            let on_event = Arc::clone(&on_event);
            async move { on_event(describe(&event)) }
        });
        if let Some(creds) = &self.creds {
            options = with_credentials(options, creds)
                .with_context(|| format!("cannot use the credentials of `{}`", creds.display()))?;
        }
        if let Some(ca) = &self.ca {
            read_short(ca).with_context(|| format!("cannot use the certificates of `{}`", ca.display()))?;
            options = options.add_root_certificates(ca.clone());
        }
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, options.connect(&self.url)).await;
        let connected = connected
            .with_context(|| format!("{} did not answer within {} s", self.url, CONNECT_TIMEOUT.as_secs()))?;
        connected.with_context(|| format!("cannot connect to {}", self.url))
    }
}

/// Reads a file whose text is short. A pipe would be waited for.
fn read_short(path: &Path) -> Result<(String, Metadata)> {
    let mut text = String::new();
    let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    ensure!(metadata.is_file(), "it is no regular file");
    ensure!(metadata.len() <= FILE_BYTES_MAX, "it is longer than {} KiB", FILE_BYTES_MAX >> 10);
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok((text, metadata))
}

/// What a file of credentials has: a JWT and its key between the lines that `nsc` writes, a key alone, or `USER:PASSWORD`.
fn with_credentials(options: ConnectOptions, path: &Path) -> Result<ConnectOptions> {
    let (text, metadata) = read_short(path)?;
    ensure!(metadata.mode() & 0o077 == 0, "other users may read it; run: chmod 600 {}", path.display());
    let text = text.trim();
    if text.contains("-----BEGIN") {
        return Ok(options.credentials(text)?);
    }
    let lines: Vec<&str> = text.lines().collect();
    match (lines.as_slice(), text.split_once(':')) {
        ([_], Some((user, password))) => {
            Ok(options.user_and_password(user.to_string(), password.to_string()))
        }
        ([key], None) if key.starts_with("SU") => Ok(options.nkey(key.to_string())),
        _ => bail!("it has neither a JWT with its key, nor a user's key (SU...), nor one line USER:PASSWORD"),
    }
}

fn describe(event: &Event) -> String {
    match event {
        Event::Connected => "connected".to_string(),
        Event::Disconnected => "lost the connection".to_string(),
        Event::SlowConsumer(_) => DROPPED.to_string(),
        other => other.to_string(),
    }
}

/// The last thing that happened to a connection, for a message.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastEvent(Arc<Mutex<Option<String>>>);

impl LastEvent {
    pub(crate) fn keep(&self, event: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(event);
    }

    /// The words for the end of a message.
    pub(crate) fn words(&self) -> String {
        let event = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        event.map_or_else(String::new, |event| format!("; NATS: {event}"))
    }
}

/// Most memory of a process that speaks with a NATS server, in bytes of address space. The library keeps what a server sends of a
/// message, however long it says that the message is.
const MEMORY_BYTES_MAX: u64 = 1 << 30;

fn bound_memory() -> Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_AS).context("cannot read the limit of memory")?;
    setrlimit(Resource::RLIMIT_AS, MEMORY_BYTES_MAX.min(most), most).context("cannot limit memory")
}

/// Lifts the limit again for what this process starts, between fork and exec.
pub(crate) fn lift_memory() -> std::io::Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_AS)?;
    Ok(setrlimit(Resource::RLIMIT_AS, most, most)?)
}

/// Runs `future` to its end on this thread, with bounded memory.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    bound_memory()?;
    // Another provider of cryptography may be linked in; the first choice stays.
    let _chosen_before = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the asynchronous runtime")?;
    let result = runtime.block_on(future);
    // A blocked read of standard input would be waited for.
    runtime.shutdown_background();
    result
}
