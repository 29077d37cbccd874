//! Creates the directory of an experiment, and opens it again to continue the experiment.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use model::experiment::comparison::ComparisonRequest;
use model::experiment::plan::{Plan, StateLine};
use model::load::duet::Duet;
use model::run::RunRecord;
use model::run::now::CurrentActivity;
use model::run::profile::ProfileRecord;
use model::secret::{hide_json, hide_text};

use crate::load::{read_plan, read_whole};
use crate::lock::WriteLock;
use crate::names;
use crate::profiles::record_of;
use crate::records::{LineFile, record_text, write_record, write_whole};
use crate::run_writer::RunWriter;
use crate::seal;

/// The directory of an experiment, locked for writing by this process alone.
#[derive(Debug)]
pub struct ExperimentDir {
    path: PathBuf,
    /// Directories that were created for it, the outermost first.
    made: Vec<PathBuf>,
    state: Mutex<LineFile>,
    _lock: WriteLock,
}

/// Default directory of an experiment: `results/2026-11-20-versions-a1b2`.
///
/// `date` is today as `YYYY-MM-DD`; `random` distinguishes experiments of the same name and day.
pub fn default_path(results_root: &Path, name: &str, date: &str, random: u16) -> PathBuf {
    let kept = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = name.chars().take(60).map(kept).collect();
    results_root.join(format!("{date}-{name}-{random:04x}"))
}

impl ExperimentDir {
    /// Creates the directory and writes the experiment file and the plan.
    ///
    /// # Errors
    /// When the directory already contains files, another process is using it, or it is not writable.
    pub fn create(path: &Path, plan: &Plan, experiment_toml: &str) -> Result<ExperimentDir> {
        create(path, &Texts::new(plan, experiment_toml)?, true)
    }

    /// As [`ExperimentDir::create`], of a plan that is made of plans whose authors are unknown: without a seal.
    ///
    /// # Errors
    /// As [`ExperimentDir::create`].
    pub fn create_unsealed(path: &Path, plan: &Plan, experiment_toml: &str) -> Result<ExperimentDir> {
        create(path, &Texts::new(plan, experiment_toml)?, false)
    }

    /// Opens the directory of an experiment to continue the experiment.
    ///
    /// # Errors
    /// When there is no plan that this build can read, or another process is writing to it.
    pub fn open(path: &Path) -> Result<ExperimentDir> {
        expect_ours(path)?;
        read_plan(path)?;
        let lock = WriteLock::take(path)?;
        let state_path = path.join(names::STATE);
        mend_last_line(&state_path)?;
        let state = LineFile::open(&state_path)?;
        Ok(ExperimentDir {
            path: path.to_path_buf(),
            made: Vec::new(),
            state: Mutex::new(state),
            _lock: lock,
        })
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether any run has measured anything; the directory may then not be discarded.
    pub fn has_measurements(&self) -> bool {
        let runs = fs::read_dir(self.path.join(names::RUNS));
        let has_intervals =
            |run: fs::DirEntry| run.path().join(names::INTERVALS).metadata().is_ok_and(|file| file.len() > 0);
        runs.into_iter().flatten().flatten().any(has_intervals)
    }

    /// Removes what was created for an experiment that has no results. Files that others wrote into the directory stay,
    /// and so does what cannot be removed.
    pub fn discard(self) {
        let ExperimentDir { path, made, state, _lock: lock } = self;
        drop(state);
        let _ = fs::remove_dir_all(path.join(names::RUNS));
        let _ = fs::remove_dir_all(path.join(names::PROFILES));
        clear(&path);
        drop(lock);
        for dir in made.iter().rev() {
            let _ = fs::remove_dir(dir);
        }
    }

    /// Appends a line to `state.jsonl`; it is on disk when this returns.
    pub fn append_state(&self, line: &StateLine) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.append_json(line)?;
        state.sync()
    }

