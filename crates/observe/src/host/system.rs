//! System-wide counters: processors, pressure, memory. Parsers are pure; [`read`] opens the files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use procfs::{FromBufRead, Meminfo};

use crate::gather::Gather;
use crate::host::facts;

/// One directory for each size of huge pages (Documentation/admin-guide/mm/hugetlbpage.rst).
const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages";
const HUGE_PAGES_FREE: &str = "host.memory.huge_pages_free";
/// Processors whose frequency is read.
const PROCESSORS_MAX: u32 = 4096;
/// Frequencies are no longer read when they take longer than this several times in a row: some kernels sleep 10 ms for each
/// processor, and the next tick would come late.
const FREQUENCIES_LIMIT: Duration = Duration::from_millis(50);
const N_SLOW_MAX: u32 = 3;

/// Reads the files of `/proc` and `/sys` that a tick needs, and reports to `missing` why one of them cannot be read.
pub(crate) fn read(gather: &mut Gather, mut missing: impl FnMut(&str, String)) {
    let stat = text("/proc/stat").map(|text| put_stat(gather, &text, procfs::ticks_per_second() as f64));
    if let Err(error) = stat {
        missing("host.cpu", format!("{error:#}"));
    }
    let sizes = Path::new(HUGE_PAGES);
    if let Err(error) = text("/proc/meminfo").and_then(|text| put_memory(gather, &text, sizes)) {
        missing("host.memory", format!("{error:#}"));
    }
    for resource in ["cpu", "io", "memory"] {
        let path = format!("/proc/pressure/{resource}");
        match text(&path) {
            Ok(text) => put_pressure(gather, resource, &text),
            Err(error) => missing(&format!("host.psi.{resource}"), format!("{error:#}")),
        }
    }
}

fn text(path: &str) -> Result<String> {
    fs::read_to_string(Path::new(path)).with_context(|| format!("cannot read `{path}`"))
}

/// Parses `/proc/stat`. The library is not used for this: it mixes up processor numbers when some are offline.
fn put_stat(gather: &mut Gather, text: &str, ticks_per_s: f64) {
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(name) = words.next() else { continue };
        let numbers: Vec<f64> = words.map_while(|word| word.parse().ok()).collect();
        let at = |i: usize| numbers.get(i).copied().unwrap_or_default();
        match name {
            "ctxt" => gather.put("host.context_switches", "", at(0)),
            "procs_running" => gather.put("host.runnable", "", at(0)),
            "procs_blocked" => gather.put("host.blocked", "", at(0)),
            _ if name.len() > 3 && name.starts_with("cpu") => {
                // user nice system idle iowait irq softirq steal guest guest_nice; guest is part of user (proc(5)).
                let times = [
                    ("host.cpu.user", at(0) + at(1)),
                    ("host.cpu.system", at(2) + at(5) + at(6)),
                    ("host.cpu.idle", at(3)),
                    ("host.cpu.iowait", at(4)),
                    ("host.cpu.steal", at(7)),
                ];
                for (metric, ticks) in times {
                    gather.put(metric, name, ticks / ticks_per_s);
                }
            }
            _ => {}
        }
    }
}

fn put_memory(gather: &mut Gather, text: &str, sizes: &Path) -> Result<()> {
    let memory = Meminfo::from_buf_read(text.as_bytes()).context("cannot parse `/proc/meminfo`")?;
    let mut put = |metric: &str, value: Option<u64>| {
        if let Some(value) = value {
            gather.put(metric, "", value as f64);
        }
    };
    put("host.memory.available", memory.mem_available);
    put("host.memory.dirty", Some(memory.dirty));
    put("host.memory.writeback", Some(memory.writeback));
    put("host.memory.cached", Some(memory.cached));
    if !put_huge_pages(gather, sizes)
        && let (Some(n_free), Some(bytes)) = (memory.hugepages_free, memory.hugepagesize)
    {
        gather.put(HUGE_PAGES_FREE, &format!("{}kB", bytes / 1024), n_free as f64);
    }
    Ok(())
}

