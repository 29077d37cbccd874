//! Parses Prometheus' text format and maps node_exporter's counters to our table of metrics. Pure.
//!
//! Source: Prometheus, exposition formats (text format 0.0.4); node_exporter's collectors `cpu`, `diskstats`, `netdev`,
//! `meminfo`.

use std::collections::BTreeMap;

use model::experiment::target::{ExporterMetric, ExporterSamples};
use model::telemetry::metric::{self, MetricKind};

use crate::host::device::is_disk;

/// One sample of an exposition.
#[derive(Debug, Clone, PartialEq)]
struct Line<'a> {
    name: &'a str,
    labels: BTreeMap<&'a str, String>,
    value: f64,
}

/// A reading for our table: metric, instance, and value, which is absolute for counters.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CounterReading {
    pub(crate) metric: &'static str,
    pub(crate) instance: String,
    pub(crate) value: f64,
    /// Whether the value is a rate per second of the counter instead.
    pub(crate) per_second: bool,
}

/// The key of a mapping for the share of all processors that is busy, and the metrics that it becomes.
const BUSY: &str = "cpu.busy";
const BUSY_AND_IDLE: [&str; 2] = ["remote.cpu.user", "remote.cpu.idle"];
/// The instance of sums over all instances.
const ALL: &str = "all";

/// Our metrics that the user says the exporter has under other names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mapping {
    rows: Vec<(&'static str, ExporterSamples)>,
    /// Samples with the share of all processors that is busy.
    busy: Option<ExporterSamples>,
}

impl Mapping {
    /// Resolves the keys of `[target.exporter.metrics]`.
    ///
    /// # Errors
    /// Names the key that is none of our metrics, or what is wrong with what it says.
    pub fn new(metrics: &BTreeMap<String, ExporterMetric>) -> Result<Mapping, String> {
        let mut mapping = Mapping::default();
        for (key, said) in metrics {
            let samples = said.samples();
            if samples.name.is_empty()
                || samples.name.contains(|c: char| c.is_whitespace() || "{}".contains(c))
            {
                return Err(format!("`{key}`: `{}` is not the name of a metric", samples.name));
            }
            if !samples.scale.unwrap_or(1.0).is_finite() {
                return Err(format!("`{key}`: scale is not a number"));
            }
            if key == BUSY {
                if !samples.per_second || samples.instance.is_some() {
                    return Err(format!(
                        "`{key}` is a share between 0 and 1 of all processors: say per_second = true, and no instance"
                    ));
                }
                mapping.busy = Some(samples);
                continue;
            }
            let row = metric::find(&format!("remote.{key}")).ok_or_else(|| {
                let names = metric::METRICS.iter().filter_map(|metric| metric.name.strip_prefix("remote."));
                format!("`{key}` is none of {BUSY}, {}", names.collect::<Vec<_>>().join(", "))
            })?;
            if samples.per_second && row.kind == MetricKind::Gauge {
                return Err(format!("`{key}` is a level, not a rate per second"));
            }
            if samples.instance.is_some() && row.instance.is_empty() {
                return Err(format!("`{key}` has no instances"));
            }
            mapping.rows.push((row.name, samples));
        }
        Ok(mapping)
    }

    fn replaces(&self, metric: &str) -> bool {
        self.rows.iter().any(|(row, _)| *row == metric)
            || self.busy.is_some() && metric.starts_with("remote.cpu.")
    }

