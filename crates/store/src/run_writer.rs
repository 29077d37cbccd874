//! Writes the files of a run in progress: each line immediately, with every error returned to the caller.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, anyhow};
use model::load::execution::{Execution, QueryPlan};
use model::load::interval::{HistogramLine, Interval};
use model::run::RunRecord;
use model::run::profile::{ProfileRecord, Stack, fold};
use model::secret::hide_text;
use model::telemetry::event::Event;
use model::telemetry::import::Imported;
use model::telemetry::reading::Tick;

use crate::records::{self, LineFile};
use crate::{hlog, names, server_log, statements};

/// Files of one run. Clones write to the same files; any thread may write at any time.
#[derive(Debug, Clone)]
pub struct RunWriter {
    files: Arc<RunFiles>,
}

#[derive(Debug)]
struct RunFiles {
    dir: PathBuf,
    /// Serializes writers of `run.json`, which would share a temporary file.
    record: Mutex<()>,
    /// In this and the next three: `None` once the run is finished.
    intervals: Mutex<Option<LineFile>>,
    latency: Mutex<Option<LatencyFile>>,
    readings: Mutex<Option<LineFile>>,
    events: Mutex<Option<LineFile>>,
    /// Executions that are recorded by themselves, and the output of an exporter.
    executions: Mutex<LateFile>,
    remote: Mutex<LateFile>,
}

/// A file that most runs do not have.
#[derive(Debug)]
enum LateFile {
    /// Nothing was written: there is no file yet.
    Unused,
    /// Created by the first line.
    Open(LineFile),
    /// The run is finished: nothing more is written.
    Finished,
}

impl LateFile {
    /// The file, which the first call creates in the directory; `None` once the run is finished.
    fn open(&mut self, dir: &Path, name: &str) -> Result<Option<&mut LineFile>> {
        if matches!(self, LateFile::Unused) {
            *self = LateFile::Open(LineFile::open(&dir.join(name))?);
        }
        Ok(match self {
            LateFile::Open(file) => Some(file),
            LateFile::Unused | LateFile::Finished => None,
        })
    }

    /// What was open until now: later lines are refused.
    fn finish(&mut self) -> Option<LineFile> {
        match std::mem::replace(self, LateFile::Finished) {
            LateFile::Open(file) => Some(file),
            LateFile::Unused | LateFile::Finished => None,
        }
    }
}

#[derive(Debug)]
struct LatencyFile {
    file: LineFile,
    /// Start of the load according to the first histogram, nanoseconds since the Unix epoch; the log's own time counts
    /// from there. `None` until the header is written.
    base_unix_ns: Option<u64>,
}

impl RunWriter {
    /// Opens the files of a run in an existing directory.
    pub(crate) fn in_dir(dir: &Path) -> Result<RunWriter> {
        let open = |name: &str| LineFile::open(&dir.join(name));
        let latency = LatencyFile { file: open(names::LATENCY)?, base_unix_ns: None };
        Ok(RunWriter {
            files: Arc::new(RunFiles {
                dir: dir.to_path_buf(),
                record: Mutex::new(()),
                intervals: Mutex::new(Some(open(names::INTERVALS)?)),
                latency: Mutex::new(Some(latency)),
                readings: Mutex::new(Some(open(names::READINGS)?)),
                events: Mutex::new(Some(open(names::EVENTS)?)),
                executions: Mutex::new(LateFile::Unused),
                remote: Mutex::new(LateFile::Unused),
            }),
        })
    }

    /// Directory of the run.
    pub fn dir(&self) -> &Path {
        &self.files.dir
    }

    /// Stores the server's log with the run, with secrets masked.
    pub fn keep_server_log(&self, log: impl Read) -> Result<()> {
        self.keep_log(names::SERVER_LOG, log)
    }

    /// Stores the log of the pooler that pgdyno ran, with secrets masked.
    ///
    /// # Errors
    /// When it cannot be read, or the directory is not writable.
    pub fn keep_pooler_log(&self, log: impl Read) -> Result<()> {
        self.keep_log(names::POOLER_LOG, log)
    }

    fn keep_log(&self, name: &str, log: impl Read) -> Result<()> {
        let path = self.files.dir.join(name);
        let write = |file| server_log::copy(log, file);
        files::replace_by(&path, files::PRIVATE, write)
            .with_context(|| format!("cannot write `{}`", path.display()))
    }

