//! Bytes between the last-level caches and memory, where somebody has mounted the kernel's resource control
//! (/sys/fs/resctrl, Documentation/filesystems/resctrl.rst). Mounts nothing itself.

use std::fs;
use std::path::Path;

use crate::gather::Gather;

pub(crate) const ROOT: &str = "/sys/fs/resctrl";
/// Limit for domains: one for each last-level cache.
const DOMAINS_MAX: usize = 1000;

/// Adds the bytes of each domain so far.
///
/// # Errors
/// When nothing can be read, with the reason.
pub(crate) fn read(gather: &mut Gather, root: &Path) -> Result<(), String> {
    let data = root.join("mon_data");
    let entries = fs::read_dir(&data).map_err(|error| {
        format!(
            "`{}`: {error}; memory bandwidth needs processors that monitor it, and `mount -t resctrl resctrl {ROOT}`",
            data.display()
        )
    })?;
    let mut n_read = 0;
    for entry in entries.flatten().take(DOMAINS_MAX) {
        let name = entry.file_name().to_string_lossy().into_owned();
        // `Unavailable` and `Error` are answers of the kernel for a while.
        let bytes = fs::read_to_string(entry.path().join("mbm_total_bytes"))
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok());
        if let (Some(bytes), true) = (bytes, name.starts_with("mon_")) {
            gather.put("counters.memory_bytes", &name["mon_".len()..], bytes as f64);
            n_read += 1;
        }
    }
    if n_read == 0 {
        return Err(format!("`{}` has no mbm_total_bytes: the processors do not count it", data.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::Backwards;

    #[test]
    fn the_bytes_of_each_cache_are_read_and_what_is_not_there_is_named() {
        let root = tempfile::tempdir().unwrap();
        let mut gather = Gather::new(Backwards::Jitter);
        let absent = read(&mut gather, root.path()).unwrap_err();
        assert!(absent.contains("mount -t resctrl"), "{absent}");
        let mut say = |domain: &str, text: &str| {
            let dir = root.path().join("mon_data").join(domain);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("mbm_total_bytes"), text).unwrap();
            read(&mut gather, root.path()).map(|()| gather.take().0)
        };
        assert!(say("mon_L3_00", "Unavailable\n").unwrap_err().contains("do not count it"));
        say("mon_L3_00", "1000\n").unwrap();
        say("mon_L3_01", "7\n").unwrap();
        let values = say("mon_L3_00", "5000\n").unwrap();
        assert_eq!(values["counters.memory_bytes[L3_00]"], 4000.0);
        assert_eq!(values["counters.memory_bytes[L3_01]"], 0.0);
    }
}
