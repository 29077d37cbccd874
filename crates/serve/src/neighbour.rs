//! Which user of this machine made a connection: the kernel knows, and is asked for this one connection (sock_diag(7)), which takes the
//! same time however many there are.

use std::fs::read_to_string;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// A lookup that fails is made again once: the kernel may be out of memory for a moment, and a refusal is final.
const ATTEMPTS: usize = 2;
/// The kernel answers at once, or not at all.
const PATIENCE: Duration = Duration::from_secs(1);

/// `SOCK_DIAG_BY_FAMILY`, the type of question and answer.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST`. Without `NLM_F_DUMP`, the question is for one socket.
const REQUEST: u16 = 1;
/// `IPPROTO_TCP`.
const TCP: u8 = 6;
/// `TCP_ESTABLISHED`: a client that has gone has no user any more, and counts as root's.
const ESTABLISHED: u8 = 1;
/// `INET_DIAG_NOCOOKIE`: the addresses say which socket.
const NO_COOKIE: u32 = u32::MAX;

/// Bytes of `nlmsghdr`, `inet_diag_req_v2` and `inet_diag_msg`.
const HEADER: usize = 16;
const QUESTION: usize = 56;
const ANSWER: usize = 72;
/// Where an answer has what, after its header.
const FAMILY: usize = 0;
const STATE: usize = 1;
const FROM_PORT: Range<usize> = 4..6;
const TO_PORT: Range<usize> = 6..8;
const FROM: Range<usize> = 8..24;
const TO: Range<usize> = 24..40;
const UID: Range<usize> = 64..68;
const INODE: Range<usize> = 68..72;

/// The user whose socket is at `from`, connected with `to`; `None` if that is not known.
pub(crate) fn user_at(from: SocketAddr, to: SocketAddr) -> Option<u32> {
    let question = question(from, to)?;
    let answer = (0..ATTEMPTS).find_map(|_| asked(&question).ok())?;
    user_in(&answer, from, to)
}

/// Whether the number of a user stands for all that this user namespace has no number for.
pub(crate) fn stands_for_many(user: u32) -> bool {
    let read = |path: &str| read_to_string(path).unwrap_or_default();
    let has_all = read("/proc/self/uid_map").split_ascii_whitespace().nth(2) == Some("4294967295");
    !has_all && read("/proc/sys/kernel/overflowuid").trim() == user.to_string()
}

/// Asks the kernel for one socket.
fn asked(question: &[u8]) -> io::Result<Vec<u8>> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    send(&socket, question, SendFlags::empty())?;
    let mut answer = vec![0; 4096];
    let (n, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    answer.truncate(n);
    Ok(answer)
}