    /// Replaces `run.json`; it is on disk when this returns. Also allowed after `finish`.
    pub fn write_record(&self, record: &RunRecord) -> Result<()> {
        let _one_at_a_time = locked(&self.files.record);
        records::write_record(&self.files.dir.join(names::RUN), record)
    }

    /// Stores a profile; its presence says that the case has one.
    ///
    /// # Errors
    /// When the directory is not writable.
    pub fn keep_profile(&self, record: &ProfileRecord, stacks: &[Stack]) -> Result<()> {
        records::write_whole(&self.files.dir.join(names::STACKS), fold(stacks).as_bytes())?;
        records::write_record(&self.files.dir.join(names::PROFILE), record)
    }

    /// Appends to `intervals.jsonl`.
    pub fn interval(&self, interval: &Interval) -> Result<()> {
        self.append(&self.files.intervals, interval)
    }

    /// Appends the histograms of interval `t` (whole seconds since `go`) to `latency.hlog`.
    pub fn histograms(
        &self,
        t: u32,
        start_unix_ns: u64,
        length_ns: u64,
        histograms: &[HistogramLine],
    ) -> Result<()> {
        if histograms.is_empty() {
            return Ok(());
        }
        let mut latency = locked(&self.files.latency);
        let latency = latency.as_mut().ok_or_else(|| self.is_finished())?;
        let base_unix_ns = latency
            .base_unix_ns
            .unwrap_or_else(|| start_unix_ns.saturating_sub(u64::from(t) * hlog::NS_PER_S));
        let mut text =
            if latency.base_unix_ns.is_none() { hlog::header(base_unix_ns) } else { String::new() };
        let start_ns = start_unix_ns.saturating_sub(base_unix_ns);
        for histogram in histograms {
            hlog::write_line(&mut text, start_ns, length_ns, histogram)?;
        }
        latency.file.append(text.as_bytes())?;
        latency.base_unix_ns = Some(base_unix_ns);
        Ok(())
    }

    /// Appends to `readings.jsonl`. Leaves out values that are not finite: JSON cannot represent them.
    pub fn tick(&self, tick: &Tick) -> Result<()> {
        if tick.values.iter().all(|(_, value)| value.is_finite()) {
            return self.append(&self.files.readings, tick);
        }
        let mut finite = tick.clone();
        finite.values.retain(|_, value| value.is_finite());
        self.append(&self.files.readings, &finite)
    }

    /// Appends to `events.jsonl`.
    pub fn event(&self, event: &Event) -> Result<()> {
        self.append(&self.files.events, event)
    }

    /// Appends to `executions.jsonl`, which only runs with an analytical workload or with an outage have.
    pub fn execution(&self, execution: &Execution) -> Result<()> {
        let mut executions = locked(&self.files.executions);
        let file = executions.open(&self.files.dir, names::EXECUTIONS)?;
        file.ok_or_else(|| self.is_finished())?.append_json(execution)
    }

    /// Appends to `plans.jsonl`; it is on disk when this returns.
    pub fn plans(&self, plans: &[QueryPlan]) -> Result<()> {
        let mut file = LineFile::open(&self.files.dir.join(names::PLANS))?;
        plans.iter().try_for_each(|plan| file.append_json(plan))?;
        file.sync()
    }

    /// Appends the output of an exporter to `remote.prom`, below a comment with the time.
    pub fn scrape(&self, end_unix_ns: u64, text: &str) -> Result<()> {
        let mut remote = locked(&self.files.remote);
        let file = remote.open(&self.files.dir, names::REMOTE)?;
        let file = file.ok_or_else(|| self.is_finished())?;
        let end = if text.ends_with('\n') { "" } else { "\n" };
        file.append(format!("# pgdyno {end_unix_ns}\n{}{end}", hide_text(text)).as_bytes())
    }

    /// Appends to `imports.jsonl`, which most runs do not have; it is on disk when this returns.
    pub fn import(&self, imported: &Imported) -> Result<()> {
        let mut file = LineFile::open(&self.files.dir.join(names::IMPORTS))?;
        file.append_json(imported)?;
        file.sync()
    }

