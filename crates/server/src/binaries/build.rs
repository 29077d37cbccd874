//! Builds PostgreSQL from source, every version with the same compiler and the same flags, once: the result of a tree
//! or a commit is kept under a hash of its inputs.
//!
//! ```text
//! CACHE/builds/NAME/            the output of `make install`, and `pgdyno-build.json`
//! CACHE/builds/NAME.log         the build's messages
//! CACHE/builds/repositories/    mirrors of remote repositories; as root, in directories of the server's user
//! ```

pub(crate) mod in_use;
mod lacks;
mod maker;
mod origin;
mod own;
mod sweep;

use std::env;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use files::trust;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, killpg};
use nix::sys::stat::{Mode, umask};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use self::lacks::{is_kept, lacks};
use self::origin::Origin;
pub use self::origin::check_address;
pub use self::sweep::sweep;
use crate::binaries::Binaries;
use crate::binaries::fetch::{Cache, RECEIPT_BYTES_MAX, UNTRUSTED, verify_once};
use crate::binaries::tree::TreeListing;
use crate::process::spawn::spawn;
use crate::temporary::{self, PathState, Temporary};
use crate::user::held_dir::remove_tree;
use crate::user::untrusted;

/// The compiler whose version is recorded.
const COMPILER: &str = "cc";
/// The compiler's flags: PostgreSQL's own default, stated so that no version differs.
const CFLAGS: &str = "-O2";
/// Options of every version's `configure`, which only warns of an option that it does not know. None needs a library
/// but the C library: builds must not differ by the libraries that a machine happens to have.
const OPTIONS: [&str; 3] = ["--without-readline", "--without-zlib", "--without-icu"];
/// Extensions that pgdyno uses.
const EXTENSIONS: [&str; 3] = ["pg_prewarm", "pg_stat_statements", "pg_buffercache"];
/// Variables by which somebody's shell would change the build.
const SHELL_VARIABLES: &str = "CC CXX CPP CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LIBS COPT PROFILE CLANG CONFIG_SITE CPATH \
     C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH LD_RUN_PATH COMPILER_PATH GCC_EXEC_PREFIX MAKEFLAGS MAKEOVERRIDES \
     GNUMAKEFLAGS MAKEFILES MAKELEVEL";
/// Far longer than a build takes on one slow processor.
const STEP_DEADLINE: Duration = Duration::from_secs(3600);
/// Longest file that a step may write: a mirror of PostgreSQL's repository is one file of 700 MB.
const FILE_BYTES_MAX: u64 = 32 << 30;
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// Another pgdyno's build has at most four long steps.
const LOCK_DEADLINE: Duration = Duration::from_secs(4 * 3600);
/// How the name of a build of a directory begins.
const TREE: &str = "tree";
pub(crate) const FACTS_FILE: &str = "pgdyno-build.json";

/// A source tree, as the user names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceTree<'a> {
    /// A directory, or a local or remote git repository.
    pub tree: &'a str,
    /// Tag, branch or commit of the repository; `None` builds the directory as it is.
    pub revision: Option<&'a str>,
}

/// The inputs and the result of a build, as recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Recipe {
    tree: String,
    revision: Option<String>,
    /// Hash of the commit, or of all files of the directory.
    content: String,
    compiler: String,
    configure: Vec<String>,
    /// The user whose rights it was built with, if those were not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    maker_uid: Option<u32>,
    /// The installed files; empty in a record of a pgdyno that did not list them: then it is built again.
    #[serde(default)]
    made: TreeListing,
}

/// The binaries of a source, built if they have not been.
///
/// # Errors
/// When there is no such source, a tool is missing, the build fails (with its last messages), or `stop` is raised.
pub fn build(
    cache: &Cache,
    source: &SourceTree,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(String),
) -> Result<Binaries> {
    let builds = trust::make_directory(&cache.dir.join("builds")).context(UNTRUSTED)?;
    check_address(source.tree).map_err(anyhow::Error::msg)?;
    let place = match lacks::settled(&builds, source) {
        Some(place) => place,
        None => find_or_make(source, &builds, stop, tell)?,
    };
    in_use::hold_build(&place.with("lock"))?;
    ensure!(place.is_built()?, "`{}` was just removed to make room; try again", place.dir.display());
    place.verify()?;
    Binaries::from_bin_dir(&place.dir.join("bin"))
}

