//! Build PostgreSQL from source, every version by the same compiler with the same flags, once: what comes of a tree or
//! a commit is kept under a hash of what went in.
//!
//! ```text
//! CACHE/builds/NAME/            what `make install` made, and `pgdyno-build.json`
//! CACHE/builds/NAME.log         what the build said
//! CACHE/builds/repositories/    mirrors of repositories on other machines
//! ```

mod origin;
mod sweep;

use std::env;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Serialize;
use sha2::{Digest, Sha256};

use self::origin::Origin;
pub use self::origin::check_address;
pub use self::sweep::sweep;
use crate::binaries::Binaries;
use crate::fetch::Cache;
use crate::planted;
use crate::spawn::spawn;

/// The compiler whose version is recorded.
const COMPILER: &str = "cc";
/// The compiler's flags: PostgreSQL's own default, said aloud so that no version differs.
const CFLAGS: &str = "-O2";
/// Options of every version's `configure`; one that does not know an option only warns. Nothing that needs a library
/// beyond the C library: what a machine happens to have must not tell builds apart.
const OPTIONS: [&str; 3] = ["--without-readline", "--without-zlib", "--without-icu"];
/// Extensions that pgdyno makes use of.
const EXTENSIONS: [&str; 2] = ["pg_prewarm", "pg_stat_statements"];
/// Variables by which somebody's shell would change the build.
const SHELL_VARIABLES: &str = "CC CXX CPP CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LIBS COPT PROFILE CLANG CONFIG_SITE CPATH \
     C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH LD_RUN_PATH COMPILER_PATH GCC_EXEC_PREFIX MAKEFLAGS MAKEOVERRIDES \
     GNUMAKEFLAGS MAKEFILES MAKELEVEL";
/// Far more than a build takes on one slow processor.
const STEP_DEADLINE: Duration = Duration::from_secs(3600);
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// A build of another pgdyno has four long steps at most.
const LOCK_DEADLINE: Duration = Duration::from_secs(4 * 3600);
const FACTS_FILE: &str = "pgdyno-build.json";

/// What is to be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source<'a> {
    /// A directory, or a git repository here or elsewhere.
    pub tree: &'a str,
    /// Tag, branch or commit of the repository; none for a directory as it is.
    pub revision: Option<&'a str>,
}

/// What went into a build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Recipe {
    tree: String,
    revision: Option<String>,
    /// Hash of the commit, or of all files of the directory.
    content: String,
    compiler: String,
    configure: Vec<String>,
}

/// The binaries of a source, built if they have not been.
///
/// # Errors
/// When there is no such source, what a build needs is missing, the build fails (its last words are told), or `stop` is raised.
pub fn build(
    cache: &Cache,
    source: &Source,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(String),
) -> Result<Binaries> {
    let builds = cache.dir.join("builds");
    fs::create_dir_all(&builds).with_context(|| format!("create `{}`", builds.display()))?;
    let origin = Origin::find(source, &builds, stop, tell)?;
    let recipe = Recipe {
        tree: source.tree.to_string(),
        revision: source.revision.map(str::to_string),
        content: origin.content(stop)?,
        compiler: compiler()?,
        configure: configure_options(),
    };
    let place = Place::of(&builds, &recipe);
    if !place.is_built() {
        // Another pgdyno may be at it; then this one finds the result.
        let _lock = lock(&place.with("lock"), stop, tell)?;
        if !place.is_built() {
            tell(format!("building PostgreSQL from {}: a few minutes, once", words(source)));
            let began = Instant::now();
            make(&place, &origin, &recipe, stop)?;
            tell(format!("built in {:.0} s", began.elapsed().as_secs_f64()));
        }
    }
    Binaries::from_bin_dir(&place.dir.join("bin"))
}

/// The source in words.
pub fn words(source: &Source) -> String {
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

/// Takes from a command what would change a build, or would have git work on another repository.
fn clean_environment(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(changes_builds) {
            command.env_remove(&name);
        }
    }
    // Nobody is there to be asked.
    command.env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0");
}

fn changes_builds(variable: &str) -> bool {
    SHELL_VARIABLES.split(' ').any(|name| name == variable) || variable.starts_with("GIT_")
}

/// Waits until no other pgdyno has the lock; it is kept as long as the file is open.
fn lock(path: &Path, stop: &AtomicBool, tell: &mut dyn FnMut(String)) -> Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
    let file = file.with_context(|| format!("open `{}`", path.display()))?;
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
            "stopped while waiting for another pgdyno, which builds the same"
        );
        ensure!(Instant::now() < end, "another pgdyno keeps `{}` locked; end it", path.display());
        if !is_told {
            tell("waiting for another pgdyno, which builds the same".to_string());
            is_told = true;
        }
        thread::sleep(LOOK_PAUSE);
    }
}

/// Where a build goes.
struct Place {
    dir: PathBuf,
}

