//! Bytes between the last-level caches and memory, where somebody has mounted the kernel's resource control
//! (/sys/fs/resctrl, Documentation/filesystems/resctrl.rst). Mounts nothing itself.

use std::fs;
use std::path::Path;

use crate::gather::{Backwards, Gather};

/// The metric that comes from it.
pub(crate) const METRIC: &str = "counters.memory_bytes";
pub(crate) const ROOT: &str = "/sys/fs/resctrl";
/// Limit for domains: one for each last-level cache.
const DOMAINS_MAX: usize = 1000;

/// Adds the bytes of each domain so far. A domain whose counter has no number just now is left out of this tick.
///
/// # Errors
/// When there is no counter, with the reason.
pub(crate) fn read(gather: &mut Gather, root: &Path) -> Result<(), String> {
    let data = root.join("mon_data");
    let entries = fs::read_dir(&data).map_err(|error| {
        format!(
            "`{}`: {error}; memory bandwidth needs processors that monitor it, and `mount -t resctrl resctrl {ROOT}`",
            data.display()
        )
    })?;
    let mut n_counters = 0;
    for entry in entries.flatten().take(DOMAINS_MAX) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(domain) = name.strip_prefix("mon_") else { continue };
        let Ok(text) = fs::read_to_string(entry.path().join("mbm_total_bytes")) else { continue };
        n_counters += 1;
        // `Unavailable` and `Error` are answers of the kernel for a while.
        if let Ok(bytes) = text.trim().parse::<u64>() {
            gather.put(METRIC, domain, bytes as f64);
        }
    }
    if n_counters == 0 {
        return Err(format!("`{}` has no mbm_total_bytes: the processors do not count it", data.display()));
    }
    Ok(())
}

/// Why this machine does not count bytes between caches and memory; `None` if it does.
pub(crate) fn lacking() -> Option<String> {
    read(&mut Gather::new(Backwards::Jitter), Path::new(ROOT)).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_each_cache_are_read_and_what_is_not_there_is_named() {
        let root = tempfile::tempdir().unwrap();
        let mut gather = Gather::new(Backwards::Jitter);
        let absent = read(&mut gather, root.path()).unwrap_err();
        assert!(absent.contains("mount -t resctrl"), "{absent}");
        fs::create_dir_all(root.path().join("mon_data/mon_L3_00")).unwrap();
        assert!(read(&mut gather, root.path()).unwrap_err().contains("do not count it"));
        let mut say = |domain: &str, text: &str| {
            let dir = root.path().join("mon_data").join(domain);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("mbm_total_bytes"), text).unwrap();
            read(&mut gather, root.path()).map(|()| gather.take().0)
        };
        say("mon_L3_00", "1000\n").unwrap();
        assert!(say("mon_L3_00", "Unavailable\n").unwrap().is_empty());
        say("mon_L3_01", "7\n").unwrap();
        let values = say("mon_L3_00", "5000\n").unwrap();
        assert_eq!(values["counters.memory_bytes[L3_00]"], 4000.0);
        assert_eq!(values["counters.memory_bytes[L3_01]"], 0.0);
    }
}