    /// Adds what `line` says to the sums by metric, instance and kind.
    fn take(&self, line: &Line, sums: &mut BTreeMap<(&'static str, String, bool), f64>) {
        for (row, samples) in self.rows.iter().filter(|(_, samples)| is_of(samples, line)) {
            let has_instances = metric::find(row).is_some_and(|row| !row.instance.is_empty());
            let instance = match &samples.instance {
                Some(label) => line.labels.get(label.as_str()).cloned().unwrap_or_default(),
                None => ALL.to_string(),
            };
            let instance = if has_instances { instance } else { String::new() };
            let sum = sums.entry((row, instance, samples.per_second)).or_default();
            *sum += line.value * samples.scale.unwrap_or(1.0);
        }
        if let Some(samples) = self.busy.as_ref().filter(|samples| is_of(samples, line)) {
            let busy = (line.value * samples.scale.unwrap_or(1.0)).clamp(0.0, 1.0);
            for (row, share) in BUSY_AND_IDLE.into_iter().zip([busy, 1.0 - busy]) {
                sums.insert((row, ALL.to_string(), true), share);
            }
        }
    }
}

fn is_of(samples: &ExporterSamples, line: &Line) -> bool {
    line.name == samples.name
        && samples.labels.iter().all(|(label, value)| line.labels.get(label.as_str()) == Some(value))
}

/// Counters of node_exporter that correspond to one metric: its name, our metric, and the label with the instance.
const ROWS: [(&str, &str, &str); 11] = [
    ("node_disk_reads_completed_total", "remote.disk.reads", "device"),
    ("node_disk_writes_completed_total", "remote.disk.writes", "device"),
    ("node_disk_flush_requests_total", "remote.disk.flushes", "device"),
    ("node_disk_read_bytes_total", "remote.disk.read_bytes", "device"),
    ("node_disk_written_bytes_total", "remote.disk.write_bytes", "device"),
    ("node_disk_read_time_seconds_total", "remote.disk.read_time", "device"),
    ("node_disk_write_time_seconds_total", "remote.disk.write_time", "device"),
    ("node_disk_io_time_seconds_total", "remote.disk.busy_time", "device"),
    ("node_network_receive_bytes_total", "remote.net.received_bytes", "device"),
    ("node_network_transmit_bytes_total", "remote.net.sent_bytes", "device"),
    ("node_memory_MemAvailable_bytes", "remote.memory.available", ""),
];
/// Counter of processor time by processor and mode.
const CPU: &str = "node_cpu_seconds_total";

/// The readings in a scrape, under node_exporter's names and those of `mapping`, which come first.
pub(crate) fn readings(text: &str, mapping: &Mapping) -> Vec<CounterReading> {
    let mut found = Vec::new();
    let mut sums = BTreeMap::new();
    let mut cpus: BTreeMap<(&'static str, String), f64> = BTreeMap::new();
    for line in text.lines().filter_map(parse) {
        mapping.take(&line, &mut sums);
        if line.name == CPU {
            let mode = line.labels.get("mode").and_then(|mode| cpu_row(mode));
            let mode = mode.filter(|row| !mapping.replaces(row));
            if let Some((row, cpu)) = mode.zip(line.labels.get("cpu")) {
                *cpus.entry((row, format!("cpu{cpu}"))).or_default() += line.value;
            }
            continue;
        }
        let Some((_, metric, label)) = ROWS.iter().find(|(name, ..)| *name == line.name) else { continue };
        let instance = line.labels.get(label).cloned().unwrap_or_default();
        let is_device = instance != "lo" && (!metric.starts_with("remote.disk.") || is_disk(&instance));
        if mapping.replaces(metric) || label.is_empty() != instance.is_empty() || !is_device {
            continue;
        }
        found.push(CounterReading { metric, instance, value: line.value, per_second: false });
    }
    let cpus = cpus.into_iter().map(|((metric, instance), value)| ((metric, instance, false), value));
    found.extend(cpus.chain(sums).map(|((metric, instance, per_second), value)| CounterReading {
        metric,
        instance,
        value,
        per_second,
    }));
    found
}

/// Our metric for a mode, as for `/proc/stat` on this machine. `user` includes guest time.
fn cpu_row(mode: &str) -> Option<&'static str> {
    Some(match mode {
        "user" | "nice" => "remote.cpu.user",
        "system" | "irq" | "softirq" => "remote.cpu.system",
        "iowait" => "remote.cpu.iowait",
        "steal" => "remote.cpu.steal",
        "idle" => "remote.cpu.idle",
        _ => return None,
    })
}

/// Parses `name{label="value",...} 1.5 timestamp`; `None` for comments, torn lines, and values that are not finite.
fn parse(line: &str) -> Option<Line<'_>> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        (labels, rest) = label_set(inner)?;
    }
    let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
    value.is_finite().then_some(Line { name, labels, value })
}

