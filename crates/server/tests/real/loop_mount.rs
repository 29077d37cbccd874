//! A file system in a file, for tests that need another one than the machine's; removed when dropped.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted file system.
pub(crate) struct LoopMount {
    pub(crate) dir: PathBuf,
}

impl LoopMount {
    /// Creates one with `mkfs` (`mkfs.xfs -q`) in `place`; an error says why this machine does not allow it.
    pub(crate) fn new(place: &Path, bytes: u64, mkfs: &[&str]) -> Result<LoopMount, String> {
        let (image, dir) = (place.join("image"), place.join("mount"));
        let file = std::fs::File::create(&image).map_err(|error| error.to_string())?;
        file.set_len(bytes).map_err(|error| error.to_string())?;
        std::fs::create_dir(&dir).map_err(|error| error.to_string())?;
        run(Command::new(mkfs[0]).args(&mkfs[1..]).arg(&image))?;
        run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&dir))?;
        Ok(LoopMount { dir })
    }
}

impl Drop for LoopMount {
    fn drop(&mut self) {
        if let Err(error) = run(Command::new("umount").arg(&self.dir)) {
            crate::tell(&error.to_string());
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {said}")) }
}
