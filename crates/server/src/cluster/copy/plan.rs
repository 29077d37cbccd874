//! The plan of a copy: makes directories and links and removes what is not in the source at once; lists the files.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use rustix::fs::{FileType, OFlags};

use super::equal::copy_mode;
use super::{CopySide, CopyTrees};
use crate::user::held_dir::{DEPTH_MAX, HeldDir, NameFacts, too_deep};

/// The two directories of a tree, held until it is copied.
pub(super) struct Pair<'t> {
    from: Top<'t>,
    pub(super) to: Top<'t>,
}

pub(super) struct Top<'t> {
    pub(super) held: HeldDir,
    pub(super) side: &'t CopySide<'t>,
}

/// One regular file to be made equal. It is reached from the top again, because one directory for each file cannot
/// be kept open.
pub(super) struct FileJob<'t> {
    pub(super) pair: &'t Pair<'t>,
    /// The directories between the top and the file.
    pub(super) way: Arc<Path>,
    pub(super) name: OsString,
    pub(super) bytes: u64,
}

/// A directory of the tree, on both sides.
struct Directory<'t> {
    pair: &'t Pair<'t>,
    way: Arc<Path>,
    from: HeldDir,
    to: HeldDir,
}

impl<'t> Pair<'t> {
    /// Both directories; `to` is made if it is not there.
    pub(super) fn open(tree: &'t CopyTrees<'t>) -> Result<Pair<'t>> {
        let (from, to) = (&tree.from, &tree.to);
        let read = || format!("read `{}`", from.path.display());
        let make = || format!("make directory `{}`", to.path.display());
        let from_held = from.rights.act(|| HeldDir::open(&from.path)).with_context(read)?;
        let to_held = to.rights.act(|| HeldDir::open_or_make(&to.path)).with_context(make)?;
        Ok(Pair { from: Top { held: from_held, side: from }, to: Top { held: to_held, side: to } })
    }

    /// Makes directories and links, removes what is not in the source, and lists the files to be made equal.
    pub(super) fn plan(&'t self, skip: &[&str], jobs: &mut Vec<FileJob<'t>>) -> Result<()> {
        let way: Arc<Path> = Path::new("").into();
        let child = |top: &Top| top.side.rights.act(|| top.held.child(OsStr::new(".")));
        let context = || self.words("open", &way, OsStr::new(""));
        let from = child(&self.from).with_context(context)?;
        let to = child(&self.to).with_context(context)?;
        Directory { pair: self, way, from, to }.plan(skip, jobs)
    }

    fn words(&self, what: &str, way: &Path, name: &OsStr) -> String {
        let path = |top: &Top| top.side.path.join(way).join(name);
        format!("{what} `{}` for `{}`", path(&self.from).display(), path(&self.to).display())
    }
}

impl FileJob<'_> {
    /// Paths of the file in the source and in the target.
    pub(super) fn paths(&self) -> (PathBuf, PathBuf) {
        let path = |top: &Top| top.side.path.join(&self.way).join(&self.name);
        (path(&self.pair.from), path(&self.pair.to))
    }

    pub(super) fn open_from(&self) -> io::Result<File> {
        let top = &self.pair.from;
        top.side.rights.act(|| top.held.descend(&self.way)?.file(&self.name, OFlags::RDONLY, 0))
    }
}

impl<'t> Directory<'t> {
    fn plan(&self, skip: &[&str], jobs: &mut Vec<FileJob<'t>>) -> Result<()> {
        let context = || format!("read `{}`", self.pair.from.side.path.join(&self.way).display());
        if self.way.components().count() > DEPTH_MAX {
            return Err(too_deep()).with_context(context);
        }
        let is_skipped = |name: &OsStr| skip.iter().any(|skipped| name == *skipped);
        let wanted = self.pair.from.side.rights.act(|| self.from.entries()).with_context(context)?;
        let wanted: BTreeMap<OsString, NameFacts> =
            wanted.into_iter().filter(|(name, _)| !is_skipped(name)).collect();
        self.clear(&wanted)?;
        for (name, facts) in wanted {
            match facts.kind {
                FileType::Directory => self.below(&name)?.plan(&[], jobs)?,
                FileType::Symlink => self.copy_link(&name)?,
                FileType::RegularFile => {
                    let (pair, way) = (self.pair, self.way.clone());
                    jobs.push(FileJob { pair, way, name, bytes: facts.bytes });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Gives `to` the mode of `from`, and removes what `from` does not have.
    fn clear(&self, wanted: &BTreeMap<OsString, NameFacts>) -> Result<()> {
        let rights = self.pair.to.side.rights;
        let path = self.pair.to.side.path.join(&self.way);
        let copy = || copy_mode(self.from.facts()?.mode, &self.to, rights);
        copy().with_context(|| format!("make directory `{}`", path.display()))?;
        let present =
            rights.act(|| self.to.entries()).with_context(|| format!("read `{}`", path.display()))?;
        for (name, facts) in present {
            let is_wanted =
                wanted.get(&name).is_some_and(|w| w.kind == facts.kind) && facts.uid == rights.uid();
            if !is_wanted {
                let words = || format!("remove `{}`", path.join(&name).display());
                rights.act(|| self.to.remove(&name)).with_context(words)?;
            }
        }
        Ok(())
    }

    fn below(&self, name: &OsStr) -> Result<Directory<'t>> {
        let way: Arc<Path> = self.way.join(name).into();
        let open = || -> io::Result<(HeldDir, HeldDir)> {
            let from = self.pair.from.side.rights.act(|| self.from.child(name))?;
            Ok((from, self.pair.to.side.rights.act(|| self.to.child_or_make(name))?))
        };
        let (from, to) = open().with_context(|| self.pair.words("open", &self.way, name))?;
        Ok(Directory { pair: self.pair, way, from, to })
    }

    fn copy_link(&self, name: &OsStr) -> Result<()> {
        let copy = || -> io::Result<()> {
            let target = self.pair.from.side.rights.act(|| self.from.link(name))?;
            self.pair.to.side.rights.act(|| match self.to.link(name) {
                Ok(present) if present == target => Ok(()),
                Ok(_) => self.to.remove_file(name).and_then(|()| self.to.make_link(&target, name)),
                Err(_) => self.to.make_link(&target, name),
            })
        };
        copy().with_context(|| self.pair.words("copy the link", &self.way, name))
    }
}
