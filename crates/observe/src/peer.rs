//! The processes of this machine that answer at an address: a pooler or a proxy, whose processor time is neither the server's nor a
//! stranger's. The kernel's tables of listening sockets say which they are; nothing is sent, and nobody is asked.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::path::Path;

use procfs::net::{TcpState, UnixState};
use procfs::process::FDTarget;
use wire::Host;

/// More generations than any process has.
const GENERATIONS_MAX: usize = 64;

/// The processes that answer at `host`, without the server, what started us, and us; none on another machine. Several share a port
/// (SO_REUSEPORT), or have got their socket from a service manager. None also if this user cannot see whose sockets are whose:
/// of other users' processes only root does.
pub fn between(host: &Host, postmaster_pid: Option<i32>) -> Vec<i32> {
    let inodes = match host.socket_path() {
        Some(path) => listens_on_path(&path),
        None => listens_on_port(host.hostaddr.as_deref().unwrap_or(&host.host), host.port),
    };
    let Ok(us) = i32::try_from(std::process::id()) else { return Vec::new() };
    // What started us has us among its processes.
    let ours = [&[us], &ancestors(us)[..]].concat();
    let is_server =
        |pid: &i32| postmaster_pid == Some(*pid) || name_of(*pid).is_none_or(|name| name == "postgres");

    let owners: BTreeSet<i32> = owners_of(&inodes).into_iter().map(first_of_its_name).collect();
    owners.into_iter().filter(|pid| !is_server(pid) && !ours.contains(pid)).collect()
}

fn listens_on_path(path: &Path) -> Vec<u64> {
    let listens = |entry: &procfs::net::UnixNetEntry| {
        entry.state == UnixState::UNCONNECTED && entry.path.as_deref() == Some(path)
    };
    let entries = procfs::net::unix().into_iter().flatten();
    entries.filter(listens).map(|entry| entry.inode).collect()
}

fn listens_on_port(host: &str, port: u16) -> Vec<u64> {
    let named = (host, port).to_socket_addrs().into_iter().flatten().map(|address| address.ip());
    let here: Vec<IpAddr> = named.filter(is_here).collect();
    let entries = [procfs::net::tcp(), procfs::net::tcp6()].into_iter().flatten().flatten();
    let listens = |entry: &procfs::net::TcpNetEntry| {
        let ip = entry.local_address.ip().to_canonical();
        let is_meant = ip.is_unspecified() || here.iter().any(|address| address.to_canonical() == ip);
        entry.state == TcpState::Listen && entry.local_address.port() == port && is_meant
    };
    entries.filter(|entry| !here.is_empty() && listens(entry)).map(|entry| entry.inode).collect()
}

/// Whether it is an address of this machine: no other can be bound to. No packet is sent.
fn is_here(address: &IpAddr) -> bool {
    UdpSocket::bind((*address, 0)).is_ok()
}

/// The processes that have one of the sockets open.
fn owners_of(inodes: &[u64]) -> Vec<i32> {
    let has_one = |process: &procfs::process::Process| {
        let mut files = process.fd().into_iter().flatten().flatten();
        files.any(|file| matches!(file.target, FDTarget::Socket(own) if inodes.contains(&own)))
    };
    if inodes.is_empty() {
        return Vec::new();
    }
    let all = procfs::process::all_processes().into_iter().flatten().flatten();
    all.filter(has_one).map(|process| process.pid).collect()
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
    use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
    use std::os::unix::net::UnixListener;

    use rustix::net::sockopt::set_socket_reuseport;
    use rustix::net::{AddressFamily, SocketType, bind, listen, socket};

    use super::*;

    fn us() -> i32 {
        i32::try_from(std::process::id()).unwrap()
    }

    #[test]
    fn whoever_listens_is_found_by_port_and_by_path() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost"] {
            assert_eq!(owners_of(&listens_on_port(host, port)), [us()], "{host}");
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".s.PGSQL.6432");
        let unix = UnixListener::bind(&path).unwrap();
        assert_eq!(owners_of(&listens_on_path(&path)), [us()]);
        drop(tcp);
        drop(unix);
        assert!(listens_on_port("127.0.0.1", port).is_empty());
        assert!(listens_on_path(&path).is_empty());
    }

    /// As two PgBouncers with so_reuseport, of which the kernel gives each connection to one.
    #[test]
    fn all_that_share_a_port_are_found() {
        let listening = |port: u16| {
            let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            set_socket_reuseport(&socket, true).unwrap();
            bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).unwrap();
            listen(&socket, 1).unwrap();
            TcpListener::from(socket)
        };
        let first = listening(0);
        let port = first.local_addr().unwrap().port();
        let second = listening(port);
        assert_eq!(listens_on_port("127.0.0.1", port).len(), 2);
        drop((first, second));
    }

    #[test]
    fn nobody_here_answers_for_another_machine() {
        let tcp = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        assert_eq!(listens_on_port("127.0.0.1", port).len(), 1);
        // An address for documents (RFC 5737), which no machine has.
        assert!(listens_on_port("192.0.2.1", port).is_empty());
    }

    #[test]
    fn neither_we_nor_what_started_us_is_a_pooler() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        let host = Host { host: "127.0.0.1".to_string(), port, ..Host::default() };
        assert!(between(&host, None).is_empty());
        assert!(ancestors(us()).contains(&i32::try_from(std::os::unix::process::parent_id()).unwrap()));
    }
}
