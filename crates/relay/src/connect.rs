//! The way to the NATS server.

use std::future::Future;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use async_nats::{Client, ConnectOptions, Event};

/// How long a server may take to let us in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a server that does not answer is noticed by the library. Pipes have their own, quicker beats.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// Pause before the next try to connect again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
/// Messages of one pipe that may wait for us. More are dropped, which their numbers reveal.
const MESSAGES_WAITING: usize = 4096;

/// Longest file of credentials, in bytes.
const CREDENTIALS_BYTES_MAX: u64 = 64 << 10;

/// A NATS server, and how to be let in.
#[derive(Debug, Clone, Default)]
pub struct Server {
    /// `nats://HOST:PORT`, or `tls://HOST:PORT`.
    pub url: String,
    /// A file with the user's JWT and key, with a key, or with `USER:PASSWORD`.
    pub creds: Option<PathBuf>,
    /// Certificates of authorities to trust besides the system's.
    pub ca: Option<PathBuf>,
}

impl Server {
    /// Refuses a URL that has a secret, which every user of the machine could read among the arguments.
    ///
    /// # Errors
    /// Says what to do.
    pub fn check(&self) -> Result<()> {
        ensure!(!self.url.is_empty(), "name the NATS server: --nats tls://HOST:4222, or PGDYNO_NATS");
        let Some((scheme, rest)) = self.url.split_once("://") else {
            bail!("`{}` is no URL of a NATS server; say tls://HOST:4222 or nats://HOST:4222", self.url);
        };
        ensure!(
            !rest.contains('@'),
            "the URL of the NATS server may have no user and password; give a file as --creds"
        );
        ensure!(
            ["nats", "tls"].contains(&scheme),
            "pgdyno reaches NATS servers as nats:// or tls://, not {scheme}://"
        );
        Ok(())
    }

    /// Connects. `on_event` hears what happens to the connection from now on.
    pub(crate) async fn connect(
        &self,
        name: &str,
        on_event: impl Fn(String) + Send + Sync + 'static,
    ) -> Result<Client> {
        self.check()?;
        let mut options = ConnectOptions::new()
            .name(name)
            .connection_timeout(CONNECT_TIMEOUT)
            .ping_interval(PING_INTERVAL)
            .subscription_capacity(MESSAGES_WAITING)
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
            std::fs::File::open(ca).with_context(|| format!("cannot read `{}`", ca.display()))?;
            options = options.add_root_certificates(ca.clone());
        }
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, options.connect(&self.url)).await;
        let connected = connected
            .with_context(|| format!("{} did not answer within {} s", self.url, CONNECT_TIMEOUT.as_secs()))?;
        connected.with_context(|| format!("cannot connect to {}", self.url))
    }
}

/// What a file of credentials has: a JWT and its key between the lines that `nsc` writes, a key alone, or `USER:PASSWORD`.
fn with_credentials(options: ConnectOptions, path: &Path) -> Result<ConnectOptions> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(CREDENTIALS_BYTES_MAX).read_to_string(&mut text)?;
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
        Event::SlowConsumer(_) => {
            "messages came faster than they were taken, and some were dropped".to_string()
        }
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

/// Runs `future` to its end on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    // Another provider of cryptography may be linked in; the first choice stays.
    let _chosen_before = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the asynchronous runtime")?;
    let result = runtime.block_on(future);
    // A blocked read of standard input would be waited for.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_unknown_ways_are_refused() {
        let check = |url: &str| {
            Server { url: url.into(), ..Server::default() }.check().map_err(|error| error.to_string())
        };
        assert_eq!(check("tls://nats.example.org:4222"), Ok(()));
        assert!(check("nats://me:secret@host").unwrap_err().contains("--creds"));
        assert!(!check("nats://me:secret@host").unwrap_err().contains("secret"));
        assert!(check("http://host").unwrap_err().contains("not http://"));
        assert!(check("host").unwrap_err().contains("is no URL"));
        assert!(check("").unwrap_err().contains("PGDYNO_NATS"));
    }
}
