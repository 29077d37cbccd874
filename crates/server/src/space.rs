//! Free space on a device.

use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Bytes that this process may still write on the device of `path`, or of its nearest directory that exists.
pub fn free_bytes(path: &Path) -> Result<u64> {
    let existing = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let facts = nix::sys::statvfs::statvfs(existing)
        .with_context(|| format!("cannot tell the free space of `{}`", existing.display()))?;
    Ok(facts.blocks_available() as u64 * facts.fragment_size() as u64)
}

/// Refuses when `needed_bytes` would leave less than a twentieth of them free at `path`.
///
/// # Errors
/// Says how much is needed and how much is free.
pub fn require_space(path: &Path, needed_bytes: u64, purpose: &str) -> Result<()> {
    let free = free_bytes(path)?;
    ensure!(
        free >= needed_bytes.saturating_add(needed_bytes / 20),
        "{purpose} needs {} MB at `{}` but {} MB are free; free some space or use another directory",
        needed_bytes >> 20,
        path.display(),
        free >> 20
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_device_has_is_refused_with_both_numbers() {
        let path = Path::new("/nonexistent/below/root");
        assert!(free_bytes(path).unwrap() > 0);
        require_space(path, 1, "a byte").unwrap();
        let error = require_space(path, u64::MAX / 2, "snapshot `x`").unwrap_err().to_string();
        assert!(error.starts_with("snapshot `x` needs ") && error.contains("are free"), "{error}");
    }
}