    /// Says what happens now. Not forced to disk: it is worth nothing after a power cut, and would disturb the device.
    ///
    /// # Errors
    /// When the directory is not writable.
    pub fn write_now(&self, now: &CurrentActivity) -> Result<()> {
        let path = self.path.join(names::NOW);
        let written = files::temporary_name(&path);
        let write = || -> std::io::Result<()> {
            let mut file = files::create(&written, files::PRIVATE)?;
            file.write_all(hide_json(&serde_json::to_string(now)?).as_bytes())?;
            fs::rename(&written, &path)
        };
        write().with_context(|| format!("cannot write `{}`", path.display()))
    }

    /// Nothing happens any more.
    pub fn clear_now(&self) {
        // A file that stays is older than what has happened since, which readers see.
        let _ = fs::remove_file(self.path.join(names::NOW));
    }

    /// Replaces the experiment file and the plan of an experiment whose servers have moved. If they were sealed, they are again.
    ///
    /// # Errors
    /// When the directory is not writable.
    pub fn amend_plan(&self, plan: &Plan, experiment_toml: &str) -> Result<()> {
        let is_ours = seal::read_sealed(&self.path)?.author.is_us();
        let texts = Texts::new(plan, experiment_toml)?;
        texts.write_experiment(&self.path)?;
        texts.write_plan(&self.path)?;
        if is_ours {
            texts.write_seal(&self.path)?;
        }
        Ok(())
    }

    /// Replaces the record of a run that a dead process began.
    ///
    /// # Errors
    /// When the run's directory does not exist or is not writable.
    pub fn amend_record(&self, record: &RunRecord) -> Result<()> {
        let dir = self.path.join(names::RUNS).join(names::run_dir(record.spec.run));
        write_record(&dir.join(names::RUN), record)
    }

    /// Writes the commits of both sides of a duet.
    ///
    /// # Errors
    /// When the directory is not writable.
    pub fn write_duet(&self, duet: &Duet) -> Result<()> {
        write_record(&self.path.join(names::DUET), duet)
    }

    /// Writes the request that a comparison answers.
    ///
    /// # Errors
    /// When the directory is not writable.
    pub fn write_comparison(&self, request: &ComparisonRequest) -> Result<()> {
        write_record(&self.path.join(names::COMPARISON), request)
    }

    /// Copies the measurements of a run from another results directory, under the record that it has here.
    ///
    /// # Errors
    /// When a file is not a regular one or cannot be read or written.
    pub fn adopt_run(&self, from: &Path, run: u32, record: &RunRecord) -> Result<()> {
        let source = from.join(names::RUNS).join(names::run_dir(run));
        let dir = self.path.join(names::RUNS).join(names::run_dir(record.spec.run));
        copy_files(&source, &dir, &names::MEASUREMENTS)?;
        write_record(&dir.join(names::RUN), record)
    }

    /// Copies the profile of a case from another results directory, for case `here` of this one.
    ///
    /// # Errors
    /// When there is none with samples, and as [`ExperimentDir::adopt_run`].
    pub fn adopt_profile(&self, from: &Path, case: u32, here: u32) -> Result<()> {
        let source = from.join(names::PROFILES).join(names::run_dir(case));
        let record = record_of(from, case)
            .with_context(|| format!("`{}` has no profile that can be read", source.display()))?;
        let dir = self.path.join(names::PROFILES).join(names::run_dir(here));
        copy_files(&source, &dir, &[&names::MEASUREMENTS[..], &[names::RUN, names::STACKS]].concat())?;
        // Its presence says that the case has one.
        write_record(&dir.join(names::PROFILE), &ProfileRecord { case: here, ..record })
    }

    /// Creates the directory of a run and its files. The files of an earlier attempt at the same run are kept as
    /// `0007.cut-1` and no longer read.
    pub fn begin_run(&self, run: u32) -> Result<RunWriter> {
        let dir = self.path.join(names::RUNS).join(names::run_dir(run));
        let make = || -> std::io::Result<()> {
            if dir.exists() {
                let aside = (1..).map(|n: u32| dir.with_extension(format!("cut-{n}"))).find(|p| !p.exists());
                fs::rename(&dir, aside.expect("numbers do not run out before names do"))?;
            }
            files::create_private_dir_all(&dir)?;
            files::sync_parent(&dir)
        };
        make().with_context(|| format!("cannot create directory `{}`", dir.display()))?;
        RunWriter::in_dir(&dir)
    }

