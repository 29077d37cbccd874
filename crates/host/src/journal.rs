//! What was set and what was there before: one line of JSON for each, on disk before the kernel is told.
//!
//! It lies where a restart of the machine, which puts everything back by itself, takes it away.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// A line: first what is about to be set, and when that is done what the kernel made of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Setting { path: String, before: String, wanted: String },
    Set { path: String, is: String },
}

/// What became of one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undone {
    /// The kernel's file.
    pub path: String,
    /// What it has now.
    pub now: String,
    /// Why that is not what it had before, if it is not.
    pub problem: Option<String>,
}

/// The file.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
}

impl Journal {
    pub(crate) fn at(path: PathBuf) -> Journal {
        Journal { path }
    }

    pub(crate) fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Whether this process may read and end it.
    pub(crate) fn is_ours(&self) -> bool {
        OpenOptions::new().read(true).append(true).open(&self.path).is_ok()
    }

    pub(crate) fn setting(&self, path: &str, before: &str, wanted: &str) -> Result<()> {
        let (path, before, wanted) = (path.to_string(), before.to_string(), wanted.to_string());
        self.append(&Line::Setting { path, before, wanted })
    }

    pub(crate) fn set(&self, path: &str, is: &str) -> Result<()> {
        self.append(&Line::Set { path: path.to_string(), is: is.to_string() })
    }

    fn append(&self, line: &Line) -> Result<()> {
        let write = || -> std::io::Result<()> {
            let mut file: File = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
            writeln!(file, "{}", serde_json::to_string(line)?)?;
            file.sync_all()
        };
        write().with_context(|| format!("write `{}`", self.path.display()))
    }

    /// Puts everything back, the last first, and ends the journal if that went well.
    pub(crate) fn undo(&self, machine: &Machine) -> Result<Vec<Undone>> {
        if !self.exists() {
            return Ok(Vec::new());
        }
        let text =
            fs::read_to_string(&self.path).with_context(|| format!("read `{}`", self.path.display()))?;
        // The last line may be torn: then nothing was set after it.
        let lines: Vec<Line> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let mut undone: Vec<Undone> = Vec::new();
        for path in paths(&lines) {
            undone.push(put_back(machine, path, &lines));
        }
        remove(&self.path)?;
        Ok(undone)
    }
}

/// Each path once, the one set last first.
fn paths(lines: &[Line]) -> Vec<&str> {
    let mut paths: Vec<&str> = Vec::new();
    for line in lines {
        let (Line::Setting { path, .. } | Line::Set { path, .. }) = line;
        if !paths.contains(&path.as_str()) {
            paths.insert(0, path);
        }
    }
    paths
}

fn put_back(machine: &Machine, path: &str, lines: &[Line]) -> Undone {
    let first = lines.iter().find_map(|line| match line {
        Line::Setting { path: of, before, .. } if of == path => Some(before.as_str()),
        _ => None,
    });
    let last = lines.iter().rev().find_map(|line| match line {
        Line::Set { path: of, is } if of == path => Some(Some(is.as_str())),
        Line::Setting { path: of, .. } if of == path => Some(None),
        _ => None,
    });
    let undone = |problem: Option<String>| Undone {
        path: path.to_string(),
        now: machine.read(path).unwrap_or_default(),
        problem,
    };
    let (Some(before), Ok(now)) = (first, machine.read(path)) else {
        return undone(Some("it cannot be read any more".to_string()));
    };
    if now == before {
        return undone(None);
    }
    if let Some(Some(is)) = last
        && is != now
    {
        return undone(Some(format!(
            "somebody changed it from {is} meanwhile, so it is left alone; it was {before}"
        )));
    }
    let written = machine.write(path, before);
    match (written, machine.read(path)) {
        (Ok(()), Ok(now)) if now == before => undone(None),
        (Err(error), _) => undone(Some(format!("{error:#}; it was {before}"))),
        _ => undone(Some(format!("the kernel did not take back its {before}"))),
    }
}

fn remove(path: &Path) -> Result<()> {
    fs::remove_file(path).with_context(|| format!("remove `{}`", path.display()))
}
