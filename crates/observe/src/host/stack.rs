//! Describes in words what block devices are built from (RAID, encryption, volumes, disk attachment), and the NUMA
//! nodes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The topmost device and its components: `dm-0 (LUKS) on md0 (raid1) on nvme0n1 (NVMe over pcie), nvme1n1 (...)`.
pub(crate) fn words(sys: &Path, device: &str, below: &[String]) -> String {
    let (layers, disks): (Vec<&String>, Vec<&String>) = below.iter().partition(|name| is_layer(name));
    let mut parts = vec![one(sys, device)];
    parts.extend(layers.into_iter().map(|name| one(sys, name)));
    let disks: Vec<String> = disks.into_iter().map(|name| one(sys, name)).collect();
    if !disks.is_empty() {
        parts.push(disks.join(", "));
    }
    parts.join(" on ")
}

fn is_layer(name: &str) -> bool {
    name.starts_with("dm-") || name.starts_with("md")
}

fn one(sys: &Path, name: &str) -> String {
    let of = |file: &str| {
        let text = fs::read_to_string(sys.join("block").join(name).join(file)).ok()?;
        Some(text.trim().to_string()).filter(|text| !text.is_empty())
    };
    let mapped = |uuid: String| match uuid.split('-').next() {
        Some("CRYPT") if uuid.contains("LUKS") => "LUKS".to_string(),
        Some("CRYPT") => "encrypted".to_string(),
        Some("LVM") => "LVM".to_string(),
        Some("mpath") => "multipath".to_string(),
        _ => "device mapper".to_string(),
    };
    let kind = if name.starts_with("md") {
        of("md/level")
    } else if name.starts_with("dm-") {
        of("dm/uuid").map(mapped)
    } else if name.starts_with("loop") {
        of("loop/backing_file").map(|file| format!("file {file}"))
    } else if name.starts_with("nvme") {
        // Below the namespace: pcie, or tcp, rdma and fc for network volumes.
        Some(format!(
            "NVMe over {}",
            of("device/transport").unwrap_or_else(|| "an unknown transport".to_string())
        ))
    } else if name.starts_with("vd") {
        Some("virtio".to_string())
    } else {
        of("device/vendor")
    };
    let model = of("device/model");
    let said: Vec<String> = [kind, model].into_iter().flatten().collect();
    if said.is_empty() { name.to_string() } else { format!("{name} ({})", said.join(", ")) }
}

/// Processors, memory and distances of each NUMA node, if there are several.
pub(crate) fn numa_nodes(sys: &Path) -> BTreeMap<String, String> {
    let nodes = sys.join("devices/system/node");
    let mut facts = BTreeMap::new();
    for entry in fs::read_dir(&nodes).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_node = name.strip_prefix("node").is_some_and(|rest| rest.parse::<u32>().is_ok());
        if !is_node {
            continue;
        }
        let of =
            |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default().trim().to_string();
        let memory = of("meminfo");
        let kb = memory.lines().find(|line| line.contains("MemTotal:"));
        let kb: u64 = kb.and_then(|line| line.split_whitespace().nth(3)?.parse().ok()).unwrap_or_default();
        let text = format!("processors {}, {} MB, distances {}", of("cpulist"), kb / 1024, of("distance"));
        facts.insert(format!("numa_{name}"), text);
    }
    // For a single node, the rest of the record says everything.
    if facts.len() < 2 { BTreeMap::new() } else { facts }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_and_nodes_are_described_in_words() {
        let sys = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("block/dm-0/dm/uuid", "CRYPT-LUKS2-abc-name\n"),
            ("block/md0/md/level", "raid1\n"),
            ("block/nvme0n1/device/transport", "pcie\n"),
            ("block/nvme0n1/device/model", "Fast Disk\n"),
            ("block/nvme1n1/device/transport", "tcp\n"),
            ("block/sda/size", "1\n"),
            ("devices/system/node/node0/cpulist", "0-3\n"),
            (
                "devices/system/node/node0/meminfo",
                "Node 0 MemTotal:       2048000 kB\nNode 0 MemFree: 1 kB\n",
            ),
            ("devices/system/node/node0/distance", "10 20\n"),
            ("devices/system/node/node1/cpulist", "4-7\n"),
            ("devices/system/node/power/x", ""),
        ] {
            let path = sys.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let below: Vec<String> = ["md0", "nvme0n1", "nvme1n1"].map(str::to_string).into();
        assert_eq!(
            words(sys.path(), "dm-0", &below),
            "dm-0 (LUKS) on md0 (raid1) on nvme0n1 (NVMe over pcie, Fast Disk), nvme1n1 (NVMe over tcp)"
        );
        assert_eq!(words(sys.path(), "sda", &[]), "sda");
        let nodes = numa_nodes(sys.path());
        assert_eq!(nodes["numa_node0"], "processors 0-3, 2000 MB, distances 10 20");
        assert_eq!(nodes.len(), 2);
        fs::remove_dir_all(sys.path().join("devices/system/node/node1")).unwrap();
        assert!(numa_nodes(sys.path()).is_empty());
    }
}