/// The build of what the source is now, made if there is none.
fn find_or_make(
    source: &SourceTree,
    builds: &Path,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(String),
) -> Result<BuildPlace> {
    let origin = Origin::find(source, builds, stop, tell)?;
    let recipe = Recipe {
        tree: source.tree.to_string(),
        revision: source.revision.map(str::to_string),
        content: origin.content(stop)?,
        compiler: compiler()?,
        configure: configure_options(),
        maker_uid: origin.maker().uid(),
        made: TreeListing::default(),
    };
    let place = BuildPlace::find(builds, &recipe);
    if !place.is_built()? {
        // Another pgdyno may be building it; then this one finds the result.
        let _lock = lock(&place.with("lock"), stop, tell)?;
        if !place.is_built()? {
            tell(format!("building PostgreSQL from {}: a few minutes, once", words(source)));
            let began = Instant::now();
            make(&place, &origin, recipe, stop)?;
            tell(format!("built in {:.0} s", began.elapsed().as_secs_f64()));
        }
    }
    Ok(place)
}

/// The source in words.
pub fn words(source: &SourceTree) -> String {
    match source.revision {
        Some(revision) => format!("`{}` at {revision}", source.tree),
        None => format!("`{}`", source.tree),
    }
}

fn configure_options() -> Vec<String> {
    let options = OPTIONS.iter().map(|option| option.to_string());
    options.chain([format!("CC={COMPILER}"), format!("CFLAGS={CFLAGS}")]).collect()
}

/// The C compiler and its version.
fn compiler() -> Result<String> {
    let mut command = Command::new(COMPILER);
    clean_environment(command.arg("--version"));
    let output = command.output();
    let output =
        output.context("cannot run the C compiler `cc`; install gcc and make to build from source")?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_string())
}

/// Removes from a command's environment whatever would change a build or point git at another repository.
fn clean_environment(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(changes_builds) {
            command.env_remove(&name);
        }
    }
    // There is nobody to answer a prompt.
    command.env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0");
}

fn changes_builds(variable: &str) -> bool {
    SHELL_VARIABLES.split(' ').any(|name| name == variable) || variable.starts_with("GIT_")
}

/// Waits until no other pgdyno has the lock; it is kept as long as the file is open.
fn lock(path: &Path, stop: &AtomicBool, tell: &mut dyn FnMut(String)) -> Result<File> {
    let file = files::lock_file(path).with_context(|| format!("open `{}`", path.display()))?;
    let end = Instant::now() + LOCK_DEADLINE;
    let mut is_told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("lock `{}`", path.display()));
            }
        }
        ensure!(
            !stop.load(Ordering::Relaxed),
            "stopped while waiting for another pgdyno, which is building the same source"
        );
        ensure!(Instant::now() < end, "another pgdyno holds the lock `{}`; end it", path.display());
        if !is_told {
            tell("waiting for another pgdyno, which is building the same source".to_string());
            is_told = true;
        }
        thread::sleep(LOOK_PAUSE);
    }
}

/// The beginning of a build's name, for people.
fn label_of(revision: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
    revision.chars().map(|c| if is_plain(c) { c } else { '-' }).take(40).collect()
}

/// Where a build goes.
struct BuildPlace {
    dir: PathBuf,
}

impl BuildPlace {
    fn find(builds: &Path, recipe: &Recipe) -> BuildPlace {
        // Where the content came from does not change the result.
        let mut text = format!("{}\n{}\n{}", recipe.content, recipe.compiler, recipe.configure.join(" "));
        if let Some(uid) = recipe.maker_uid {
            text.push_str(&format!("\nuid {uid}"));
        }
        let label = label_of(recipe.revision.as_deref().unwrap_or(TREE));
        let hash = format!("{:x}", Sha256::digest(text));
        BuildPlace { dir: builds.join(format!("{label}-{}", &hash[..16])) }
    }

