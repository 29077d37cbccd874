//! The system's limits that stand against a load.

use nix::sys::resource::{Resource, getrlimit};

use crate::pgbench::compat::Compat;
use crate::pgbench::output::log::Complaint;

/// Refuses more clients than files may be open, three of which are taken. Since 18 the soft limit does not count: it is
/// raised (by the driver, which opens the connections).
pub(crate) fn check_open_files(n_clients: u32, compat: Compat) -> Result<(), Complaint> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)
        .map_err(|errno| Complaint::new(format!("getrlimit failed: {}", errno.desc())))?;
    let limit = if compat.raises_file_limit() { hard } else { soft };
    let needed = u64::from(n_clients) + 3;
    if limit >= needed {
        return Ok(());
    }
    let message = format!("need at least {needed} open files, but system limit is {limit}");
    let hint = "Reduce number of clients, or use limit/ulimit to increase the system limit.";
    Err(Complaint::new(message).hint(hint))
}
