//! Where the files of a build come from: a directory as it is, or a commit of a local or remote repository. Not how
//! they are built.

use std::ffi::OsString;
use std::fs::{self, Metadata, Permissions};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use files::trust;
use sha2::{Digest, Sha256};

use super::maker::Maker;
use super::own::{expect_own, expect_own_directory, expect_own_repository};
use super::sweep::PART;
use super::{SourceTree, lock, run};
use crate::binaries::fetch::UNTRUSTED;
use crate::binaries::unpack::{self, unpack_tar};
use crate::process::spawn::output_of;
use crate::temporary::{self, PathState, Temporary};

/// Where the files come from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A directory as it is.
    Directory(PathBuf),
    /// A commit of a repository on this machine, which may be a mirror.
    Commit { repository: Repository, commit: String },
}

/// A local repository, or the mirror of a remote one, which another user may own: then git runs as that user.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Repository {
    dir: PathBuf,
    /// The directory with its objects, if git must not look for it.
    git_dir: Option<PathBuf>,
    maker: Maker,
    /// Home of that user.
    home: Option<PathBuf>,
}

/// Fails when the address of a repository has a password or, where that may be one, a user's name: the address is
/// written into results, and everybody on the machine may read the arguments of git. The message does not repeat it.
///
/// # Errors
/// Says what to do.
pub fn check_address(address: &str) -> Result<(), String> {
    let Some((scheme, rest)) = address.split_once("://") else { return Ok(()) };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((user, _)) = authority.rsplit_once('@') else { return Ok(()) };
    // A remote helper may stand before it: `http::https`.
    let scheme = scheme.rsplit(':').next().unwrap_or_default().trim();
    let is_web = ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
    if !is_web && !user.contains(':') {
        return Ok(());
    }
    Err("server.source: the repository's address has a user or a password in it, which would be stored with the \
         results; remove it, and use a git credential helper or ssh"
        .to_string())
}

impl Origin {
    /// Finds it; a remote repository is mirrored in `builds`.
    pub(super) fn find(
        source: &SourceTree,
        builds: &Path,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(String),
    ) -> Result<Origin> {
        check_address(source.tree).map_err(anyhow::Error::msg)?;
        let Some(revision) = source.revision else { return directory(source.tree).map(Origin::Directory) };
        ensure!(!revision.starts_with('-'), "server.revision: `{revision}` is not a revision");
        let repository = match Path::new(source.tree).canonicalize() {
            Ok(path) => {
                expect_own_directory(Path::new(source.tree))?;
                let git_dir = expect_own_repository(&path)?;
                Repository { dir: path, git_dir, maker: Maker::OURSELVES, home: None }
            }
            Err(_) => mirror(source.tree, revision, builds, stop, tell)?,
        };
        let commit = repository
            .commit(revision)
            .with_context(|| format!("server.revision: `{}` has no revision `{revision}`", source.tree))?;
        Ok(Origin::Commit { repository, commit })
    }

    /// The user who builds it.
    pub(super) fn maker(&self) -> &Maker {
        match self {
            Origin::Commit { repository, .. } => &repository.maker,
            Origin::Directory(_) => &Maker::OURSELVES,
        }
    }

    /// Hash of the commit, or of all files of the directory as they are now.
    pub(super) fn content(&self, stop: &AtomicBool) -> Result<String> {
        match self {
            Origin::Commit { commit, .. } => Ok(commit.clone()),
            Origin::Directory(dir) => Walk::new(dir, None, stop).hash(),
        }
    }