impl Place {
    fn of(builds: &Path, recipe: &Recipe) -> Place {
        // Where the content came from does not change what comes of it.
        let text = format!("{}\n{}\n{}", recipe.content, recipe.compiler, recipe.configure.join(" "));
        let revision = recipe.revision.as_deref().unwrap_or("tree");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
        let label: String = revision.chars().map(|c| if is_plain(c) { c } else { '-' }).take(40).collect();
        let hash = format!("{:x}", Sha256::digest(text));
        Place { dir: builds.join(format!("{label}-{}", &hash[..16])) }
    }

    /// The file is written last, and then all of it gets its name.
    fn is_built(&self) -> bool {
        self.dir.join(FACTS_FILE).exists()
    }

    /// The name with another ending beside it.
    fn with(&self, ending: &str) -> PathBuf {
        let mut name = self.dir.as_os_str().to_os_string();
        name.push(format!(".{ending}"));
        PathBuf::from(name)
    }
}

/// Builds in a directory beside the place, and gives it its name when all is there.
fn make(place: &Place, origin: &Origin, recipe: &Recipe, stop: &AtomicBool) -> Result<()> {
    let (work, stage, log) = (place.with("work"), place.with("stage"), place.with("log"));
    for left in [&work, &stage] {
        if left.exists() {
            fs::remove_dir_all(left).with_context(|| format!("remove `{}`", left.display()))?;
        }
    }
    let built = (|| {
        let copied = origin.put(&work, &log, stop)?;
        ensure!(
            copied == recipe.content,
            "server.source: `{}` changed while it was copied; wait until nothing writes there",
            recipe.tree
        );
        let mut configure = Command::new("./configure");
        configure.arg(format!("--prefix={}", place.dir.display())).args(&recipe.configure);
        run(configure, &work, &log, stop)?;
        let n_jobs = thread::available_parallelism().map_or(1, usize::from);
        run(make_command(&["-s", &format!("-j{n_jobs}")]), &work, &log, stop)?;
        let destination = format!("DESTDIR={}", stage.display());
        run(make_command(&["-s", "install", &destination]), &work, &log, stop)?;
        for extension in EXTENSIONS {
            let dir = format!("contrib/{extension}");
            run(make_command(&["-s", "-C", &dir, "install", &destination]), &work, &log, stop)?;
        }
        Ok(())
    })();
    let kept = built.and_then(|()| {
        let made = stage.join(place.dir.strip_prefix("/").unwrap_or(&place.dir));
        fs::write(made.join(FACTS_FILE), serde_json::to_vec_pretty(recipe)?)?;
        fs::rename(&made, &place.dir).with_context(|| format!("rename to `{}`", place.dir.display()))
    });
    // What went wrong is in the log.
    fs::remove_dir_all(&work).ok();
    fs::remove_dir_all(&stage).ok();
    kept
}

/// A build is in nobody's way.
fn make_command(args: &[&str]) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "10", "make"]).args(args);
    command
}

/// Runs one step in `dir`; what it says goes to the end of the log.
fn run(mut command: Command, dir: &Path, log_path: &Path, stop: &AtomicBool) -> Result<()> {
    let name = format!("{:?}", command);
    clean_environment(&mut command);
    let log = OpenOptions::new().create(true).append(true).open(log_path);
    let log = log.with_context(|| format!("open `{}`", log_path.display()))?;
    command.current_dir(dir).stdin(std::process::Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut child = spawn(command, Signal::SIGTERM).with_context(|| format!("cannot start {name}"))?;
    let end = Instant::now() + STEP_DEADLINE;
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
            // It leads a group of its own; its children end with it.
            killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL).ok();
            child.wait().ok();
            bail!(if is_stopped { "stopped while building" } else { "the build does not end" });
        }
        thread::sleep(LOOK_PAUSE);
    }
}