/// Adds how many huge pages of each size are free; returns whether there is any size. `/proc/meminfo` has the default size alone,
/// and a server may use another one.
fn put_huge_pages(gather: &mut Gather, sizes: &Path) -> bool {
    let mut is_there = false;
    for entry in fs::read_dir(sizes).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let size = name.to_str().and_then(|name| name.strip_prefix("hugepages-"));
        let n_free = fs::read_to_string(entry.path().join("free_hugepages"));
        let n_free = n_free.ok().and_then(|text| text.trim().parse::<f64>().ok());
        if let (Some(size), Some(n_free)) = (size, n_free) {
            gather.put(HUGE_PAGES_FREE, size, n_free);
            is_there = true;
        }
    }
    is_there
}

/// Parses a file of `/proc/pressure`: lines `some` and `full` with the total in microseconds.
fn put_pressure(gather: &mut Gather, resource: &str, text: &str) {
    for line in text.lines() {
        let Some(total) = line.rsplit_once("total=").and_then(|(_, total)| total.trim().parse::<f64>().ok())
        else {
            continue;
        };
        let kind = line.split(' ').next().unwrap_or_default();
        // System-wide, `full` of the processor is always zero, so it is not in the table.
        let metric = format!("host.psi.{resource}.{kind}");
        if model::telemetry::metric::find(&metric).is_some() {
            gather.put(&metric, "", total / 1e6);
        }
    }
}

/// The current frequencies of the processors.
#[derive(Debug)]
pub(crate) struct Frequencies {
    /// The kernel's directory of processors.
    cpus: PathBuf,
    n_slow: u32,
}

impl Frequencies {
    /// Those that the kernel shows below `sys`, which is `/sys`.
    pub(crate) fn new(sys: &Path) -> Frequencies {
        Frequencies { cpus: sys.join("devices/system/cpu"), n_slow: 0 }
    }

    /// Reads those of all processors that are online.
    ///
    /// # Errors
    /// When there are none, or they take too long: then they should not be read again.
    pub(crate) fn read(&mut self, gather: &mut Gather) -> Result<()> {
        let begin = Instant::now();
        let online = fs::read_to_string(self.cpus.join("online")).unwrap_or_default();
        let mut is_there = false;
        for cpu in facts::ranges(&online).flat_map(|(first, last)| first..=last.min(PROCESSORS_MAX)) {
            let path = self.cpus.join(format!("cpu{cpu}/cpufreq/scaling_cur_freq"));
            let khz = fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<f64>().ok());
            if let Some(khz) = khz {
                gather.put("host.cpu.frequency", &format!("cpu{cpu}"), 1e3 * khz);
                is_there = true;
            }
        }
        let took = begin.elapsed();
        ensure!(is_there, "the machine exposes none (cpufreq)");
        self.n_slow = if took > FREQUENCIES_LIMIT { self.n_slow + 1 } else { 0 };
        ensure!(self.n_slow < N_SLOW_MAX, "reading them takes {} ms", took.as_millis());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::Backwards;

    const STAT: &str = "\
cpu  300 30 90 3000 60 6 9 12 100 0
cpu0 100 10 30 1000 20 2 3 4 50 0
cpu2 200 20 60 2000 40 4 6 8 50 0
intr 5 1 2
ctxt 1000
btime 1795160000
processes 77
procs_running 3
procs_blocked 1
softirq 1 2
";

    #[test]
    fn processors_keep_their_numbers_and_times_their_meaning() {
        let mut gather = Gather::new(Backwards::Jitter);
        put_stat(&mut gather, STAT, 100.0);
        let (values, _) = gather.take();
        assert_eq!(values.len(), 2, "only gauges in the first tick: {values:?}");
        put_stat(&mut gather, &STAT.replace("cpu2 200 20 60 2000", "cpu2 250 30 61 2010"), 100.0);
        let (values, _) = gather.take();
        for (key, expected) in [
            ("host.cpu.user[cpu2]", 0.6),
            ("host.cpu.user[cpu0]", 0.0),
            ("host.cpu.system[cpu2]", 0.01),
            ("host.cpu.idle[cpu2]", 0.1),
            ("host.context_switches", 0.0),
            ("host.runnable", 3.0),
            ("host.blocked", 1.0),
        ] {
            assert!((values[key] - expected).abs() < 1e-9, "{key} {values:?}");
        }
    }