    /// The record is written last; then the whole directory gets its final name.
    fn is_built(&self) -> Result<bool> {
        Ok(self.recipe()?.is_some_and(|recipe| !recipe.made.is_empty()))
    }

    /// The record of what was built here, if its owner can be trusted; `None` if nothing was built.
    fn recipe(&self) -> Result<Option<Recipe>> {
        if matches!(fs::symlink_metadata(&self.dir), Err(error) if error.kind() == io::ErrorKind::NotFound) {
            return Ok(None);
        }
        trust::check_directory(&self.dir).context(UNTRUSTED)?;
        let path = self.dir.join(FACTS_FILE);
        let words =
            || format!("read `{}`; remove `{}`, and it is built again", path.display(), self.dir.display());
        let text = trust::read(&path, RECEIPT_BYTES_MAX).with_context(words)?;
        serde_json::from_slice(&text).with_context(words)
    }

    fn verify(&self) -> Result<()> {
        let tree = self.recipe()?.map(|recipe| recipe.made).unwrap_or_default();
        verify_once(&tree, &self.dir, FACTS_FILE).with_context(|| {
            format!("`{}` is not as it was built; remove it, and it is built again", self.dir.display())
        })
    }

    /// The same path with another file extension.
    fn with(&self, ending: &str) -> PathBuf {
        let mut name = self.dir.as_os_str().to_os_string();
        name.push(format!(".{ending}"));
        PathBuf::from(name)
    }
}

/// Builds in a temporary directory next to the final one, and renames it once it is complete. A directory of that name that
/// is not ours stays.
fn make(place: &BuildPlace, origin: &Origin, mut recipe: Recipe, stop: &AtomicBool) -> Result<()> {
    let (work, log) = (place.with("work"), place.with("log"));
    // Of a pgdyno that was killed: nobody else has the lock of the build.
    let found = temporary::sweep_one(&work);
    ensure!(
        !matches!(found, Ok(PathState::Foreign)),
        "`{}` is in the way, and pgdyno did not make it; move it elsewhere, or remove it",
        work.display()
    );
    if place.dir.exists() {
        remove_tree(&place.dir).with_context(|| format!("remove `{}`", place.dir.display()))?;
    }
    // The server's user may build in it.
    let place_to_work =
        Temporary::make(&work, 0o755).with_context(|| format!("create `{}`", work.display()))?;
    let stage = work.join("stage");
    let made = stage.join(place.dir.strip_prefix("/").unwrap_or(&place.dir));
    let built = (|| {
        let home = origin.maker().home(&work)?;
        let site = match &home {
            Some(home) => {
                Workshop { home: Some(home), source: home.join("source"), stage: home.join("stage") }
            }
            None => Workshop { home: None, source: work.join("source"), stage: stage.clone() },
        };
        site.build(place, origin, &recipe, &log, stop)?;
        let Some(home) = site.home else { return Ok(()) };
        let theirs = site.stage.join(place.dir.strip_prefix("/").unwrap_or(&place.dir));
        origin.maker().take(home, &theirs, &made, &log, stop)
    })();
    let kept = built.and_then(|()| {
        recipe.made = TreeListing::read(&made, FACTS_FILE)?;
        files::replace(&made.join(FACTS_FILE), 0o644, &serde_json::to_vec_pretty(&recipe)?)?;
        fs::rename(&made, &place.dir)
            .and_then(|()| files::sync_parent(&place.dir))
            .with_context(|| format!("rename to `{}`", place.dir.display()))
    });
    // The log says what went wrong.
    drop(place_to_work);
    kept
}

/// The working directories of a build.
struct Workshop<'a> {
    /// Home of the other user who builds, if one does.
    home: Option<&'a Path>,
    source: PathBuf,
    stage: PathBuf,
}