/// The question for the TCP socket at `from` that is connected with `to`. An IPv4 address is one, whichever kind of socket has it.
fn question(from: SocketAddr, to: SocketAddr) -> Option<Vec<u8>> {
    let (family, addresses) = match (from.ip().to_canonical(), to.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            (AddressFamily::INET, [from.octets(), to.octets()].map(|four| [&four[..], &[0; 12]].concat()))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            (AddressFamily::INET6, [from.octets(), to.octets()].map(|all| all.to_vec()))
        }
        _ => return None,
    };
    let mut bytes = Vec::with_capacity(HEADER + QUESTION);
    let n_bytes = u32::try_from(HEADER + QUESTION).ok()?;
    // nlmsghdr: length, type, flags, sequence number, our port (the kernel knows it).
    bytes.extend(n_bytes.to_ne_bytes());
    bytes.extend([BY_FAMILY, REQUEST].map(u16::to_ne_bytes).concat());
    bytes.extend([0, 0].map(u32::to_ne_bytes).concat());
    // inet_diag_req_v2: family, protocol, no extensions, padding, states (for lists only).
    bytes.extend([u8::try_from(family.as_raw()).ok()?, TCP, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    // inet_diag_sockid: ports and addresses as they are on the network, any interface.
    bytes.extend([from.port(), to.port()].map(u16::to_be_bytes).concat());
    bytes.extend(addresses.concat());
    bytes.extend([0, NO_COOKIE, NO_COOKIE].map(u32::to_ne_bytes).concat());
    Some(bytes)
}

/// The user in an answer. A socket that listens answers for those that are not there: it is another one.
fn user_in(answer: &[u8], from: SocketAddr, to: SocketAddr) -> Option<u32> {
    let kind = answer.get(4..6)?;
    if kind != BY_FAMILY.to_ne_bytes() {
        return None;
    }
    let said = answer.get(HEADER..HEADER + ANSWER)?;
    let is_at = |end: SocketAddr, port: Range<usize>, address: Range<usize>| {
        said[port] == end.port().to_be_bytes()
            && address_in(said[FAMILY], &said[address]) == Some(end.ip().to_canonical())
    };
    let number = |range: Range<usize>| said[range].try_into().map(u32::from_ne_bytes).ok();
    let is_it = is_at(from, FROM_PORT, FROM) && is_at(to, TO_PORT, TO);
    let has_owner = said[STATE] == ESTABLISHED && number(INODE)? != 0;
    if is_it && has_owner { number(UID) } else { None }
}

/// A socket of the newer kind has an IPv4 address in its own way.
fn address_in(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match u16::from(family) {
        family if family == AddressFamily::INET.as_raw() => {
            Some(IpAddr::from(<[u8; 4]>::try_from(bytes.get(..4)?).ok()?))
        }
        family if family == AddressFamily::INET6.as_raw() => {
            Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_has_the_user_who_made_it_and_one_that_ended_has_none() {
        let me = rustix::process::geteuid().as_raw();
        for (place, called) in
            [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1"), ("127.0.0.1:0", "::ffff:127.0.0.1")]
        {
            let Ok(listener) = TcpListener::bind(place) else { continue };
            let to = listener.local_addr().expect("an address");
            let called: IpAddr = called.parse().expect("an address");
            let client = TcpStream::connect((called, to.port())).expect("a connection");
            let (_server, from) = listener.accept().expect("a connection");
            assert_eq!(user_at(from, to), Some(me), "{place}");
            assert_eq!(user_at(to, from), Some(me), "the other end");
            assert_eq!(user_at(SocketAddr::new(from.ip(), 1), to), None, "nobody is there");
            assert_eq!(user_at(to, SocketAddr::new(from.ip(), 1)), None, "only the listener is there");
            drop(client);
            assert_eq!(user_at(from, to), None, "{place}");
        }
    }

    /// A machine that measures may have a hundred thousand connections, and each page that is loaded is one more.
    #[test]
    fn many_connections_cost_no_more_than_a_few() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let to = listener.local_addr().expect("an address");
        let pair = || {
            let client = TcpStream::connect(to).expect("a connection");
            (client, listener.accept().expect("a connection"))
        };
        let (_client, (_server, from)) = pair();
        let n_read = || {
            let io = read_to_string("/proc/thread-self/io").expect("what this thread has read");
            let read = io.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("a number of bytes");
            read.parse::<u64>().expect("a number")
        };
        let cost = || {
            let before = n_read();
            user_at(from, to).expect("a user");
            n_read() - before
        };
        let few = cost();
        let _more: Vec<_> = (0..100).map(|_| pair()).collect();
        // The list of these connections has 15,000 bytes and more.
        assert!(cost() < few + 1000);
    }

    #[test]
    fn only_an_established_socket_of_these_addresses_counts() {
        let [from, to] = ["127.0.0.1:49153", "127.0.0.1:8437"].map(|text| text.parse().expect("an address"));
        let question = question(from, to).expect("a question");
        let answer = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = vec![0; HEADER + ANSWER];
            bytes[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
            bytes[HEADER + FAMILY] = 2;
            bytes[HEADER + STATE] = ESTABLISHED;
            bytes[HEADER + 4..HEADER + 40].copy_from_slice(&question[HEADER + 8..HEADER + 44]);
            bytes[HEADER + 64..HEADER + 68].copy_from_slice(&1000_u32.to_ne_bytes());
            bytes[HEADER + 68] = 1;
            change(&mut bytes);
            user_in(&bytes, from, to)
        };
        assert_eq!(answer(&|_| ()), Some(1000));
        for (what, at, value) in [
            ("an error", 4, 2),
            ("a socket that listens", HEADER + STATE, 10),
            ("another port", HEADER + 5, 0),
            ("another address", HEADER + 8, 10),
            ("another kind of address", HEADER + FAMILY, 10),
            ("no owner", HEADER + 68, 0),
        ] {
            assert_eq!(answer(&|bytes| bytes[at] = value), None, "{what}");
        }
        assert_eq!(answer(&|bytes| bytes.truncate(HEADER + 4)), None, "an answer that is cut");
    }
}
