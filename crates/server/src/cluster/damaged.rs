//! Clusters whose marker cannot be read, as after a power cut: what shows that they are pgdyno's all the same, and
//! their removal.
//!
//! They lie in the directory of clusters, which only the user of pgdyno can change, belong to that user, and contain
//! nothing but what pgdyno puts into a cluster.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use files::trust;

use crate::cluster::workspace::is_directory_name;
use crate::cluster::{
    ClusterFacts, MARKER, MARKER_BYTES_MAX, RESTORE_LOG, WAL_MARKER, has_marker, others, remove_cluster_files,
};
use crate::user::account::Account;

/// Names the directory of a cluster's snapshots if they are elsewhere. The marker names it too, but may be lost.
const SNAPSHOT_HOLDER: &str = "pgdyno-snapshots-at.json";

/// What of an archive is to be restored, while it is.
pub(crate) const RESTORE_LIST: &str = "restore.list";

/// What else is in the directory of a cluster at some moment of its life.
const NAMES: [&str; 15] = [
    MARKER,
    SNAPSHOT_HOLDER,
    "pgdyno-snapshots-at.json.new",
    "pgdyno-snapshots-at.json.tmp",
    others::LEFT,
    "pgdyno-left.json.tmp",
    "data",
    "snapshots",
    "server.log",
    "server.log.old",
    "initdb.log",
    "single-user.log",
    "single-user.sql",
    RESTORE_LOG,
    RESTORE_LIST,
];

/// A marker that is being written.
const BEGUN_MARKERS: [&str; 2] = ["pgdyno-cluster.json.new", "pgdyno-cluster.json.tmp"];

/// Whether the cluster can neither be used nor be distinguished from an unfinished one: its marker can be trusted but
/// is unreadable, or a kill came before the marker was written or after it was removed.
pub(crate) fn is_damaged(root: &Path) -> bool {
    is_shell(root) || (has_marker(root) && is_ours(root).is_ok() && is_unreadable(root))
}

/// Whether the directory has the name of a cluster and contains nothing that anybody would miss: its marker was about to be
/// written, or has just been removed. A log may be somebody's.
fn is_shell(root: &Path) -> bool {
    is_directory_name(root)
        && trust::check_directory(root).is_ok()
        && holds_only(root, &BEGUN_MARKERS).is_ok()
}

/// A newer pgdyno's marker may have other keys; that is not damage.
fn is_unreadable(root: &Path) -> bool {
    let marker = trust::read(&root.join(MARKER), MARKER_BYTES_MAX).unwrap_or_default();
    serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&marker)
        .map_or(true, |marker| !marker.contains_key("format"))
}

/// Removes a cluster whose marker is damaged or gone. The caller holds its place, and its server is stopped.
///
/// # Errors
/// When it cannot be shown to be pgdyno's, with the reason.
pub(crate) fn remove(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    is_ours(root)?;
    let facts =
        ClusterFacts { snapshot_holder: snapshot_holder(root), ..ClusterFacts::unknown(wal_holder(root)) };
    remove_cluster_files(root, &facts)
}

/// Records where the snapshots of the cluster in `root` will be.
pub(crate) fn note_snapshot_holder(root: &Path, holder: &Path) -> Result<()> {
    let path = root.join(SNAPSHOT_HOLDER);
    files::replace(&path, files::PRIVATE, &serde_json::to_vec(holder)?)
        .with_context(|| format!("write `{}`", path.display()))
}

fn snapshot_holder(root: &Path) -> Option<PathBuf> {
    let text = trust::read(&root.join(SNAPSHOT_HOLDER), MARKER_BYTES_MAX).ok()?;
    serde_json::from_slice(&text).ok()
}

fn is_ours(root: &Path) -> Result<()> {
    holds_only_ours(root)?;
    let is_begun = ["data", MARKER].iter().any(|name| fs::symlink_metadata(root.join(name)).is_ok());
    ensure!(
        is_begun || is_shell(root),
        "`{}` has neither data nor a marker: it is not a cluster of pgdyno",
        root.display()
    );
    Ok(())
}

fn holds_only_ours(root: &Path) -> Result<()> {
    trust::check_directory(root)?;
    holds_only(root, &[&NAMES[..], &BEGUN_MARKERS].concat())
}

fn holds_only(root: &Path, names: &[&str]) -> Result<()> {
    let entries = fs::read_dir(root).with_context(|| format!("read `{}`", root.display()))?;
    for entry in entries {
        let name = entry.with_context(|| format!("read `{}`", root.display()))?.file_name();
        ensure!(
            names.iter().any(|known| name == **known),
            "`{}` has `{}`, which is in no cluster of pgdyno; look at it, and remove it by hand if it is not needed",
            root.display(),
            name.display()
        );
    }
    Ok(())
}

/// Where the WAL is if it is elsewhere, by the data directory's link. Only a directory with its own marker counts,
/// and that must name this cluster.
fn wal_holder(root: &Path) -> Option<PathBuf> {
    let data = root.join("data");
    let owner = Account::of_owner(&data).ok()?;
    let wal =
        ["pg_wal", "pg_xlog"].iter().find_map(|name| owner.act(|| fs::read_link(data.join(name))).ok())?;
    let holder = wal.parent()?.to_path_buf();
    fs::exists(holder.join(WAL_MARKER)).ok()?.then_some(holder)
}