/// The labels up to the closing brace, and the rest. Values escape `\\`, `\"` and `\n`.
fn label_set(mut rest: &str) -> Option<(BTreeMap<&str, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, after) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next()? {
                (at, '"') => break at + 1,
                (_, '\\') => value.push(match chars.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, c) => value.push(c),
            }
        };
        labels.insert(name.trim(), value);
        rest = &after[end..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, labels and value.
    type Expected<'a> = (&'a str, &'a [(&'a str, &'a str)], f64);

    #[test]
    fn lines_are_read_with_their_labels() {
        let check = |line: &str, expected: Option<Expected>| {
            let read = parse(line);
            let read = read.as_ref().map(|line| {
                let labels: Vec<(&str, &str)> = line.labels.iter().map(|(k, v)| (*k, v.as_str())).collect();
                (line.name, labels, line.value)
            });
            assert_eq!(read, expected.map(|(name, labels, value)| (name, labels.to_vec(), value)), "{line}");
        };
        check("up 1", Some(("up", &[], 1.0)));
        check("a{b=\"c\",d=\"e f\"} 1.5e3 1700000000000", Some(("a", &[("b", "c"), ("d", "e f")], 1500.0)));
        check(r#"a{b="x\"}\\y",} 2"#, Some(("a", &[("b", r#"x"}\y"#)], 2.0)));
        check("# HELP a b", None);
        check("a NaN", None);
        check("a{b=\"c", None);
        check("a{b=\"c\"}", None);
        check("", None);
    }

    #[test]
    fn processors_disks_and_networks_become_our_metrics() {
        let text = "node_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 10\nnode_cpu_seconds_total{cpu=\"0\",mode=\"nice\"} 1\n\
                    node_cpu_seconds_total{cpu=\"0\",mode=\"steal\"} 0.5\nnode_disk_read_bytes_total{device=\"sda\"} 4096\n\
                    node_disk_read_bytes_total{device=\"loop0\"} 1\nnode_network_transmit_bytes_total{device=\"eth0\"} 7\n\
                    node_network_transmit_bytes_total{device=\"lo\"} 9\n\
                    node_network_transmit_bytes_total{device=\"lowpan0\"} 8\nnode_disk_read_bytes_total{device=\"zram0\"} 1\n\
                    node_memory_MemAvailable_bytes 5\npg_up 1\n";
        let mut read: Vec<(String, f64)> = readings(text, &Mapping::default())
            .into_iter()
            .map(|reading| (format!("{} {}", reading.metric, reading.instance), reading.value))
            .collect();
        read.sort_by(|a, b| a.0.cmp(&b.0));
        let expected = [
            ("remote.cpu.steal cpu0", 0.5),
            ("remote.cpu.user cpu0", 11.0),
            ("remote.disk.read_bytes sda", 4096.0),
            ("remote.memory.available ", 5.0),
            ("remote.net.sent_bytes eth0", 7.0),
            ("remote.net.sent_bytes lowpan0", 8.0),
        ];
        assert_eq!(read, expected.map(|(name, value)| (name.to_string(), value)));
        assert_eq!(readings("<html>not found</html>", &Mapping::default()), []);
    }

    #[test]
    fn metrics_under_other_names_become_ours() {
        let rows = r#"
            "disk.read_bytes" = {name = "rds_read", labels = {db = "a"}, scale = 1024, per_second = true}
            "disk.writes" = {name = "agent_writes", instance = "disk"}
            "cpu.busy" = {name = "rds_cpu_percent", scale = 0.01, per_second = true}
        "#;
        let mapping = Mapping::new(&toml::from_str(rows).unwrap()).unwrap();
        let text = "rds_read{db=\"a\"} 4\nrds_read{db=\"b\"} 8\nagent_writes{disk=\"x\"} 1\n\
                    agent_writes{disk=\"x\",part=\"2\"} 2\nrds_cpu_percent 25\n\
                    node_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 10\n\
                    node_disk_writes_completed_total{device=\"x\"} 99\nnode_memory_MemAvailable_bytes 5\n";
        let read: Vec<String> = readings(text, &mapping)
            .into_iter()
            .map(|r| {
                let per_second = if r.per_second { " a second" } else { "" };
                format!("{} {} {}{per_second}", r.metric, r.instance, r.value)
            })
            .collect();
        let expected = [
            "remote.memory.available  5",
            "remote.cpu.idle all 0.75 a second",
            "remote.cpu.user all 0.25 a second",
            "remote.disk.read_bytes all 4096 a second",
            "remote.disk.writes x 3",
        ];
        assert_eq!(read, expected);
    }
}