    /// Copies the files to `to`, which does not exist, in the `home` of who builds it. Returns the hash of the copy.
    pub(super) fn put(
        &self,
        to: &Path,
        home: Option<&Path>,
        log: &Path,
        stop: &AtomicBool,
    ) -> Result<String> {
        let maker = self.maker();
        maker.act(|| fs::create_dir_all(to)).with_context(|| format!("create `{}`", to.display()))?;
        match self {
            Origin::Directory(dir) => Walk::new(dir, Some(to), stop).hash(),
            Origin::Commit { repository, commit } => {
                let archive = to.with_extension("tar");
                let mut export = repository.git(&["archive", "--format=tar", "-o"], home);
                export.arg(&archive).arg(commit);
                run(export, to, log, stop)?;
                let words = || format!("server.revision: unpack commit {commit}");
                match home {
                    // That user's own program does it, because links in that user's directories could lead us
                    // elsewhere.
                    Some(_) => {
                        let mut unpack = Command::new("tar");
                        unpack.arg("-xf").arg(&archive);
                        maker.prepare(&mut unpack, home);
                        run(unpack, to, log, stop).with_context(words)?;
                    }
                    None => {
                        let tar = fs::File::open(&archive)
                            .with_context(|| format!("open `{}`", archive.display()))?;
                        unpack_tar(BufReader::new(tar), to, unpack::COMMIT).with_context(words)?;
                    }
                }
                maker.act(|| fs::remove_file(&archive))?;
                Ok(commit.clone())
            }
        }
    }
}

impl Repository {
    fn git(&self, args: &[&str], home: Option<&Path>) -> Command {
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.dir).args(args);
        self.maker.prepare(&mut command, home);
        if let Some(git_dir) = &self.git_dir {
            // The home of a kept environment (`sudo -E`) is somebody else's, whose configuration names programs.
            command.env("GIT_DIR", git_dir).env("GIT_CONFIG_GLOBAL", "/dev/null");
        }
        command
    }

    fn commit(&self, revision: &str) -> Result<String> {
        let name = format!("{revision}^{{commit}}");
        let mut command = self.git(&["rev-parse", "--verify", "--quiet", &name], self.home.as_deref());
        command.current_dir(self.home.as_deref().unwrap_or(&self.dir));
        let output = output_of(command).context("cannot run `git`; install it")?;
        ensure!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr).trim());
        let commit = String::from_utf8_lossy(&output.stdout).trim().to_string();
        ensure!(is_hash(&commit), "git: it names no commit");
        Ok(commit)
    }

    /// Whether it has the revision and no update would change what it names: a tag, or a commit in full.
    fn is_settled(&self, revision: &str) -> bool {
        let name = if is_hash(revision) { revision.to_string() } else { format!("refs/tags/{revision}") };
        self.commit(&name).is_ok()
    }
}

pub(super) fn is_hash(text: &str) -> bool {
    [40, 64].contains(&text.len()) && text.chars().all(|c| c.is_ascii_hexdigit())
}

/// A source tree that can be built in another directory.
fn directory(tree: &str) -> Result<PathBuf> {
    let path = Path::new(tree).canonicalize().with_context(|| {
        format!("server.source: cannot enter `{tree}`; for a repository give server.revision")
    })?;
    ensure!(
        path.join("configure").is_file(),
        "server.source: `{tree}` has no `configure`: give PostgreSQL's source tree, or server.revision for a \
         repository without files"
    );
    ensure!(
        !path.join("src/include/pg_config.h").exists(),
        "server.source: `{tree}` was configured in place, which would change the build; run make \
         distclean there"
    );
    expect_own_directory(Path::new(tree))?;
    Ok(path)
}

