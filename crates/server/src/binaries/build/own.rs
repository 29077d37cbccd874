//! Whether code that would be built as root is root's: a directory, a file, a repository with all that git reads of it.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use files::trust;
use nix::unistd::geteuid;

/// Files of a repository that lead git to files elsewhere, and what to do without them.
const LEADS: [(&str, &str); 3] = [
    ("objects/info/alternates", "make it independent with `git repack -a -d` and remove that file"),
    ("objects/info/http-alternates", "remove that file"),
    ("commondir", "name the repository that it is a worktree of"),
];
/// Longest configuration of a repository that is searched.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// A build runs code from the files: as root, only files that nobody else can have written are accepted.
pub(super) fn expect_own(path: &Path, facts: &Metadata) -> Result<()> {
    let fault = if geteuid().is_root() { trust::fault(path, facts) } else { None };
    ensure!(
        fault.is_none(),
        "server.source: code in `{}` would be run as root, and {}; run pgdyno as its owner, or make all of it root's \
         with chown -R root and chmod -R go-w",
        path.display(),
        fault.unwrap_or_default()
    );
    Ok(())
}

/// Takes the path as it was given: links on the way count too.
pub(super) fn expect_own_directory(path: &Path) -> Result<()> {
    if geteuid().is_root() {
        trust::check_directory(path).context(
            "server.source: the build would be run as root; run pgdyno as the owner of the source, or make all of it \
             root's with chown -R root and chmod -R go-w",
        )?;
    }
    Ok(())
}

/// As root, all that git reads of a repository must be root's: its configuration names programs, and git believes what its objects hold.
/// Returns the directory that git is to use, and no other one: left to itself, it looks in the directories above. Nobody but root is
/// checked: git itself refuses what belongs to somebody else.
pub(super) fn expect_own_repository(path: &Path) -> Result<Option<PathBuf>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let inner = path.join(".git");
    let repository = match fs::symlink_metadata(&inner) {
        Ok(facts) => {
            ensure!(
                facts.is_dir(),
                "server.source: `{}` leads to a repository elsewhere, and its code would be run as root; name that repository",
                inner.display()
            );
            inner
        }
        Err(_) => path.to_path_buf(),
    };

    ensure!(
        repository.join("HEAD").exists() && repository.join("objects").is_dir(),
        "server.source: `{}` is not the top directory of a repository; name that one",
        path.display()
    );
    for (name, instead) in LEADS {
        let lead = repository.join(name);
        ensure!(
            fs::symlink_metadata(&lead).is_err(),
            "server.source: `{}` leads git to files elsewhere, whose code would be run as root; {instead}",
            lead.display()
        );
    }
    for name in ["config", "config.worktree"] {
        expect_no_include(&repository.join(name))?;
    }
    expect_all_own(repository.clone())?;
    Ok(Some(repository))
}

/// Fails if a configuration takes others in.
fn expect_no_include(config: &Path) -> Result<()> {
    let about = || format!("server.source: `{}`", config.display());
    let text = match files::read(config, CONFIG_BYTES_MAX) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        read => read.with_context(about)?.to_ascii_lowercase(),
    };
    // The section may be all on one line with what is in it, or with others.
    ensure!(
        !String::from_utf8_lossy(&text)
            .split(|c: char| c.is_ascii_whitespace() || c == ']')
            .any(|word| word.starts_with("[include")),
        "{}: it includes other files, which can name programs that would be run as root; remove the line, or run pgdyno as another user",
        about()
    );
    Ok(())
}

/// All files below a directory; links count as what they are, and git follows them.
fn expect_all_own(directory: PathBuf) -> Result<()> {
    let mut left = vec![directory];
    while let Some(path) = left.pop() {
        let about = || format!("server.source: `{}`", path.display());
        let facts = fs::symlink_metadata(&path).with_context(about)?;
        ensure!(
            !facts.is_symlink(),
            "{}: it is a link, and what it leads to would be run as root; remove it",
            about()
        );
        expect_own(&path, &facts)?;
        if facts.is_dir() {
            let entries = fs::read_dir(&path).with_context(about)?;
            left.extend(
                entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>().with_context(about)?,
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    #[test]
    fn as_root_git_reads_nothing_of_a_repository_that_somebody_else_could_have_written() {
        if !geteuid().is_root() {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let tree = place.path().join("tree");
        let git = tree.join(".git");
        let object = git.join("objects/ab/cdef");
        fs::create_dir_all(object.parent().unwrap()).unwrap();
        fs::create_dir_all(git.join("objects/info")).unwrap();
        fs::write(git.join("config"), "[core]\n\tbare = false\n").unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/master\n").unwrap();
        fs::write(&object, "x").unwrap();
        let refused = |path: &Path| {
            expect_own_repository(path).err().map(|error| format!("{error:#}")).unwrap_or_default()
        };
        assert_eq!(refused(&tree), "");
        assert_eq!(refused(&git), "", "a bare one");
        let below = tree.join("below");
        fs::create_dir(&below).unwrap();
        assert!(refused(&below).contains("is not the top directory of a repository"), "{}", refused(&below));

        chown(&object, Some(1000), None).unwrap();
        assert!(refused(&tree).contains("objects/ab/cdef` would be run as root"), "{}", refused(&tree));
        chown(&object, Some(0), None).unwrap();
        for (name, text, words) in [
            ("objects/info/alternates", "/elsewhere", "git repack -a -d"),
            ("commondir", "../..", "is a worktree of"),
            ("config", "[Include]\n\tpath = /elsewhere\n", "includes other files"),
            ("config.worktree", "[include]\n\tpath = /elsewhere\n", "includes other files"),
            ("config", "[includeIf \"gitdir:/\"]\n\tpath = /elsewhere\n", "includes other files"),
        ] {
            let path = git.join(name);
            let kept = fs::read(&path).ok();
            fs::write(&path, text).unwrap();
            assert!(refused(&tree).contains(words), "{name}: {}", refused(&tree));
            kept.map_or_else(|| fs::remove_file(&path), |kept| fs::write(&path, kept)).unwrap();
        }
        symlink("/elsewhere", git.join("refs")).unwrap();
        assert!(refused(&tree).contains("it is a link"), "{}", refused(&tree));
        fs::remove_file(git.join("refs")).unwrap();
        assert_eq!(refused(&tree), "");

        fs::remove_dir_all(&git).unwrap();
        fs::write(&git, "gitdir: /elsewhere").unwrap();
        assert!(refused(&tree).contains("name that repository"), "{}", refused(&tree));
    }
}
