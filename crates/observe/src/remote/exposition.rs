//! Parses Prometheus' text format and maps node_exporter's counters to our table of metrics. Pure.
//!
//! Source: Prometheus, exposition formats (text format 0.0.4); node_exporter's collectors `cpu`, `diskstats`, `netdev`,
//! `meminfo`.

use std::collections::BTreeMap;

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

/// The readings in a scrape; empty if it is not node_exporter's.
pub(crate) fn readings(text: &str) -> Vec<CounterReading> {
    let mut found = Vec::new();
    let mut cpus: BTreeMap<(&'static str, String), f64> = BTreeMap::new();
    for line in text.lines().filter_map(parse) {
        if line.name == CPU {
            let mode = line.labels.get("mode").and_then(|mode| cpu_row(mode));
            if let Some((row, cpu)) = mode.zip(line.labels.get("cpu")) {
                *cpus.entry((row, format!("cpu{cpu}"))).or_default() += line.value;
            }
            continue;
        }
        let Some((_, metric, label)) = ROWS.iter().find(|(name, ..)| *name == line.name) else { continue };
        let instance = line.labels.get(label).cloned().unwrap_or_default();
        let is_device = instance != "lo" && (!metric.starts_with("remote.disk.") || is_disk(&instance));
        if label.is_empty() != instance.is_empty() || !is_device {
            continue;
        }
        found.push(CounterReading { metric, instance, value: line.value });
    }
    found.extend(cpus.into_iter().map(|((metric, instance), value)| CounterReading {
        metric,
        instance,
        value,
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
        let mut read: Vec<(String, f64)> = readings(text)
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
        assert_eq!(readings("<html>not found</html>"), []);
    }
}