    /// Finishes the run's files: all are on disk, and histograms and readings are compressed; those of a completed run's
    /// statements are also added up. Later appends fail; a second call has no effect. `record` is written after this.
    pub fn finish(&self, record: &RunRecord) -> Result<()> {
        for file in [&self.files.intervals, &self.files.events] {
            if let Some(file) = locked(file).take() {
                file.sync()?;
            }
        }
        if let Some(file) = locked(&self.files.executions).finish() {
            file.sync()?;
        }
        if locked(&self.files.latency).take().is_some() {
            let is_split = statements::split(&self.files.dir, record)
                .with_context(|| format!("cannot add up the statements of run {}", record.spec.run))?;
            if !is_split {
                self.compress(names::LATENCY, names::LATENCY_ZST)?;
            }
        }
        if locked(&self.files.readings).take().is_some() {
            self.compress(names::READINGS, names::READINGS_ZST)?;
        }
        if locked(&self.files.remote).finish().is_some() {
            self.compress(names::REMOTE, names::REMOTE_ZST)?;
        }
        Ok(())
    }

    /// Replaces `plain` by `packed`. At least one of them is complete at any time.
    fn compress(&self, plain: &str, packed: &str) -> Result<()> {
        let plain = self.files.dir.join(plain);
        let pack = || {
            records::write_compressed(&self.files.dir.join(packed), |packed| {
                io::copy(&mut files::open(&plain)?, packed).map(drop)
            })?;
            fs::remove_file(&plain)
        };
        pack().with_context(|| format!("cannot compress `{}`", plain.display()))
    }

    fn append<T: serde::Serialize>(&self, file: &Mutex<Option<LineFile>>, value: &T) -> Result<()> {
        locked(file).as_mut().ok_or_else(|| self.is_finished())?.append_json(value)
    }

    fn is_finished(&self) -> anyhow::Error {
        anyhow!("the run in `{}` is finished; nothing can be added", self.files.dir.display())
    }
}

