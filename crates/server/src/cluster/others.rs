//! What shows that somebody else has used a cluster, or its tablespaces, since pgdyno left it: that may be somebody's data, and pgdyno
//! neither changes nor removes it unasked.
//!
//! ```text
//! ROOT/pgdyno-left.json   what pgdyno left when it last stopped the server, or restored a snapshot; removed before each start
//! ```
//!
//! A server writes its control file when it starts, so that one that was started without pgdyno leaves another one behind. After
//! a kill of pgdyno there is no such record; then the cluster counts as pgdyno left it.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, bail};
use files::trust;
use serde::{Deserialize, Serialize};

use crate::cluster::control::{self, ControlFile};
use crate::cluster::tablespaces::Belonging;
use crate::user::account::Account;

/// The record in a cluster's directory.
pub(crate) const LEFT: &str = "pgdyno-left.json";
/// A digest for each tablespace.
const LEFT_BYTES_MAX: u64 = 1 << 20;

/// The state in which pgdyno left a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClusterDigest {
    /// Identifier of the server in the control file.
    system_identifier: u64,
    /// Digest of the control file.
    control: String,
    /// For each tablespace, by the name of its link, a digest of the files that the server has there.
    pub(crate) tablespaces: BTreeMap<String, String>,
}

impl ClusterDigest {
    /// The record of a cluster; `None` if there is none that can be trusted.
    pub(crate) fn read(root: &Path) -> Option<ClusterDigest> {
        let text = trust::read(&root.join(LEFT), LEFT_BYTES_MAX).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

/// Records what pgdyno leaves. Where that fails, as on a full disk, nothing is known later.
pub(crate) fn note(root: &Path, account: &Account) {
    let data = root.join("data");
    let left = || -> Result<Vec<u8>> {
        let (system_identifier, control) = control_of(&data, account)?;
        let tablespaces = Belonging::new(&data, account, (&data, account))?.versions()?;
        Ok(serde_json::to_vec(&ClusterDigest { system_identifier, control, tablespaces })?)
    };
    left().and_then(|text| Ok(files::replace(&root.join(LEFT), files::PRIVATE, &text)?)).ok();
}

fn control_of(data: &Path, account: &Account) -> Result<(u64, String)> {
    Ok((ControlFile::read(data, account)?.system_identifier, control::digest(data, account)?))
}

/// Removes the record: what follows changes the cluster.
///
/// # Errors
/// When it would survive a power failure that the changes survive, too.
pub(crate) fn forget(root: &Path) -> Result<()> {
    let path = root.join(LEFT);
    match fs::remove_file(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| files::sync_parent(&path)),
    }
    .with_context(|| format!("remove `{}`", path.display()))
}

/// How somebody else has used the cluster in `root`, in words; `None` if nothing shows that.
pub(crate) fn use_of(root: &Path) -> Option<String> {
    let data = root.join("data");
    let account = Account::of_owner(&data).ok()?;
    let left = ClusterDigest::read(root);
    // Data that were removed in part have no control file, and one that is damaged says nothing.
    let was = left.as_ref().map(|left| (left.system_identifier, &left.control));
    let now = control_of(&data, &account).ok();
    let is_other = |((was, before), (is, now)): ((u64, &String), (u64, String))| was == is && *before != now;
    if was.zip(now).is_some_and(is_other) {
        return Some("its server was started without this pgdyno since it last stopped it".to_string());
    }
    let belonging = Belonging::new(&data, &account, (&data, &account)).ok()?;
    let used = belonging.used_by_others(left.as_ref()).ok()?;
    used.first().map(|(dir, why)| format!("what it has in a tablespace, `{}`, {why}", dir.display()))
}

/// Whether the record of what pgdyno left is there and holds, and nothing of the cluster is in a tablespace, where it would belong to the
/// directory that pgdyno made.
pub(crate) fn is_as_left(root: &Path) -> bool {
    let data = root.join("data");
    let (Some(left), Ok(account)) = (ClusterDigest::read(root), Account::of_owner(&data)) else {
        return false;
    };
    let now = control_of(&data, &account);
    left.tablespaces.is_empty() && now.is_ok_and(|now| now == (left.system_identifier, left.control))
}

/// Fails if somebody else has used the cluster in `root`.
///
/// # Errors
/// Says what shows it, and what to do.
pub(crate) fn expect_none(root: &Path) -> Result<()> {
    let Some(why) = use_of(root) else { return Ok(()) };
    let name = root.file_name().unwrap_or_default().display();
    bail!(
        "cluster `{}` may hold data of somebody else: {why}; pgdyno leaves it is. Save what is needed of it; \
         `pgdyno server remove --force {name}` removes it, but nothing that another server uses",
        root.display()
    )
}
