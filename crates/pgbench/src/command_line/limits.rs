//! System limits that a load may exceed.

use model::release::pgbench;
use nix::sys::resource::{Resource, getrlimit};

use crate::compat::Compat;
use crate::messages::Complaint;

/// Rejects more clients than the limit of open files allows, three of which are in use. Since 18 the soft limit does
/// not count: the driver, which opens the connections, raises it.
pub(crate) fn check_open_files(n_clients: u32, compat: Compat) -> Result<(), Complaint> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)
        .map_err(|errno| Complaint::new(format!("getrlimit failed: {}", errno.desc())))?;
    let limit = if compat.has(pgbench::RAISES_FILE_LIMIT) { hard } else { soft };
    let needed = u64::from(n_clients) + 3;
    if limit >= needed {
        return Ok(());
    }
    let message = format!("need at least {needed} open files, but system limit is {limit}");
    let hint = "Reduce number of clients, or use limit/ulimit to increase the system limit.";
    Err(Complaint::new(message).hint(hint))
}
