//! The process of this machine that answers at an address: a pooler or a proxy, whose processor time is neither the server's nor a
//! stranger's. The kernel's tables of listening sockets say who it is; nothing is sent, and nobody is asked.

use std::fs;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::path::Path;

use procfs::net::{TcpState, UnixState};
use procfs::process::FDTarget;
use wire::Host;

/// More generations than any process has.
const GENERATIONS_MAX: usize = 64;

/// The process that answers at `host`, unless it is the server, started us, or is on another machine. `None` also if this user may
/// not see whose sockets are whose: of other users' processes only root does.
pub fn between(host: &Host, postmaster_pid: Option<i32>) -> Option<i32> {
    let inode = match host.socket_path() {
        Some(path) => listens_on_path(&path),
        None => listens_on_port(host.hostaddr.as_deref().unwrap_or(&host.host), host.port),
    }?;
    let pid = first_of_its_name(owner_of(inode)?);
    let is_server = postmaster_pid == Some(pid) || name_of(pid).is_none_or(|name| name == "postgres");
    // What started us has us among its processes.
    let us = i32::try_from(std::process::id()).ok()?;
    (!is_server && pid != us && !ancestors(us).contains(&pid)).then_some(pid)
}

fn listens_on_path(path: &Path) -> Option<u64> {
    let listens = |entry: &procfs::net::UnixNetEntry| {
        entry.state == UnixState::UNCONNECTED && entry.path.as_deref() == Some(path)
    };
    procfs::net::unix().ok()?.into_iter().find(listens).map(|entry| entry.inode)
}

fn listens_on_port(host: &str, port: u16) -> Option<u64> {
    let here: Vec<IpAddr> =
        (host, port).to_socket_addrs().ok()?.map(|address| address.ip()).filter(is_here).collect();
    let mut entries = [procfs::net::tcp(), procfs::net::tcp6()].into_iter().flatten().flatten();
    let listens = |entry: &procfs::net::TcpNetEntry| {
        let ip = entry.local_address.ip().to_canonical();
        let is_meant = ip.is_unspecified() || here.iter().any(|address| address.to_canonical() == ip);
        entry.state == TcpState::Listen && entry.local_address.port() == port && is_meant
    };
    entries.find(|entry| !here.is_empty() && listens(entry)).map(|entry| entry.inode)
}

/// Whether it is an address of this machine: no other can be bound to. No packet is sent.
fn is_here(address: &IpAddr) -> bool {
    UdpSocket::bind((*address, 0)).is_ok()
}

/// The process that has the socket open.
fn owner_of(inode: u64) -> Option<i32> {
    procfs::process::all_processes().ok()?.flatten().find_map(|process| {
        let mut files = process.fd().ok()?.flatten();
        files.any(|file| matches!(file.target, FDTarget::Socket(own) if own == inode)).then_some(process.pid)
    })
}

/// The first ancestor in a row of that name: poolers that have a process for each connection share its listening socket.
fn first_of_its_name(pid: i32) -> i32 {
    let name = name_of(pid);
    let same = ancestors(pid).into_iter().take_while(|ancestor| name_of(*ancestor) == name);
    same.last().unwrap_or(pid)
}

/// Its parent, the parent's parent, and so on.
fn ancestors(pid: i32) -> Vec<i32> {
    let parent = |pid: &i32| {
        let stat = procfs::process::Process::new(*pid).ok()?.stat().ok()?;
        (stat.ppid > 0).then_some(stat.ppid)
    };
    std::iter::successors(parent(&pid), parent).take(GENERATIONS_MAX).collect()
}

/// The name of a process: `pgbouncer`.
fn name_of(pid: i32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_string())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn us() -> i32 {
        i32::try_from(std::process::id()).unwrap()
    }

    #[test]
    fn whoever_listens_is_found_by_port_and_by_path() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost"] {
            assert_eq!(listens_on_port(host, port).and_then(owner_of), Some(us()), "{host}");
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".s.PGSQL.6432");
        let unix = UnixListener::bind(&path).unwrap();
        assert_eq!(listens_on_path(&path).and_then(owner_of), Some(us()));
        drop(tcp);
        drop(unix);
        assert_eq!(listens_on_port("127.0.0.1", port), None);
        assert_eq!(listens_on_path(&path), None);
    }

    #[test]
    fn nobody_here_answers_for_another_machine() {
        let tcp = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        assert!(listens_on_port("127.0.0.1", port).is_some());
        // An address for documents (RFC 5737), which no machine has.
        assert_eq!(listens_on_port("192.0.2.1", port), None);
    }

    #[test]
    fn neither_we_nor_what_started_us_is_a_pooler() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        let host = Host { host: "127.0.0.1".to_string(), port, ..Host::default() };
        assert_eq!(between(&host, None), None);
        assert!(ancestors(us()).contains(&i32::try_from(std::os::unix::process::parent_id()).unwrap()));
    }
}
