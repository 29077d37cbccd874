//! Kernel files below `/proc` and `/sys`, or below another root in tests.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// How often a pool of huge pages that changes is read again, until two numbers of one moment are found.
const N_LOOKS: u32 = 100;

/// A machine, identified by the root of its file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelFiles {
    root: PathBuf,
}

/// The first process namespace of a machine, as the kernel names it (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Block devices below a directory that matters to the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disk {
    /// Role of the directory: `data`, `wal`.
    pub role: String,
    /// Topmost device, whose read-ahead is in force; empty if there is none.
    pub device: String,
    /// Devices that make up the topmost one; empty if that is a disk itself.
    pub below: Vec<String>,
}

impl KernelFiles {
    /// The machine that we run on.
    pub fn this() -> KernelFiles {
        KernelFiles { root: PathBuf::from("/") }
    }

    /// A directory tree that stands for a machine.
    pub fn at(root: &Path) -> KernelFiles {
        KernelFiles { root: root.to_path_buf() }
    }

    /// The path to open for the machine's `path`.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Value of a kernel file, as it can be written back: the selected `b` of `a [b] c`, and of a pool of huge pages those
    /// that are reserved.
    pub fn read(&self, path: &str) -> Result<String> {
        if let Some(n_pages) = reserved(self, path) {
            return Ok(n_pages.to_string());
        }
        let text = fs::read_to_string(self.path(path)).with_context(|| format!("read `{path}`"))?;
        Ok(chosen(text.trim()).to_string())
    }

    /// Whole text of a kernel file.
    pub(crate) fn text(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.path(path)).with_context(|| format!("read `{path}`"))
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Identifies this boot; empty if the kernel does not report it.
    pub(crate) fn boot_id(&self) -> String {
        self.read("/proc/sys/kernel/random/boot_id").unwrap_or_default()
    }

    /// All words of a kernel file, without brackets.
    pub(crate) fn words(&self, path: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path(path)).unwrap_or_default();
        text.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_string()).collect()
    }

    /// Why nothing may be set from here: the first process of a container takes all others with it when it is killed, also the one that
    /// would restore values, and `/run` with the journal may go with the container.
    pub(crate) fn inside(&self) -> Option<String> {
        let namespace = fs::read_link(self.path("/proc/self/ns/pid")).ok()?;
        (namespace != Path::new(FIRST_NAMESPACE)).then(|| {
            "pgdyno runs in a container (a process namespace of its own), with which all that restores a value of the machine may end; \
             run it outside of the container, or leave this key out"
                .to_string()
        })
    }

    /// Why a kernel file cannot be written, if it cannot. Writes nothing.
    pub(crate) fn locked(&self, path: &str) -> Option<String> {
        let opened = OpenOptions::new().write(true).open(self.path(path));
        opened.err().map(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("this kernel has no `{path}`"),
            std::io::ErrorKind::PermissionDenied => format!("`{path}` can be written only by root"),
            _ => format!("`{path}` cannot be written: {error}"),
        })
    }

    /// Writes a kernel file. [`KernelFiles::read`] returns what the kernel made of the value.
    pub(crate) fn write(&self, path: &str, value: &str) -> Result<()> {
        let written = OpenOptions::new().write(true).open(self.path(path)).and_then(|mut file| {
            // In tests, a regular file stands for the kernel's, and may be longer than one write.
            file.set_len(0).ok();
            file.write_all(value.as_bytes())
        });
        written.with_context(|| format!("write `{value}` to `{path}`"))
    }

    /// Names in a directory, sorted; empty if there is no such directory.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn chosen(text: &str) -> &str {
    let chosen = text.split_once('[').and_then(|(_, rest)| Some(rest.split_once(']')?.0));
    chosen.unwrap_or(text)
}

/// Pages that are reserved in the pool of `path`, a file `nr_hugepages` below `/sys`; `None` for any other file.
///
/// The file counts surplus pages, too, which the kernel lends to processes beyond what is reserved (nr_overcommit_hugepages) and
/// frees when they end. What is written there is the number of the others (mm/hugetlb.c, `set_max_huge_pages`), so written
/// back it would reserve those of other processes for good.
fn reserved(machine: &KernelFiles, path: &str) -> Option<u64> {
    let (mut all, mut surplus) = with_surplus(machine, path)?;
    for _ in 0..N_LOOKS {
        let again = with_surplus(machine, path)?;
        if again == (all, surplus) {
            break;
        }
        (all, surplus) = again;
    }
    Some(all.saturating_sub(surplus))
}

/// All pages of the pool of `path`, and the surplus ones of them.
pub(crate) fn with_surplus(machine: &KernelFiles, path: &str) -> Option<(u64, u64)> {
    let pool = path.strip_suffix("/nr_hugepages").filter(|pool| pool.starts_with("/sys/"))?;
    let number = |path: &str| machine.text(path).ok()?.trim().parse().ok();
    Some((number(path)?, number(&format!("{pool}/surplus_hugepages"))?))
}
