//! How many huge pages a server's shared memory needs: as the server reports, from 15 on, or as a start shows.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use model::release::{Release, programs};

use crate::cluster::Cluster;
use crate::process::command::server_command;
use crate::process::spawn::output_of;
use crate::running::launch::{OwnServer, StopMode};

/// Huge pages of `page_bytes` that the cluster's server with these settings needs. The server must be stopped.
///
/// # Errors
/// When the server does not report it, or does not start.
pub fn needed(cluster: &Cluster, settings: &BTreeMap<String, String>, page_bytes: u64) -> Result<u64> {
    if Release::new(cluster.binaries.version_num).has(programs::SIZE_IN_HUGE_PAGES) {
        return asked(cluster, settings);
    }
    let mut plain = settings.clone();
    plain.insert("huge_pages".to_string(), "off".to_string());
    let server = OwnServer::start(cluster, &plain)?;
    let peak = peak_bytes(server.pid());
    server.stop(StopMode::Fast)?;
    Ok(peak?.div_ceil(page_bytes))
}

/// `postgres -C shared_memory_size_in_huge_pages` (documentation of 15, Linux Huge Pages). The settings are in the file that
/// each start writes: everybody on the machine can read the arguments of a process, and settings may hold passwords.
fn asked(cluster: &Cluster, settings: &BTreeMap<String, String>) -> Result<u64> {
    cluster.write_settings(settings)?;
    let mut command = server_command(&cluster.binaries.program("postgres"), &cluster.account, &cluster.root);
    command.arg("-D").arg(cluster.data_dir()).args(["-C", "shared_memory_size_in_huge_pages"]);
    let output = output_of(command).context("query `postgres` for the size of its shared memory")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let pages = said.lines().last().and_then(|line| line.trim().parse::<i64>().ok());
    ensure!(
        output.status.success() && pages.is_some_and(|n| n > 0),
        "postgres -C shared_memory_size_in_huge_pages says `{}` {}",
        said.trim(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(pages.unwrap_or_default() as u64)
}

/// The postmaster's peak size, as the documentation advised before 15.
fn peak_bytes(pid: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).context("read the size of the server")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmPeak:"));
    let kb = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kb.context("the kernel does not report the size of the server")? * 1024)
}