    #[test]
    fn pressure_is_read_with_and_without_the_line_full() {
        for text in [
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\n",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
        ] {
            let mut gather = Gather::new(Backwards::Jitter);
            gather.count_new_from_zero();
            put_pressure(&mut gather, "cpu", text);
            assert_eq!(gather.take().0, [("host.psi.cpu.some".to_string(), 2.5)].into());
        }
    }

    #[test]
    fn free_huge_pages_are_counted_by_size_and_by_the_default_one_if_sizes_are_hidden() {
        let sizes = tempfile::tempdir().unwrap();
        let meminfo = "MemTotal: 9 kB\nMemFree: 1 kB\nBuffers: 0 kB\nCached: 3 kB\nSwapCached: 0 kB\nActive: 1 kB\n\
                       Inactive: 1 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\nDirty: 0 kB\nWriteback: 0 kB\nMapped: 0 kB\n\
                       Slab: 0 kB\nCommitted_AS: 1 kB\nVmallocTotal: 1 kB\nVmallocUsed: 0 kB\nVmallocChunk: 0 kB\n\
                       HugePages_Total: 9\nHugePages_Free: 7\nHugepagesize: 2048 kB\n";
        let check = |expected: &[(&str, f64)]| {
            let mut gather = Gather::new(Backwards::Jitter);
            put_memory(&mut gather, meminfo, sizes.path()).unwrap();
            let (values, _) = gather.take();
            let huge = values.iter().filter(|(key, _)| key.starts_with(HUGE_PAGES_FREE));
            let found: Vec<(&str, f64)> = huge.map(|(key, value)| (key.as_str(), *value)).collect();
            assert_eq!(found, expected);
        };
        check(&[("host.memory.huge_pages_free[2048kB]", 7.0)]);
        for (size, n_free) in [("2048kB", "7\n"), ("1048576kB", "2\n")] {
            let dir = sizes.path().join(format!("hugepages-{size}"));
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("free_hugepages"), n_free).unwrap();
        }
        check(&[
            ("host.memory.huge_pages_free[1048576kB]", 2.0),
            ("host.memory.huge_pages_free[2048kB]", 7.0),
        ]);
    }

    #[test]
    fn a_processor_that_is_offline_hides_no_other() {
        let sys = tempfile::tempdir().unwrap();
        let mut gather = Gather::new(Backwards::Jitter);
        let mut frequencies = Frequencies::new(sys.path());
        assert!(frequencies.read(&mut gather).unwrap_err().to_string().contains("exposes none"));
        let cpus = sys.path().join("devices/system/cpu");
        for cpu in [0, 2] {
            let dir = cpus.join(format!("cpu{cpu}/cpufreq"));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("scaling_cur_freq"), "2000000\n").unwrap();
        }
        fs::write(cpus.join("online"), "0,2-3\n").unwrap();
        frequencies.read(&mut gather).unwrap();
        let expected = ["cpu0", "cpu2"].map(|cpu| (format!("host.cpu.frequency[{cpu}]"), 2e9));
        assert_eq!(gather.take().0, expected.into());
    }

    #[test]
    fn this_machine_can_be_read_and_has_idle_time() {
        let mut gather = Gather::new(Backwards::Jitter);
        gather.count_new_from_zero();
        read(&mut gather, |what, reason| assert!(what.starts_with("host.psi"), "{what}: {reason}"));
        let (values, _) = gather.take();
        assert!(values.contains_key("host.cpu.idle[cpu0]"), "{values:?}");
        assert!(values["host.memory.available"] > 1e6);
    }
}
