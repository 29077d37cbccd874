//! A control group with a CPU quota, for tests of what throttling does. Of version 1 only, as root; there is none
//! elsewhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// Where version 1 has the controller of processors.
const ROOT: &str = "/sys/fs/cgroup/cpu";

/// The group; gone when dropped, with its processes back in the one above.
#[derive(Debug)]
pub struct QuotaGroup(PathBuf);

impl QuotaGroup {
    /// A group that may use so many processors.
    ///
    /// # Errors
    /// Where none can be made: the machine has version 2, or lets nobody.
    pub fn new(processors: f64) -> io::Result<QuotaGroup> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("{ROOT}/pgdyno-test-{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        let group = QuotaGroup(path);
        fs::write(group.0.join("cpu.cfs_quota_us"), format!("{:.0}", processors * 100_000.0))?;
        Ok(group)
    }

    /// The directory of the control group.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Moves a process into it. One that has just ended need not be moved.
    pub fn take(&self, pid: i32) {
        let _ = fs::write(self.0.join("cgroup.procs"), pid.to_string());
    }
}

impl Drop for QuotaGroup {
    fn drop(&mut self) {
        for pid in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = fs::write(format!("{ROOT}/cgroup.procs"), pid);
        }
        // A process that is ending still holds it for a moment.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}