    /// Creates the directory of the run that profiles a case. That of an earlier attempt is removed.
    ///
    /// # Errors
    /// When it is not writable.
    pub fn begin_profile(&self, case: u32) -> Result<RunWriter> {
        let dir = self.path().join(names::PROFILES).join(names::run_dir(case));
        let make = || -> std::io::Result<()> {
            if dir.exists() {
                fs::remove_dir_all(&dir)?;
            }
            files::create_private_dir_all(&dir)?;
            files::sync_parent(&dir)
        };
        make().with_context(|| format!("cannot create directory `{}`", dir.display()))?;
        RunWriter::in_dir(&dir)
    }
}

/// The plan and the experiment file, as they are written.
struct Texts {
    plan: String,
    experiment: String,
}

impl Texts {
    fn new(plan: &Plan, experiment_toml: &str) -> Result<Texts> {
        let plan = record_text(plan).context("cannot write the plan")?;
        Ok(Texts { plan, experiment: hide_text(experiment_toml).into_owned() })
    }

    fn write_experiment(&self, path: &Path) -> Result<()> {
        write_whole(&path.join(names::EXPERIMENT), self.experiment.as_bytes())
    }

    fn write_plan(&self, path: &Path) -> Result<()> {
        write_whole(&path.join(names::PLAN), self.plan.as_bytes())
    }

    fn write_seal(&self, path: &Path) -> Result<()> {
        seal::write(path, self.plan.as_bytes(), self.experiment.as_bytes())
    }
}

fn create(path: &Path, texts: &Texts, is_ours: bool) -> Result<ExperimentDir> {
    let made = make_ours(path)?;
    refuse_if_used(path)?;
    let lock = WriteLock::take(path)?;
    // Check again, now that the lock keeps other processes from filling it.
    refuse_if_used(path)?;
    let state = fill(path, texts, is_ours).inspect_err(|_| clear(path))?;
    Ok(ExperimentDir { path: path.to_path_buf(), made, state: Mutex::new(state), _lock: lock })
}

/// Copies those of these files that there are.
fn copy_files(from: &Path, to: &Path, names: &[&str]) -> Result<()> {
    files::create_private_dir_all(to)
        .with_context(|| format!("cannot create directory `{}`", to.display()))?;
    for name in names {
        let path = from.join(name);
        if path.symlink_metadata().is_err() {
            continue;
        }
        let copy = |mut to: fs::File| {
            std::io::copy(&mut files::open(&path)?, &mut to)?;
            Ok(to)
        };
        files::replace_by(&to.join(name), files::PRIVATE, copy)
            .with_context(|| format!("cannot copy `{}` to `{}`", path.display(), to.display()))?;
    }
    Ok(())
}

/// Creates the directory and its missing parents, and returns those that were missing, the outermost first.
pub(crate) fn make_ours(path: &Path) -> Result<Vec<PathBuf>> {
    expect_ours(path)?;
    let missing = path.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists());
    let mut made: Vec<PathBuf> = missing.map(Path::to_path_buf).collect();
    made.reverse();
    files::create_private_dir_all(path)
        .with_context(|| format!("cannot create directory `{}`", path.display()))?;
    // Somebody else may have been quicker.
    expect_ours(path)?;
    Ok(made)
}

/// Root writes results only where nobody else can replace them.
///
/// # Errors
/// Names the directory, and the user to run pgdyno as.
pub fn expect_ours(path: &Path) -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let place = path.ancestors().find(|place| place.exists()).unwrap_or(path);
    ensure!(
        place.is_dir() || !place.exists(),
        "cannot create directory `{}`: `{}` is not a directory",
        path.display(),
        place.display()
    );
    files::trust::check_output(path).with_context(|| not_ours(path))
}

fn not_ours(path: &Path) -> String {
    format!("root does not write results to `{}`; run pgdyno as the user who owns it", path.display())
}