impl Workshop<'_> {
    /// Builds the source and installs it below the stage.
    fn build(
        &self,
        place: &BuildPlace,
        origin: &Origin,
        recipe: &Recipe,
        log: &Path,
        stop: &AtomicBool,
    ) -> Result<()> {
        let copied = origin.put(&self.source, self.home, log, stop)?;
        ensure!(
            copied == recipe.content,
            "server.source: `{}` changed while it was copied; wait until nothing writes there",
            recipe.tree
        );
        let step = |mut command: Command| {
            origin.maker().prepare_code(&mut command, self.home);
            run(command, &self.source, log, stop)
        };
        let mut configure = Command::new("./configure");
        configure.arg(format!("--prefix={}", place.dir.display())).args(&recipe.configure);
        step(configure)?;
        let n_jobs = thread::available_parallelism().map_or(1, usize::from);
        step(make_command(&["-s", &format!("-j{n_jobs}")]))?;
        let destination = format!("DESTDIR={}", self.stage.display());
        step(make_command(&["-s", "install", &destination]))?;
        for extension in EXTENSIONS {
            let dir = format!("contrib/{extension}");
            step(make_command(&["-s", "-C", &dir, "install", &destination]))?;
        }
        Ok(())
    }
}

/// A build runs at low priority, so that it slows nobody down.
fn make_command(args: &[&str]) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "10", "make"]).args(args);
    command
}

/// Runs one step in `dir`; its output is appended to the log.
fn run(command: Command, dir: &Path, log_path: &Path, stop: &AtomicBool) -> Result<()> {
    run_within(STEP_DEADLINE, command, dir, log_path, stop)
}

fn run_within(
    deadline: Duration,
    mut command: Command,
    dir: &Path,
    log_path: &Path,
    stop: &AtomicBool,
) -> Result<()> {
    let name = command.get_program().display().to_string();
    let name = command.get_args().fold(name, |name, arg| format!("{name} {}", arg.display()));
    confine(&mut command);
    let log = files::open_with(log_path, OpenOptions::new().create(true).append(true));
    let log = log.with_context(|| format!("open `{}`", log_path.display()))?;
    command.current_dir(dir).stdin(std::process::Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut child = spawn(command, Signal::SIGTERM).with_context(|| format!("cannot start {name}"))?;
    let end = Instant::now() + deadline;
    loop {
        if let Some(status) = child.try_wait().context("wait for a step of the build")? {
            ensure!(
                status.success(),
                "{name} failed: {}; see `{}`",
                last_words(log_path),
                log_path.display()
            );
            return Ok(());
        }
        let is_stopped = stop.load(Ordering::Relaxed);
        if is_stopped || Instant::now() >= end {
            // It leads its own process group, so that its children end with it.
            killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL).ok();
            child.wait().ok();
            ensure!(!is_stopped, "stopped while building");
            bail!("{name} did not end within {} s; see `{}`", deadline.as_secs(), log_path.display());
        }
        thread::sleep(LOOK_PAUSE);
    }
}

/// Limits the size of the files that a step writes, and makes them writable only by us.
fn confine(command: &mut Command) {
    let in_child = || {
        umask(Mode::from_bits_truncate(0o022));
        setrlimit(Resource::RLIMIT_FSIZE, FILE_BYTES_MAX, FILE_BYTES_MAX).map_err(io::Error::from)
    };
    // SAFETY: between fork and exec only async-signal-safe functions may be called; these are umask(2) and
    // setrlimit(2).
    unsafe { command.pre_exec(in_child) };
}

/// Lines of the log that explain why a step failed: those with an error, else the last ones.
fn last_words(log_path: &Path) -> String {
    let text = untrusted::read_output(log_path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(40).filter(|line| !line.trim().is_empty()).collect();
    let errors: Vec<&str> = lines.iter().copied().filter(|line| line.contains("rror:")).take(3).collect();
    let shown = if errors.is_empty() { lines.into_iter().take(3).collect() } else { errors };
    shown.into_iter().rev().collect::<Vec<_>>().join(" / ")
}

#[cfg(test)]
mod tests;
