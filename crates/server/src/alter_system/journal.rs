//! Journal of the settings that pgdyno changes on a server that is not its own: on disk before anything is changed there,
//! and kept until all is as it was.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use files::Owner;
use serde::{Deserialize, Serialize};
use wire::Conninfo;

use super::identity::ServerIdentity;
use super::lock::SettingsLockTaken;

/// Far more than any experiment sets.
const BYTES_MAX: u64 = 1 << 20;
/// End of the names of what is kept for the user alone.
const ASIDE: &str = "left";

/// What was changed on one server, and how it is put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsJournal {
    /// Version of the format.
    pub format: u32,
    /// Which server it is, together with the place in `target`.
    #[serde(flatten)]
    pub server: ServerIdentity,
    /// How to connect, as libpq keywords without the password.
    pub target: BTreeMap<String, String>,
    /// The command that restarts the server; empty if there is none.
    pub restart: Vec<String>,
    /// Who changes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Owner>,
    /// The changed settings by name.
    pub settings: BTreeMap<String, ChangedSetting>,
}

/// A setting that was, or is about to be, changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedSetting {
    /// Its entry in postgresql.auto.conf before; none if there was none.
    pub entry: Option<String>,
    /// The value that was in effect before, in the setting's own unit.
    pub effective: String,
    /// Whether only a restart changes it.
    pub needs_restart: bool,
    /// Values that pgdyno has set, or is about to set: the last one and the one before. Another value is somebody else's.
    pub set: Vec<String>,
}

impl SettingsJournal {
    /// Where the journal of this server is kept. Clusters that are copies of each other differ by their place.
    pub fn path(dir: &Path, system_identifier: &str, conninfo: &Conninfo) -> Result<PathBuf> {
        let place: Vec<String> =
            conninfo.hosts.iter().map(|host| format!("{}:{}", host.host, host.port)).collect();
        let hash = files::sha256_of(place.join(",").as_bytes()).context("cannot hash the server's place")?;
        Ok(dir.join(format!("{system_identifier}-{}.json", &hash[..8])))
    }

    /// Where the output of the restart command is.
    pub(super) fn log_path(path: &Path) -> PathBuf {
        path.with_extension("restart.log")
    }

    /// The journals of a directory.
    ///
    /// # Errors
    /// When the directory is there and cannot be read.
    pub fn all(dir: &Path) -> Result<Vec<PathBuf>> {
        with_end(dir, "json")
    }

    /// Where the rest of a journal is kept whose settings have become somebody else's.
    pub(super) fn path_aside(path: &Path) -> PathBuf {
        let names = (1..).map(|n| if n == 1 { ASIDE.to_string() } else { format!("{n}.{ASIDE}") });
        let mut paths = names.map(|end| path.with_extension(end));
        paths.find(|path| fs::symlink_metadata(path).is_err()).expect("numbers do not end")
    }

    /// Keeps these settings of the journal at [`SettingsJournal::path_aside`], where nothing is put back from, for the user.
    ///
    /// # Errors
    /// When that fails.
    pub(super) fn set_aside(&self, names: &[String], path: &Path) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let mut aside = self.clone();
        aside.settings.retain(|name, _| names.contains(name));
        aside.write(&SettingsJournal::path_aside(path))
    }

    /// The other journals of the same server in the directory of this one, those that were set aside included.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub(super) fn others(&self, path: &Path) -> Result<Vec<(PathBuf, SettingsJournal)>> {
        let dir = path.parent().unwrap_or(Path::new("/"));
        let all = [SettingsJournal::all(dir)?, with_end(dir, ASIDE)?].concat().into_iter();
        let others = all.filter(|other| other != path);
        let read = others.filter_map(|path| SettingsJournal::read(&path).ok().map(|journal| (path, journal)));
        let is_same = |other: &SettingsJournal| {
            other.server.system_identifier == self.server.system_identifier
                && other.server.data_directory == self.server.data_directory
        };
        Ok(read.filter(|(_, other)| is_same(other)).collect())
    }

    /// Names of the settings, in words.
    pub fn names(&self) -> String {
        self.settings.keys().cloned().collect::<Vec<_>>().join(", ")
    }

    /// Reads a journal. Its directory must be ours alone: what it says is executed.
    ///
    /// # Errors
    /// When somebody else could have written it, or it is damaged.
    pub fn read(path: &Path) -> Result<SettingsJournal> {
        files::trust::check_directory(path.parent().unwrap_or(Path::new("/")))?;
        let bytes =
            files::trust::read(path, BYTES_MAX).with_context(|| format!("read `{}`", path.display()))?;
        let journal: SettingsJournal = serde_json::from_slice(&bytes).with_context(|| {
            format!(
                "`{}` is damaged; put back by hand the settings that it names, then remove it",
                path.display()
            )
        })?;
        ensure!(
            journal.format == model::FORMAT,
            "`{}` is of another version of pgdyno (format {}); use that one",
            path.display(),
            journal.format
        );
        Ok(journal)
    }

    /// Lets what it says be put back.
    ///
    /// # Errors
    /// [`SettingsLockTaken`] while the process that changed the settings lives: it may only have lost its connection, and with it the lock.
    pub(super) fn expect_owner_gone(&self) -> Result<()> {
        match self.by.as_ref().filter(|owner| owner.is_another_that_lives()) {
            Some(owner) => Err(SettingsLockTaken(owner.words()).into()),
            None => Ok(()),
        }
    }

    /// Writes it, in place of an older one.
    ///
    /// # Errors
    /// When that fails; the older one is then still there.
    pub fn write(&self, path: &Path) -> Result<()> {
        let dir = path.parent().unwrap_or(Path::new("/"));
        files::trust::make_directory(dir)?;
        let text = serde_json::to_string_pretty(self).context("cannot write the journal as JSON")?;
        files::replace(path, files::PRIVATE, format!("{text}\n").as_bytes())
            .with_context(|| format!("write `{}`", path.display()))
    }

    /// Removes the journal of a server where all is as it was.
    ///
    /// # Errors
    /// When it is there and cannot be removed.
    pub fn remove(path: &Path) -> Result<()> {
        // There is none if no restart has failed.
        fs::remove_file(SettingsJournal::log_path(path)).ok();
        match fs::remove_file(path).and_then(|()| files::sync_parent(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("remove `{}`", path.display()))
            }
            _ => Ok(()),
        }
    }
}

