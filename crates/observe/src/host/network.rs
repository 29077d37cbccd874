//! Network interfaces: the part of a tick that comes from `/proc/net/dev`.
//!
//! A packet passes several interfaces of a machine, and each counts it: a VLAN and its device, a bond and its members, a bridge,
//! the virtual cables of containers and the device that leads out. Only one layer is read, so that sums over interfaces are right.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::gather::Gather;

/// The interfaces of this machine, and which of them count.
#[derive(Debug)]
pub(crate) struct Network {
    sys: PathBuf,
    /// Those of the last reading.
    names: Vec<String>,
    counted: BTreeSet<String>,
}

impl Network {
    /// The interfaces that the kernel describes below `sys`, which is `/sys`.
    pub(crate) fn new(sys: &Path) -> Network {
        Network { sys: sys.to_path_buf(), names: Vec::new(), counted: BTreeSet::new() }
    }

    /// Adds the counters of the interfaces that count.
    ///
    /// # Errors
    /// When `/proc/net/dev` cannot be read.
    pub(crate) fn read(&mut self, gather: &mut Gather) -> Result<()> {
        let text = fs::read_to_string("/proc/net/dev").context("cannot read `/proc/net/dev`")?;
        self.put(gather, &text);
        Ok(())
    }

    /// After two lines of headings, `name: ` and 16 numbers: bytes received are the first, bytes sent the ninth (proc(5)).
    fn put(&mut self, gather: &mut Gather, text: &str) {
        let lines = || {
            let lines = text.lines().skip(2).filter_map(|line| line.split_once(':'));
            lines.map(|(name, numbers)| (name.trim(), numbers))
        };
        // Containers come and go.
        if !lines().map(|(name, _)| name).eq(self.names.iter().map(String::as_str)) {
            self.names = lines().map(|(name, _)| name.to_string()).collect();
            self.counted = counted(&self.sys.join("class/net"), &self.names);
        }
        for (name, numbers) in lines().filter(|(name, _)| self.counted.contains(*name)) {
            let numbers: Vec<f64> =
                numbers.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
            if let [received, _, _, _, _, _, _, _, sent, ..] = numbers[..] {
                gather.put("net.received_bytes", name, received);
                gather.put("net.sent_bytes", name, sent);
            }
        }
    }
}

/// The interfaces that count, of which `net` has a directory each: devices, and bonds in place of their members. Where there are
/// none, as in most containers, those below which there is no other.
fn counted(net: &Path, names: &[String]) -> BTreeSet<String> {
    let has = |name: &str, part: &str| net.join(name).join(part).exists();
    let is_above_others = |name: &str| {
        let parts = fs::read_dir(net.join(name)).into_iter().flatten().flatten();
        parts.map(|part| part.file_name()).any(|part| part.to_string_lossy().starts_with("lower_"))
    };
    let is_lowest = |name: &&String| {
        if has(name, "bonding") {
            true
        } else {
            *name != "lo" && !has(name, "bonding_slave") && !is_above_others(name)
        }
    };
    let lowest: Vec<&String> = names.iter().filter(is_lowest).collect();
    let is_device = |name: &&&String| has(name, "device") || has(name, "bonding");
    let devices: BTreeSet<String> = lowest.iter().filter(is_device).map(|name| name.to_string()).collect();
    if devices.is_empty() { lowest.into_iter().cloned().collect() } else { devices }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::Backwards;

    const HEADINGS: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
";

    #[test]
    fn bytes_of_each_interface_are_read_but_not_those_of_loopback() {
        let mut gather = Gather::new(Backwards::Jitter);
        gather.count_new_from_zero();
        let text = format!(
            "{HEADINGS}\
    lo: 97 7 0 0 0 0 0 0 97 7 0 0 0 0 0 0
  eth0:1296 21 0 0 0 0 0 0 8 2 0 0 0 0 0 0
torn0: 1 2
"
        );
        Network::new(Path::new("/nowhere")).put(&mut gather, &text);
        let expected =
            [("net.received_bytes[eth0]".to_string(), 1296.0), ("net.sent_bytes[eth0]".to_string(), 8.0)];
        assert_eq!(gather.take().0, expected.into());
    }

    /// What is read of interfaces that each have these entries in `/sys/class/net`.
    fn read(interfaces: &[(&str, &[&str])]) -> Vec<String> {
        let sys = tempfile::tempdir().unwrap();
        let mut text = HEADINGS.to_string();
        for (name, parts) in interfaces {
            for part in *parts {
                fs::create_dir_all(sys.path().join("class/net").join(name).join(part)).unwrap();
            }
            text.push_str(&format!("{name}: 5 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n"));
        }
        let mut gather = Gather::new(Backwards::Jitter);
        gather.count_new_from_zero();
        Network::new(sys.path()).put(&mut gather, &text);
        let keys = gather.take().0.into_keys();
        let names = keys.filter_map(|key| {
            key.strip_prefix("net.sent_bytes[").and_then(|name| name.strip_suffix(']')).map(str::to_string)
        });
        names.collect()
    }

    #[test]
    fn each_byte_is_counted_once() {
        let bond: &[(&str, &[&str])] = &[
            ("lo", &["queues"]),
            ("eth0", &["device", "master", "bonding_slave", "upper_bond0"]),
            ("eth1", &["device", "master", "bonding_slave", "upper_bond0"]),
            ("bond0", &["bonding", "lower_eth0", "lower_eth1", "upper_bond0.7"]),
            ("bond0.7", &["lower_bond0"]),
        ];
        assert_eq!(read(bond), ["bond0"]);
        let bridge: &[(&str, &[&str])] = &[
            ("eth0", &["device", "master", "brport", "upper_br0"]),
            ("br0", &["bridge", "lower_eth0", "lower_veth1"]),
            ("veth1", &["master", "brport", "upper_br0"]),
            ("docker0", &["bridge", "lower_veth2"]),
            ("veth2", &["master", "brport", "upper_docker0"]),
            ("wg0", &["queues"]),
        ];
        assert_eq!(read(bridge), ["eth0"]);
        let container: &[(&str, &[&str])] = &[("lo", &["queues"]), ("eth0", &["queues"])];
        assert_eq!(read(container), ["eth0"]);
        // The fast path of a virtual machine, of which the synthetic device counts the bytes, too.
        let azure: &[(&str, &[&str])] =
            &[("eth0", &["device", "lower_enP1"]), ("enP1", &["device", "master", "upper_eth0"])];
        assert_eq!(read(azure), ["enP1"]);
    }
}