/// Writes a file of a report, as [`write_whole`] does. Root writes it only where nobody else can redirect it.
///
/// # Errors
/// As [`expect_ours`], and when the file is not writable.
pub fn write_report(path: &Path, bytes: &[u8]) -> Result<()> {
    if nix::unistd::geteuid().is_root() {
        files::trust::check_output_file(path).with_context(|| not_ours(path.parent().unwrap_or(path)))?;
    }
    write_whole(path, bytes)
}

/// Writes the first files into an empty directory.
fn fill(path: &Path, texts: &Texts, is_ours: bool) -> Result<LineFile> {
    texts.write_experiment(path)?;
    let runs = path.join(names::RUNS);
    files::create_private_dir_all(&runs)
        .with_context(|| format!("cannot create directory `{}`", runs.display()))?;
    let state = LineFile::open(&path.join(names::STATE))?;
    if is_ours {
        texts.write_seal(path)?;
    }
    // Last, because its presence marks a complete directory.
    texts.write_plan(path)?;
    files::sync_parent(path).with_context(|| format!("cannot write `{}`", path.display()))?;
    Ok(state)
}

/// Removes everything but the runs, so that the directory may be used again.
fn clear(path: &Path) {
    let all = [
        names::EXPERIMENT,
        names::STATE,
        names::COMPARISON,
        names::DUET,
        names::PROOFS,
        names::NOW,
        names::SEAL,
        names::PLAN,
    ];
    for name in all {
        let path = path.join(name);
        let _ = fs::remove_file(files::temporary_name(&path));
        let _ = fs::remove_file(path);
    }
    let _ = fs::remove_dir(path.join(names::RUNS));
}

