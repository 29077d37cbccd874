//! Which user of this machine made a connection: the kernel knows, and lists it in `/proc/net/tcp`.

use std::fs::read_to_string;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The kernel's lists of connections, the numbers of whose columns are those below. A client of either kind may reach an IPv4 address.
const LISTS: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// `TCP_ESTABLISHED`: a client that has gone has no user any more, and is listed as root's.
const ESTABLISHED: &str = "01";

/// The user whose socket is at `from`, connected with `to`; `None` if that is not known.
pub(crate) fn user_at(from: SocketAddr, to: SocketAddr) -> Option<u32> {
    LISTS.iter().find_map(|list| user_in(&read_to_string(list).ok()?, from, to))
}

/// Whether the number of a user stands for all that this user namespace has no number for.
pub(crate) fn stands_for_many(user: u32) -> bool {
    let read = |path: &str| read_to_string(path).unwrap_or_default();
    let has_all = read("/proc/self/uid_map").split_ascii_whitespace().nth(2) == Some("4294967295");
    !has_all && read("/proc/sys/kernel/overflowuid").trim() == user.to_string()
}

fn user_in(list: &str, from: SocketAddr, to: SocketAddr) -> Option<u32> {
    list.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, local, remote, state, _, _, _, uid, _, inode, ..] = words.as_slice() else { return None };
        let is_it = *state == ESTABLISHED
            && *inode != "0"
            && address_of(local) == Some(canonical(from))
            && address_of(remote) == Some(canonical(to));
        if is_it { uid.parse().ok() } else { None }
    })
}

fn canonical(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}

/// `0100007F:1F90`: words of four bytes in the order of this processor, then the port.
fn address_of(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let words: Vec<[u8; 4]> = address
        .as_bytes()
        .chunks(8)
        .map(|word| Some(u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?.to_ne_bytes()))
        .collect::<Option<_>>()?;
    let address = match words.as_slice() {
        [word] => IpAddr::V4(Ipv4Addr::from(*word)),
        [_, _, _, _] => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(words.concat()).ok()?)),
        _ => return None,
    };
    Some((address.to_canonical(), u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_has_the_user_who_made_it_and_one_that_ended_has_none() {
        let me = rustix::process::geteuid().as_raw();
        for place in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(place) else { continue };
            let to = listener.local_addr().expect("an address");
            let client = TcpStream::connect(to).expect("a connection");
            let (_server, from) = listener.accept().expect("a connection");
            assert_eq!(user_at(from, to), Some(me), "{place}");
            assert_eq!(user_at(to, from), Some(me), "the other end");
            assert_eq!(user_at(SocketAddr::new(from.ip(), 1), to), None);
            drop(client);
            assert_eq!(user_at(from, to), None, "{place}");
        }
    }

    #[test]
    fn the_lists_of_the_kernel_are_read() {
        let list = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             \x20  0: 0100007F:C001 0100007F:20F5 01 00000000:00000000 00:00000000 00000000  1000        0 1146 1 0 100 0\n\
             \x20  1: 0000000000000000FFFF00000100007F:C002 0000000000000000FFFF00000100007F:20F5 01 0:0 0:0 0  1001 0 7 1\n\
             \x20  2: 0100007F:C003 0100007F:20F5 01 0:0 0:0 0  0 0 0 1\n\
             \x20  3: 0100007F:C004 0100007F:20F5 06 0:0 0:0 0  0 0 5 1\n\
             \x20  4: broken\n";
        let to = "127.0.0.1:8437".parse().expect("an address");
        for (port, expected) in
            [(0xC001, Some(1000)), (0xC002, Some(1001)), (0xC003, None), (0xC004, None), (0xC005, None)]
        {
            assert_eq!(
                user_in(list, SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port), to),
                expected,
                "{port}"
            );
        }
    }
}