/// The mirror of a remote repository, as recent as `revision` needs it.
fn mirror(
    address: &str,
    revision: &str,
    builds: &Path,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(String),
) -> Result<Repository> {
    let is_address = address.contains("://") || address.contains('@');
    ensure!(is_address, "server.source: `{address}` is neither a directory nor the address of a repository");
    let maker = Maker::of_what_is_fetched()?;
    let hash = &format!("{:x}", Sha256::digest(address))[..16];
    let name = maker.uid().map_or(hash.to_string(), |uid| format!("{hash}-{uid}"));
    let outer = builds.join("repositories").join(&name);
    let log = &builds.join(format!("{name}.log"));
    trust::make_directory(&builds.join("repositories")).context(UNTRUSTED)?;
    let _lock = lock(&outer.with_extension("lock"), stop, tell)?;
    let home = maker.home(&outer)?;
    let dir = home.as_ref().map_or(outer.clone(), |home| home.join("mirror"));
    let words = || format!("server.source: fetch `{address}`");
    let repository = Repository { dir, git_dir: None, maker, home };
    let (dir, maker, home) = (&repository.dir, &repository.maker, repository.home.as_deref());
    let work_dir = home.unwrap_or(builds);
    if !dir.exists() {
        // It gets its final name when it is complete.
        let passing = Temporary::make(&passing_name(&outer)?, 0o755).with_context(words)?;
        let of_maker = maker.home(passing.path())?;
        let part = of_maker.as_deref().unwrap_or(passing.path()).join("mirror");
        let mut clone = Command::new("git");
        clone.args(["clone", "--mirror", "--", address]).arg(&part);
        maker.prepare(&mut clone, home);
        run(clone, work_dir, log, stop).with_context(words)?;
        maker.act(|| fs::rename(&part, dir)).with_context(|| format!("rename to `{}`", dir.display()))?;
        return Ok(repository);
    }
    if home.is_none() {
        trust::check_directory(dir).context(UNTRUSTED)?;
    }
    if repository.is_settled(revision) {
        return Ok(repository);
    }
    let update = repository.git(&["remote", "update", "--prune"], home);
    if let Err(error) = run(update, work_dir, log, stop) {
        if stop.load(Ordering::Relaxed) || repository.commit(revision).is_err() {
            return Err(error).with_context(words);
        }
        tell(format!("using {revision} as it was when `{address}` was last fetched: {error:#}"));
    }
    Ok(repository)
}

/// The name of a directory for half of a mirror. One that a killed pgdyno left goes first: nobody else has the mirror's lock.
fn passing_name(outer: &Path) -> Result<PathBuf> {
    let path = outer.with_extension(PART);
    ensure!(
        !matches!(temporary::sweep_one(&path), Ok(PathState::Foreign)),
        "`{}` is in the way, and pgdyno did not make it; move it elsewhere, or remove it",
        path.display()
    );
    Ok(path)
}

/// Goes through a directory: all files, links and directories but git's own, in the order of their names.
struct Walk<'a> {
    root: &'a Path,
    /// An empty directory, if the files are to be copied; the hash is then that of the copy.
    to: Option<&'a Path>,
    stop: &'a AtomicBool,
    /// Bytes and entries that are still allowed.
    left: unpack::Bounds,
}

impl Walk<'_> {
    fn new<'a>(root: &'a Path, to: Option<&'a Path>, stop: &'a AtomicBool) -> Walk<'a> {
        Walk { root, to, stop, left: unpack::COMMIT }
    }

    /// Hash of names, kinds and contents.
    fn hash(mut self) -> Result<String> {
        let mut hash = Sha256::new();
        self.dir(Path::new(""), &mut hash)?;
        Ok(format!("{:x}", hash.finalize()))
    }

    fn dir(&mut self, below: &Path, hash: &mut Sha256) -> Result<()> {
        let dir = self.root.join(below);
        let list = || -> io::Result<Vec<OsString>> {
            fs::read_dir(&dir)?.map(|entry| Ok(entry?.file_name())).collect()
        };
        let mut names = list().with_context(|| format!("read `{}`", dir.display()))?;
        names.sort();
        for name in names.iter().filter(|name| *name != ".git") {
            ensure!(!self.stop.load(Ordering::Relaxed), "stopped while building");
            self.entry(&below.join(name), hash)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, hash: &mut Sha256) -> Result<()> {
        let from = self.root.join(path);
        let words = || format!("copy `{}`", from.display());
        let facts = fs::symlink_metadata(&from).with_context(words)?;
        let is_executable = facts.mode() & 0o111 != 0;
        let kind = match facts.file_type() {
            kind if kind.is_dir() => b'd',
            kind if kind.is_symlink() => b'l',
            kind if kind.is_file() => [b'f', b'x'][usize::from(is_executable)],
            // A pipe or a socket is no part of a source, and opening one could block for ever.
            _ => return Ok(()),
        };
        expect_own(&from, &facts)?;
        let size_bytes = if kind == b'd' { 0 } else { facts.len() };
        self.left.take(size_bytes).with_context(words)?;
        hash.update(path.as_os_str().as_encoded_bytes());
        hash.update([0, kind]);
        let to = self.to.map(|to| to.join(path));
        if kind == b'd' {
            to.map(fs::create_dir).transpose().with_context(words)?;
            return self.dir(path, hash);
        }
        let copy = if kind == b'l' { copy_link } else { copy_file };
        copy(&from, to.as_deref(), &facts, hash).with_context(words)
    }
}