/// Refuses a directory that contains anything but a lock file, which an interrupted creation may leave.
pub(crate) fn refuse_if_used(path: &Path) -> Result<()> {
    let context = || format!("cannot read directory `{}`", path.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(path).with_context(context)? {
        let name = entry.with_context(context)?.file_name().to_string_lossy().into_owned();
        if name != names::LOCK {
            found.push(name);
        }
    }
    found.sort();
    if found.iter().any(|name| name == names::PLAN) {
        bail!("`{}` already contains an experiment; choose a new or empty directory", path.display());
    }
    if !found.is_empty() {
        let more = if found.len() > 3 { ", ..." } else { "" };
        bail!(
            "`{}` contains files that pgdyno did not write ({}{more}); choose an empty directory",
            path.display(),
            found[..found.len().min(3)].join(", ")
        );
    }
    Ok(())
}

/// Terminates or removes an incomplete last line, so that the next line does not join it.
fn mend_last_line(path: &Path) -> Result<()> {
    let bytes = match read_whole(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    };
    let whole = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    let rest = &bytes[whole..];
    if rest.is_empty() {
        return Ok(());
    }
    let mut mended = bytes[..whole].to_vec();
    if serde_json::from_slice::<StateLine>(rest).is_ok() {
        mended.extend_from_slice(rest);
        mended.push(b'\n');
    }
    write_whole(path, &mended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::read_state;
    use crate::sample;

    fn refused(prepare: impl Fn(&Path)) -> String {
        let dir = tempfile::tempdir().unwrap();
        prepare(dir.path());
        let before = fs::read_dir(dir.path()).unwrap().count();
        let error = ExperimentDir::create(dir.path(), &sample::plan(), "x = 1").unwrap_err().to_string();
        assert_eq!(before, fs::read_dir(dir.path()).unwrap().count(), "a refused directory is not touched");
        error
    }

    #[test]
    fn a_directory_with_other_files_is_refused_and_not_touched() {
        let error = refused(|dir| fs::write(dir.join("a.txt"), "mine").unwrap());
        assert!(
            error.ends_with("contains files that pgdyno did not write (a.txt); choose an empty directory")
        );
        let error = refused(|dir| {
            for name in ["a", "b", "c", "d"] {
                fs::write(dir.join(name), "").unwrap();
            }
        });
        assert!(error.contains("(a, b, c, ...)"), "{error}");
        let error = refused(|dir| fs::write(dir.join(names::EXPERIMENT), "theirs").unwrap());
        assert!(error.contains("(experiment.toml)"), "{error}");
    }

    #[test]
    fn a_directory_with_an_experiment_is_refused_with_a_hint() {
        let error = refused(|dir| drop(ExperimentDir::create(dir, &sample::plan(), "").unwrap()));
        assert!(error.contains("choose a new or empty directory"), "{error}");
    }

    #[test]
    fn a_discarded_directory_is_removed_with_the_parents_created_for_it() {
        let root = tempfile::tempdir().unwrap();
        let create = |name: &str| {
            let dir = ExperimentDir::create(&root.path().join(name), &sample::plan(), "").unwrap();
            dir.begin_run(1).unwrap();
            dir
        };
        create("results/deep").discard();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        let mine = root.path().join("mine");
        fs::create_dir(&mine).unwrap();
        let compared = create("mine");
        let request = ComparisonRequest { format: model::FORMAT, command: Vec::new(), margin: 0.02 };
        compared.write_comparison(&request).unwrap();
        compared.discard();
        assert_eq!(fs::read_dir(&mine).unwrap().count(), 0, "it was there before, and stays");
        let second = create("second");
        fs::write(root.path().join("second/notes.txt"), "").unwrap();
        second.discard();
        assert_eq!(fs::read_dir(root.path().join("second")).unwrap().count(), 1);
    }

    #[test]
    fn a_run_that_was_begun_has_measured_nothing_before_its_first_interval() {
        let root = tempfile::tempdir().unwrap();
        let dir = ExperimentDir::create(&root.path().join("out"), &sample::plan(), "").unwrap();
        assert!(!dir.has_measurements());
        let run = dir.begin_run(1).unwrap();
        assert!(!dir.has_measurements());
        run.interval(&sample::interval(0)).unwrap();
        assert!(dir.has_measurements());
    }

    #[test]
    fn two_writers_do_not_share_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/in");
        let first = ExperimentDir::create(&path, &sample::plan(), "").unwrap();
        let error = ExperimentDir::open(&path).unwrap_err().to_string();
        assert!(error.contains("another pgdyno (pid "), "{error}");
        drop(first);
        ExperimentDir::open(&path).unwrap();
    }

    #[test]
    fn state_goes_on_after_a_torn_last_line() {
        let whole = serde_json::to_string(&sample::state_line(1)).unwrap();
        let cases: [(&str, usize); 4] =
            [("", 1), (&whole[..20], 1), (&whole, 2), (&format!("{whole}\n{{\"t_"), 2)];
        for (left, expected) in cases {
            let dir = tempfile::tempdir().unwrap();
            drop(ExperimentDir::create(dir.path(), &sample::plan(), "").unwrap());
            fs::write(dir.path().join(names::STATE), left).unwrap();
            let again = ExperimentDir::open(dir.path()).unwrap();
            again.append_state(&sample::state_line(2)).unwrap();
            let state = read_state(dir.path());
            assert_eq!((state.len(), state.last()), (expected, Some(&sample::state_line(2))), "{left}");
        }
    }

    #[test]
    fn a_second_attempt_at_a_run_keeps_the_first_aside() {
        let dir = tempfile::tempdir().unwrap();
        let experiment = ExperimentDir::create(dir.path(), &sample::plan(), "").unwrap();
        for _ in 0..3 {
            experiment.begin_run(7).unwrap();
        }
        let mut found: Vec<String> = fs::read_dir(dir.path().join(names::RUNS))
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        assert_eq!(found, ["0007", "0007.cut-1", "0007.cut-2"]);
    }

    #[test]
    fn a_directory_that_could_not_be_filled_is_empty_again() {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path(), &Texts::new(&sample::plan(), "").unwrap(), true).unwrap();
        fs::write(dir.path().join("plan.json.tmp"), "{").unwrap();
        clear(dir.path());
        ExperimentDir::create(dir.path(), &sample::plan(), "").unwrap();
    }

    #[test]
    fn default_paths_are_one_plain_name() {
        for (name, expected) in [
            ("versions", "r/2026-11-20-versions-00ff"),
            ("a/../b c", "r/2026-11-20-a-..-b-c-00ff"),
            ("käse", "r/2026-11-20-k-se-00ff"),
        ] {
            assert_eq!(default_path(Path::new("r"), name, "2026-11-20", 0xff), Path::new(expected));
        }
    }
}