/// A writer that panicked left the file at the end of a line, or the next one rolls it back: continuing is safe.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use model::experiment::comparison::ComparisonRequest;
    use model::experiment::plan::StateLine;

    use super::*;
    use crate::{ExperimentDir, sample};

    type Write = fn(&RunWriter) -> Result<()>;

    #[test]
    fn a_full_disk_is_reported_to_the_caller_for_every_file() {
        let writes: [(&str, Write); 4] = [
            (names::INTERVALS, |w| w.interval(&sample::interval(0))),
            (names::LATENCY, |w| w.histograms(0, 5_000_000_000, 1_000_000_000, &sample::histograms())),
            (names::READINGS, |w| w.tick(&sample::tick(0))),
            (names::EVENTS, |w| w.event(&sample::event(0))),
        ];
        let dir = tempfile::tempdir().unwrap();
        let writer = RunWriter::in_dir(dir.path()).unwrap();
        for file in [&writer.files.intervals, &writer.files.readings, &writer.files.events] {
            *locked(file) = Some(LineFile::full());
        }
        *locked(&writer.files.latency) = Some(LatencyFile { file: LineFile::full(), base_unix_ns: None });
        for (name, write) in writes {
            let error = format!("{:#}", write(&writer).unwrap_err());
            assert!(error.contains("No space left"), "{name}: {error}");
        }
    }

    #[test]
    fn compressing_that_fails_keeps_the_plain_file() {
        let dir = tempfile::tempdir().unwrap();
        let writer = RunWriter::in_dir(dir.path()).unwrap();
        writer.tick(&sample::tick(0)).unwrap();
        let in_the_way = dir.path().join("readings.jsonl.zst.tmp");
        fs::create_dir(&in_the_way).unwrap();
        assert!(writer.finish(&sample::record(1)).is_err());
        assert!(dir.path().join(names::READINGS).exists());
    }

    #[test]
    fn everything_is_readable_by_its_user_alone_and_contains_no_secret() {
        let root = tempfile::tempdir().unwrap();
        let secret = "host=h password=S3cret";
        let mut plan = sample::plan();
        plan.description = secret.to_string();
        plan.cases[0].server.settings.insert("primary_conninfo".to_string(), secret.to_string());
        let toml = format!("[server.settings]\nprimary_conninfo = \"{secret}\"\n");
        let dir = ExperimentDir::create(&root.path().join("out"), &plan, &toml).unwrap();
        let writer = dir.begin_run(1).unwrap();
        let mut record = sample::record(1);
        record.reason = secret.to_string();
        writer.write_record(&record).unwrap();
        writer
            .event(&Event { text: "ALTER ROLE u PASSWORD 'S3cret'".to_string(), ..sample::event(0) })
            .unwrap();
        writer.interval(&sample::interval(0)).unwrap();
        writer.tick(&sample::tick(0)).unwrap();
        writer.scrape(1, secret).unwrap();
        writer.keep_server_log(secret.as_bytes()).unwrap();
        dir.append_state(&StateLine { reason: secret.to_string(), ..sample::state_line(1) }).unwrap();
        let request = ComparisonRequest { format: 1, command: vec![secret.to_string()], margin: 0.01 };
        dir.write_comparison(&request).unwrap();
        let mut waiting = vec![root.path().join("out")];
        let mut n_files = 0;
        while let Some(path) = waiting.pop() {
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
            if path.is_dir() {
                waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()))
            } else {
                n_files += 1;
                let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                assert!(!text.contains("S3cret"), "{}: {text}", path.display());
            }
        }
        assert_eq!(n_files, 12, "experiment.toml, plan, comparison, state, lock, and seven of the run");
    }

    #[test]
    fn threads_write_whole_lines() {
        let dir = tempfile::tempdir().unwrap();
        let writer = RunWriter::in_dir(dir.path()).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let writer = writer.clone();
                scope.spawn(move || (0..250).for_each(|t| writer.event(&sample::event(t)).unwrap()));
            }
        });
        let text = fs::read_to_string(dir.path().join(names::EVENTS)).unwrap();
        assert_eq!(text.lines().count(), 1000);
        assert!(text.lines().all(|line| serde_json::from_str::<Event>(line).is_ok()));
    }

    #[test]
    fn nothing_is_added_to_a_finished_run_but_its_record() {
        let dir = tempfile::tempdir().unwrap();
        let writer = RunWriter::in_dir(dir.path()).unwrap();
        let other = writer.clone();
        writer.finish(&sample::record(1)).unwrap();
        writer.finish(&sample::record(1)).unwrap();
        assert!(other.tick(&sample::tick(0)).unwrap_err().to_string().contains("is finished"));
        other.write_record(&sample::record(1)).unwrap();
        assert!(!dir.path().join(names::READINGS).exists());
    }

    #[test]
    fn executions_are_kept_until_the_run_is_finished() {
        for n_before in [0, 2] {
            let dir = tempfile::tempdir().unwrap();
            let writer = RunWriter::in_dir(dir.path()).unwrap();
            (0..n_before).for_each(|_| writer.execution(&Execution::default()).unwrap());
            writer.finish(&sample::record(1)).unwrap();
            let error = writer.execution(&Execution::default()).unwrap_err();
            assert!(error.to_string().contains("is finished"), "{error:#}");
            let path = dir.path().join(names::EXECUTIONS);
            let n_lines = fs::read_to_string(&path).map_or(0, |text| text.lines().count());
            assert_eq!((n_lines, path.exists()), (n_before, n_before > 0));
        }
    }

    #[test]
    fn values_that_json_cannot_hold_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let writer = RunWriter::in_dir(dir.path()).unwrap();
        let mut tick = sample::tick(0);
        tick.values.insert("nan", f64::NAN);
        writer.tick(&tick).unwrap();
        let text = fs::read_to_string(dir.path().join(names::READINGS)).unwrap();
        assert_eq!(serde_json::from_str::<Tick>(&text).unwrap(), sample::tick(0));
    }

    #[test]
    fn texts_of_an_exporter_are_kept_unchanged_and_compressed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let writer = RunWriter::in_dir(dir.path()).unwrap();
        assert!(!dir.path().join(names::REMOTE).exists(), "most runs have none");
        writer.scrape(5, "a 1\n").unwrap();
        writer.scrape(6, "a 2").unwrap();
        let text = fs::read_to_string(dir.path().join(names::REMOTE)).unwrap();
        assert_eq!(text, "# pgdyno 5\na 1\n# pgdyno 6\na 2\n");
        writer.finish(&sample::record(1)).unwrap();
        writer.finish(&sample::record(1)).unwrap();
        let packed = fs::File::open(dir.path().join(names::REMOTE_ZST)).unwrap();
        assert_eq!(zstd::decode_all(packed).unwrap(), text.as_bytes());
        assert!(!dir.path().join(names::REMOTE).exists());
        assert!(writer.scrape(7, "").is_err());
    }
}