/// The files of a directory whose names end so.
fn with_end(dir: &Path, end: &str) -> Result<Vec<PathBuf>> {
    let names = match fs::read_dir(dir) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("read `{}`", dir.display())),
    };
    let mut paths: Vec<PathBuf> = names
        .flatten()
        .map(|name| name.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == end))
        .collect();
    paths.sort();
    Ok(paths)
}

/// What is to be done about a setting whose entry in postgresql.auto.conf is now `is`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has a value that we set.
    Ours,
    /// It is as it was.
    Back,
    /// Somebody else has changed it.
    Foreign,
}

impl ChangedSetting {
    pub(super) fn standing(&self, is: Option<&str>) -> Standing {
        match is {
            _ if is == self.entry.as_deref() => Standing::Back,
            Some(is) if self.set.iter().any(|set| set == is) => Standing::Ours,
            _ => Standing::Foreign,
        }
    }

    /// Notes a value that is about to be set; the entry is `is` now.
    pub(super) fn note(&mut self, is: Option<&str>, value: &str) {
        self.set.retain(|set| Some(set.as_str()) == is && set != value);
        self.set.push(value.to_string());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn journal() -> SettingsJournal {
        let entry = ChangedSetting {
            entry: Some("4MB".to_string()),
            effective: "4096".to_string(),
            needs_restart: false,
            set: vec!["8MB".to_string()],
        };
        SettingsJournal {
            format: model::FORMAT,
            server: ServerIdentity {
                system_identifier: "7".to_string(),
                data_directory: "/data".to_string(),
                is_in_recovery: Some(false),
                ..ServerIdentity::default()
            },
            target: Conninfo::new("db1", 5432, "u", "d").keywords(),
            restart: Vec::new(),
            by: Some(Owner::this()),
            settings: BTreeMap::from([("work_mem".to_string(), entry)]),
        }
    }

    #[test]
    fn only_a_value_that_we_set_is_put_back() {
        let mut entry = journal().settings["work_mem"].clone();
        let check = |entry: &ChangedSetting, is: Option<&str>, expected: Standing| {
            assert_eq!(entry.standing(is), expected, "{entry:?} {is:?}");
        };
        check(&entry, Some("8MB"), Standing::Ours);
        check(&entry, Some("4MB"), Standing::Back);
        check(&entry, Some("5MB"), Standing::Foreign);
        check(&entry, None, Standing::Foreign);
        // Killed before or after the statement: both are ours.
        entry.note(Some("8MB"), "64MB");
        check(&entry, Some("8MB"), Standing::Ours);
        check(&entry, Some("64MB"), Standing::Ours);
        entry.note(Some("64MB"), "1MB");
        check(&entry, Some("8MB"), Standing::Foreign);
        entry.note(Some("64MB"), "64MB");
        assert_eq!(entry.set, ["64MB"]);
        let absent = ChangedSetting { entry: None, ..entry };
        check(&absent, None, Standing::Back);
        check(&absent, Some("4MB"), Standing::Foreign);
    }

    #[test]
    fn a_journal_is_found_again_unless_others_could_have_written_it() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("settings");
        assert_eq!(SettingsJournal::all(&dir).unwrap(), Vec::<PathBuf>::new());
        let at = |host: &str| SettingsJournal::path(&dir, "7", &Conninfo::new(host, 5432, "u", "d")).unwrap();
        assert_ne!(at("db1"), at("db2"));
        journal().write(&at("db1")).unwrap();
        assert_eq!(SettingsJournal::all(&dir).unwrap(), [at("db1")]);
        assert_eq!(SettingsJournal::read(&at("db1")).unwrap(), journal());
        fs::set_permissions(at("db1"), fs::Permissions::from_mode(0o666)).unwrap();
        let planted = format!("{:#}", SettingsJournal::read(&at("db1")).unwrap_err());
        assert!(planted.contains("every user can write it"), "{planted}");
        fs::remove_file(at("db1")).unwrap();
        files::replace(&at("db1"), files::PRIVATE, b"{}").unwrap();
        let damaged = SettingsJournal::read(&at("db1")).unwrap_err().to_string();
        assert!(damaged.contains("put back by hand the settings that it names"), "{damaged}");
        SettingsJournal { format: 0, ..journal() }.write(&at("db1")).unwrap();
        assert!(SettingsJournal::read(&at("db1")).unwrap_err().to_string().contains("another version"));
        SettingsJournal::remove(&at("db1")).unwrap();
        SettingsJournal::remove(&at("db1")).unwrap();
        assert_eq!(SettingsJournal::all(&dir).unwrap(), Vec::<PathBuf>::new());
    }
}