/// What tells why a step failed: lines with an error, else the last ones.
fn last_words(log_path: &Path) -> String {
    let text = String::from_utf8_lossy(&planted::read(log_path).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().rev().take(40).filter(|line| !line.trim().is_empty()).collect();
    let errors: Vec<&str> = lines.iter().copied().filter(|line| line.contains("rror:")).take(3).collect();
    let shown = if errors.is_empty() { lines.into_iter().take(3).collect() } else { errors };
    shown.into_iter().rev().collect::<Vec<_>>().join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    static GO: AtomicBool = AtomicBool::new(false);

    const CONFIGURE: &str = r#"#!/bin/sh
for o in "$@"; do case $o in --prefix=*) echo "PREFIX=${o#--prefix=}" > prefix.mk;; esac; done
echo "$@" > options
"#;
    const MAKEFILE: &str = "include prefix.mk
all:
install:
\tmkdir -p $(DESTDIR)$(PREFIX)/bin
\tcp fake $(DESTDIR)$(PREFIX)/bin/postgres
\tcp fake $(DESTDIR)$(PREFIX)/bin/initdb
\tcp options $(DESTDIR)$(PREFIX)/options
";

    /// A tree that builds in no time and installs scripts that say they are PostgreSQL.
    fn tree(dir: &Path, version: &str) {
        let write = |name: &str, text: &str| {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            crate::binaries::write_program(&path, text);
        };
        write("configure", CONFIGURE);
        write("Makefile", MAKEFILE);
        write("fake", &format!("#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n"));
        for extension in EXTENSIONS {
            write(&format!("contrib/{extension}/Makefile"), "install:\n");
        }
    }

    fn run_git(dir: &Path, args: &[&str]) {
        let identity = ["-c", "user.name=x", "-c", "user.email=x@x"];
        let done = Command::new("git").arg("-C").arg(dir).args(identity).args(args).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    #[test]
    fn each_commit_is_built_once_with_the_same_options() {
        let place = tempfile::tempdir().unwrap();
        let (cache, repository) = (Cache::at(place.path().join("cache")), place.path().join("repository"));
        tree(&repository, "15.1");
        run_git(&repository, &["init", "-q"]);
        run_git(&repository, &["add", "-A"]);
        run_git(&repository, &["commit", "-qm", "one"]);
        run_git(&repository, &["tag", "REL_15_1"]);
        tree(&repository, "15.2");
        run_git(&repository, &["commit", "-qam", "two"]);
        let tree_text = repository.display().to_string();
        let mut told = Vec::new();
        let mut of = |revision: Option<&str>| {
            let source = Source { tree: &tree_text, revision };
            build(&cache, &source, &GO, &mut |text| told.push(text))
        };
        let one = of(Some("REL_15_1")).unwrap();
        let two = of(Some("HEAD")).unwrap();
        assert_eq!((one.version.as_str(), two.version.as_str()), ("15.1", "15.2"));
        let options = |binaries: &Binaries| {
            let text = fs::read_to_string(binaries.bin_dir.parent().unwrap().join("options")).unwrap();
            text.split_whitespace()
                .filter(|word| !word.starts_with("--prefix"))
                .map(str::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(options(&one), options(&two));
        for option in ["CC=cc", "CFLAGS=-O2"] {
            assert!(options(&one).contains(&option.to_string()), "{:?}", options(&one));
        }
        assert_eq!(of(Some("REL_15_1")).unwrap(), one);
        // The directory as it is has a place of its own.
        assert_eq!(of(None).unwrap().version, "15.2");
        assert!(of(Some("REL_99")).unwrap_err().to_string().contains("has no revision `REL_99`"));
        assert!(of(Some("--x")).unwrap_err().to_string().contains("is not a revision"));
        assert_eq!(told.iter().filter(|text| text.starts_with("building")).count(), 3, "{told:?}");
    }

    #[test]
    fn what_would_change_a_build_is_taken_from_the_environment() {
        let check =
            |variable: &str, expected: bool| assert_eq!(changes_builds(variable), expected, "{variable}");
        for variable in ["CC", "CPATH", "MAKEFLAGS", "MAKEOVERRIDES", "LIBS", "GIT_DIR", "GIT_CONFIG_COUNT"] {
            check(variable, true);
        }
        for variable in ["PATH", "HOME", "HTTPS_PROXY", "SSH_AUTH_SOCK"] {
            check(variable, false);
        }
    }

    #[test]
    fn a_wait_for_a_lock_can_be_stopped() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("x.lock");
        static STOP: AtomicBool = AtomicBool::new(true);
        let held = lock(&path, &STOP, &mut |_| {}).unwrap();
        let refused = lock(&path, &STOP, &mut |_| {}).unwrap_err().to_string();
        assert!(refused.contains("stopped while waiting for another pgdyno"), "{refused}");
        drop(held);
        // A wait that nobody stops: a child that another test starts may hold the lock for a moment yet.
        STOP.store(false, Ordering::Relaxed);
        assert!(lock(&path, &STOP, &mut |_| {}).is_ok());
    }

    #[test]
    fn what_cannot_be_built_is_said_with_the_compilers_words() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::at(place.path().join("cache"));
        let dir = place.path().join("tree");
        let refused = |dir: &Path, stop: &AtomicBool| {
            let source = Source { tree: &dir.display().to_string(), revision: None };
            format!("{:#}", build(&cache, &source, stop, &mut |_| {}).unwrap_err())
        };
        assert!(refused(&dir, &GO).contains("for a repository give server.revision"));
        fs::create_dir_all(dir.join("src/include")).unwrap();
        assert!(refused(&dir, &GO).contains("has no `configure`"));
        tree(&dir, "15.1");
        fs::write(dir.join("src/include/pg_config.h"), "").unwrap();
        assert!(refused(&dir, &GO).contains("run make distclean"));
        fs::remove_file(dir.join("src/include/pg_config.h")).unwrap();
        fs::write(dir.join("configure"), "#!/bin/sh\necho 'configure: error: no bison'\nexit 1\n").unwrap();
        let failed = refused(&dir, &GO);
        assert!(failed.contains("configure: error: no bison") && failed.contains(".log"), "{failed}");
        static STOP: AtomicBool = AtomicBool::new(true);
        fs::write(dir.join("configure"), "#!/bin/sh\nsleep 60\n").unwrap();
        assert!(refused(&dir, &STOP).contains("stopped while building"));
        let left = fs::read_dir(place.path().join("cache/builds")).unwrap().flatten();
        let left: Vec<String> = left.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        assert!(left.iter().all(|name| name.ends_with(".log") || name.ends_with(".lock")), "{left:?}");
    }
}