fn copy_link(from: &Path, to: Option<&Path>, _: &Metadata, hash: &mut Sha256) -> io::Result<()> {
    let target = fs::read_link(from)?;
    hash_counted(target.as_os_str().as_encoded_bytes(), hash);
    to.map_or(Ok(()), |to| symlink(&target, to))
}

/// Copies a file with its time, which `make` goes by.
fn copy_file(from: &Path, to: Option<&Path>, facts: &Metadata, hash: &mut Sha256) -> io::Result<()> {
    // Bytes beyond the size that was counted mean that it changed while it was copied.
    let text = files::read(from, facts.len())?;
    hash_counted(&text, hash);
    let Some(to) = to else { return Ok(()) };
    let mut copy = files::create_new(to, 0o600)?;
    copy.write_all(&text)?;
    copy.set_modified(facts.modified()?)?;
    let mode = if facts.mode() & 0o111 != 0 { 0o755 } else { 0o644 };
    fs::set_permissions(to, Permissions::from_mode(mode))
}

fn hash_counted(bytes: &[u8], hash: &mut Sha256) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use nix::unistd::geteuid;

    use super::*;

    static GO: AtomicBool = AtomicBool::new(false);

    #[test]
    fn addresses_with_credentials_are_refused_and_not_repeated() {
        let check = |address: &str, is_refused: bool| {
            let refused = check_address(address).err();
            assert_eq!(refused.is_some(), is_refused, "{address}");
            assert!(!refused.unwrap_or_default().contains("S3cret"), "{address}");
        };
        check("https://u:S3cret@h/x.git", true);
        check("https://S3cret@h/x.git", true);
        check("HTTP://S3cret@h", true);
        check("http::https://S3cret@h/x", true);
        check("ssh://git:S3cret@h/x", true);
        check("ssh://git@h:22/x", false);
        check("git@h:x.git", false);
        check("https://h:8080/x@y", false);
        check("https://git.postgresql.org/git/postgresql.git", false);
        check("/home/me/postgres", false);
        let source = SourceTree { tree: "https://u:S3cret@h/x.git", revision: Some("master") };
        let refused = Origin::find(&source, Path::new("/nonexistent"), &GO, &mut |_| {}).unwrap_err();
        assert!(!format!("{refused:#}").contains("S3cret"), "{refused:#}");
    }

    #[test]
    fn as_root_only_a_tree_that_nobody_else_can_change_is_built() {
        if !geteuid().is_root() {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let (tree, file) = (place.path().join("tree"), place.path().join("tree/configure"));
        fs::create_dir(&tree).unwrap();
        fs::write(&file, "#!/bin/sh").unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let refused = || {
            let found = directory(&tree.display().to_string());
            let found = found.and_then(|dir| Origin::Directory(dir).content(&GO));
            found.map(drop).map_err(|error| format!("{error:#}"))
        };
        set(&tree, 0o755);
        set(&file, 0o755);
        refused().unwrap();
        for path in [&tree, &file] {
            set(path, 0o777);
            assert!(refused().unwrap_err().contains("can"), "{refused:?}", refused = refused());
            set(path, 0o755);
            chown(path, Some(1000), None).unwrap();
            let words = refused().unwrap_err();
            assert!(words.contains("belongs to user") && words.contains("chown"), "{words}");
            chown(path, Some(0), None).unwrap();
        }
        refused().unwrap();
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&tree, &link).unwrap();
        directory(&link.display().to_string()).unwrap();
        std::os::unix::fs::lchown(&link, Some(1000), None).unwrap();
        let words = format!("{:#}", directory(&link.display().to_string()).unwrap_err());
        assert!(words.contains("who could redirect it"), "{words}");
    }

    #[test]
    fn a_tree_is_read_up_to_its_bound() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("small"), "one").unwrap();
        Walk::new(place.path(), None, &GO).hash().unwrap();
        // A sparse file: reading it would take all memory.
        fs::File::create(place.path().join("vast")).unwrap().set_len(5 << 40).unwrap();
        let refused = format!("{:#}", Walk::new(place.path(), None, &GO).hash().unwrap_err());
        assert!(refused.contains("vast`") && refused.contains("more than"), "{refused}");
    }

    #[test]
    fn a_copy_has_the_hash_of_what_was_copied_and_pipes_are_left_out() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir_all(from.join("a/.git")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join("a/script"), "one").unwrap();
        symlink("a/script", from.join("link")).unwrap();
        let hash = |root: &Path| Walk::new(root, None, &GO).hash().unwrap();
        let before = hash(&from);
        nix::unistd::mkfifo(&from.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(hash(&from), before);
        assert_eq!(Walk::new(&from, Some(&to), &GO).hash().unwrap(), before);
        assert_eq!(hash(&to), before);
        assert!(!to.join("pipe").exists() && !to.join("a/.git").exists());
        let time = |dir: &Path| fs::metadata(dir.join("a/script")).unwrap().modified().unwrap();
        assert_eq!(time(&from), time(&to));
        fs::set_permissions(from.join("a/script"), Permissions::from_mode(0o755)).unwrap();
        assert_ne!(hash(&from), before, "the executable bit counts");
        static STOP: AtomicBool = AtomicBool::new(true);
        assert!(Walk::new(&from, None, &STOP).hash().is_err());
    }

    #[test]
    fn a_mirror_needs_no_network_for_what_it_has() {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        let there = place.path().join("there");
        fs::create_dir(&there).unwrap();
        let account = crate::user::account::Account::choose().unwrap();
        account.own(&there).unwrap();
        // With the rights of who fetches: git refuses to read a repository that a third user owns.
        let act = |args: &[&str]| {
            let mut command = Command::new("git");
            command.arg("-C").arg(&there).args(args).env("HOME", place.path());
            account.apply(&mut command);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8_lossy(&output.stdout).trim().to_string()
        };
        act(&["init", "-q", "-b", "master"]);
        let commit = |text: &str| {
            let identity = ["-c", "user.name=x", "-c", "user.email=x@x"];
            act(&[&identity[..], &["commit", "-q", "--allow-empty", "-m", text]].concat());
            act(&["rev-parse", "HEAD"])
        };
        let one = commit("one");
        act(&["tag", "v1"]);
        let address = format!("file://{}", there.display());
        let mut told = Vec::new();
        let mut find = |revision: &str| -> Result<String> {
            let source = SourceTree { tree: &address, revision: Some(revision) };
            // A child that another test forks holds the lock until its exec.
            let mut tell = |text: String| told.extend((!text.starts_with("waiting for")).then_some(text));
            match Origin::find(&source, place.path(), &GO, &mut tell)? {
                Origin::Commit { commit, .. } => Ok(commit),
                Origin::Directory(dir) => anyhow::bail!("a directory: {dir:?}"),
            }
        };
        assert_eq!(find("master").unwrap(), one);
        let two = commit("two");
        assert_eq!(find("master").unwrap(), two, "a branch is brought up to date");
        fs::rename(&there, place.path().join("gone")).unwrap();
        assert_eq!(find("v1").unwrap(), one);
        assert_eq!(find(&one).unwrap(), one);
        assert_eq!(find("master").unwrap(), two);
        assert!(find("v2").is_err());
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("using master as it was"), "{told:?}");
    }
}
