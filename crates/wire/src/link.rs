//! The only file that touches sockets: one nonblocking connection over TCP or a unix socket, optionally through TLS.
//! Knows nothing of PostgreSQL's messages.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, setsockopt, socket, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use rustix::net::{self, RecvFlags, SendFlags};
use rustls::ClientConnection;

use crate::conninfo::TcpLimits;
use crate::tls::{TlsSetup, Verified};

/// A TCP connection breaks after this time of unacknowledged data or silence of its peer if `tcp_user_timeout` is not
/// set: long enough to see and report a stall, short enough to notice a dead host.
const USER_TIMEOUT_MS_DEFAULT: u32 = 30_000;
/// Idle time before the first keepalive probe, and the time between probes.
const KEEPALIVE_IDLE_S_DEFAULT: u32 = 15;
const KEEPALIVE_INTERVAL_S_DEFAULT: u32 = 5;
/// Most addresses of one name to try.
const ADDRESSES_MAX: usize = 64;
/// `connect` on a unix socket blocks only while the server's queue is full; this limits the wait.
const UNIX_CONNECT_MAX: Duration = Duration::from_secs(10);

/// One connection. All operations return [`io::ErrorKind::WouldBlock`] instead of waiting.
#[derive(Debug)]
pub struct Link {
    stream: Stream,
    tls: Option<Box<ClientConnection>>,
    verified: Verified,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

fn set_limits(stream: &TcpStream, limits: &TcpLimits) -> nix::Result<()> {
    let limit = |given: Option<u32>, default| Some(given.unwrap_or(default)).filter(|limit| *limit > 0);
    if let Some(ms) = limit(limits.user_timeout_ms, USER_TIMEOUT_MS_DEFAULT) {
        setsockopt(stream, sockopt::TcpUserTimeout, &ms)?;
    }
    if limits.has_no_keepalives {
        return Ok(());
    }
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    if let Some(s) = limit(limits.keepalives_idle_s, KEEPALIVE_IDLE_S_DEFAULT) {
        setsockopt(stream, sockopt::TcpKeepIdle, &s)?;
    }
    if let Some(s) = limit(limits.keepalives_interval_s, KEEPALIVE_INTERVAL_S_DEFAULT) {
        setsockopt(stream, sockopt::TcpKeepInterval, &s)?;
    }
    if let Some(n) = limit(limits.keepalives_count, 0) {
        setsockopt(stream, sockopt::TcpKeepCount, &n)?;
    }
    Ok(())
}

/// What a connection is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Input.
    Read,
    /// Space for output.
    Write,
}

impl Link {
    /// Begins to connect; [`Link::is_connected`] returns the outcome once the link is writable.
    pub(crate) fn start_tcp(address: SocketAddr, limits: &TcpLimits) -> io::Result<Link> {
        let stream = TcpStream::from(mio::net::TcpStream::connect(address)?);
        stream.set_nodelay(true)?;
        set_limits(&stream, limits)?;
        Ok(Link { stream: Stream::Tcp(stream), tls: None, verified: Verified::Nothing })
    }

    /// The two ends of a connection within this process.
    ///
    /// # Errors
    /// When the process has reached its limit of open files.
    pub fn pair() -> io::Result<(Link, Link)> {
        let (one, other) = UnixStream::pair()?;
        one.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        let link = |stream| Link { stream: Stream::Unix(stream), tls: None, verified: Verified::Nothing };
        Ok((link(one), link(other)))
    }

    /// Connects to a unix socket. That is immediate unless the server's queue is full: then this waits, up to
    /// `timeout`, because the kernel offers no event to wait for.
    pub(crate) fn start_unix(path: &Path, timeout: Duration) -> io::Result<Link> {
        let fd = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
        let timeout = if timeout.is_zero() { UNIX_CONNECT_MAX } else { timeout.min(UNIX_CONNECT_MAX) };
        let timeout_us = i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX);
        setsockopt(&fd, sockopt::SendTimeout, &TimeVal::microseconds(timeout_us))?;
        let address = UnixAddr::new(path).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidInput, "the path of a unix socket has at most 107 bytes")
        })?;
        connect(fd.as_raw_fd(), &address).map_err(|errno| match errno {
            nix::errno::Errno::EAGAIN => io::ErrorKind::TimedOut.into(),
            errno => io::Error::from(errno),
        })?;
        let stream = UnixStream::from(fd);
        stream.set_nonblocking(true)?;
        Ok(Link { stream: Stream::Unix(stream), tls: None, verified: Verified::Nothing })
    }

    /// Whether the connection is made; `false` while it is still being made.
    pub(crate) fn is_connected(&self) -> io::Result<bool> {
        let Stream::Tcp(stream) = &self.stream else { return Ok(true) };
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        match stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Starts TLS on the connection; continue with [`Link::handshake`].
    pub(crate) fn start_tls(&mut self, setup: TlsSetup) -> Result<(), rustls::Error> {
        self.tls = Some(Box::new(ClientConnection::new(setup.config, setup.name)?));
        self.verified = setup.verified;
        Ok(())
    }

    /// Drives the handshake; `None` when it is done.
    pub(crate) fn handshake(&mut self) -> io::Result<Option<Want>> {
        let Some(tls) = &mut self.tls else { return Ok(None) };
        loop {
            match write_tls(tls, &mut self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(Want::Write)),
                result => result?,
            }
            if !tls.is_handshaking() {
                return Ok(None);
            }
            match read_tls(tls, &mut self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(Want::Read)),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                result => result?,
            };
        }
    }

    /// Receives into `buffer`; `Ok(0)` means that the server has closed the connection.
    ///
    /// # Errors
    /// `WouldBlock` if no bytes are available (with TLS: after everything in the socket was read), or the loss of the
    /// connection.
    #[inline]
    pub fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => retry(|| self.stream.read(buffer)),
            Some(tls) => recv_tls(tls, &mut self.stream, buffer),
        }
    }

    /// Asks the kernel about the socket and ignores the answer: this brings the kernel's data about it into the
    /// processor's caches.
    pub fn look_at(&self) {
        poll(&mut [PollFd::new(self.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO).ok();
    }

    /// Sends as many of `bytes` as the connection accepts now.
    ///
    /// # Errors
    /// `WouldBlock` if it accepts nothing, or the loss of the connection.
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => retry(|| self.stream.write(bytes)),
            Some(tls) => send_tls(tls, &mut self.stream, bytes),
        }
    }

    /// Writes what TLS has buffered; call it when the link is writable and [`Link::wants_write`].
    ///
    /// # Errors
    /// `WouldBlock` if not everything could be written, or the loss of the connection.
    pub fn flush_pending(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => Ok(()),
            Some(tls) => write_tls(tls, &mut self.stream),
        }
    }

    /// Whether TLS has buffered bytes that the socket has not accepted yet. Always false without TLS.
    pub fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// The descriptor, to wait for events.
    pub fn fd(&self) -> RawFd {
        self.as_raw_fd()
    }

    /// Waits until the link is readable (or writable, if `want` says so) or `deadline` passes; `false` if it passed.
    ///
    /// # Errors
    /// An error of `poll(2)`.
    pub fn wait(&self, want: &[Want], deadline: Option<Instant>) -> io::Result<bool> {
        let mut flags = PollFlags::empty();
        for want in want {
            flags |= if *want == Want::Read { PollFlags::POLLIN } else { PollFlags::POLLOUT };
        }
        loop {
            let timeout = match deadline.map(|at| at.saturating_duration_since(Instant::now())) {
                None => PollTimeout::NONE,
                Some(left) if left.is_zero() => return Ok(false),
                // One millisecond more, because a timeout rounded down would end before the deadline.
                Some(left) => {
                    PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
                }
            };
            match poll(&mut [PollFd::new(self.as_fd(), flags)], timeout) {
                Ok(0) | Err(nix::errno::Errno::EINTR) => continue,
                Ok(_) => return Ok(true),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// The server's certificate in DER form, if TLS is used.
    pub(crate) fn server_certificate(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.peer_certificates()?.first().map(AsRef::as_ref)
    }

    /// Whether both ends agreed on the protocol's name inside TLS (ALPN).
    pub(crate) fn has_alpn(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.alpn_protocol().is_some())
    }

    /// Whether everything goes through TLS.
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Version and cipher, such as `TLSv1_3 TLS13_AES_256_GCM_SHA384`, if TLS is used; then, after a comma, what was verified of the
    /// server.
    pub(crate) fn tls_description(&self) -> Option<String> {
        let tls = self.tls.as_ref()?;
        let (version, cipher) = (tls.protocol_version()?, tls.negotiated_cipher_suite()?.suite());
        Some(format!("{version:?} {cipher:?}{}", self.verified.suffix()))
    }
}

/// Resolves a host name. Blocks, as libpq does: the C library offers nothing else.
pub(crate) fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.take(ADDRESSES_MAX).collect())
}

fn recv_tls(tls: &mut ClientConnection, stream: &mut Stream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match tls.reader().read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Closed without a close_notify: treat it as closed, because the protocol inside knows where it ends.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
            result => return result,
        }
        read_tls(tls, stream)?;
        if tls.wants_write() {
            match write_tls(tls, stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => result?,
            }
        }
    }
}

fn send_tls(tls: &mut ClientConnection, stream: &mut Stream, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    loop {
        sent += tls.writer().write(&bytes[sent..])?;
        match write_tls(tls, stream) {
            Ok(()) if sent == bytes.len() => return Ok(sent),
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && sent > 0 => return Ok(sent),
            Err(error) => return Err(error),
        }
    }
}

fn read_tls(tls: &mut ClientConnection, stream: &mut Stream) -> io::Result<usize> {
    let n = retry(|| tls.read_tls(stream))?;
    if let Err(error) = tls.process_new_packets() {
        // The alert tells the server why; it need not arrive.
        let _ = tls.write_tls(stream);
        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
    }
    Ok(n)
}

fn write_tls(tls: &mut ClientConnection, stream: &mut Stream) -> io::Result<()> {
    while tls.wants_write() {
        if retry(|| tls.write_tls(stream))? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    Ok(())
}

#[inline]
fn retry(mut operation: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// System calls without the C library's wrappers, which make each a cancellation point in a multithreaded program; that
/// costs more than everything else that a send does outside the kernel.
impl Read for Stream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (_, n) = net::recv(self.as_fd(), buffer, RecvFlags::empty())?;
        Ok(n)
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(net::send(self.as_fd(), bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl AsRawFd for Link {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Source for Link {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        SourceFd(&self.as_raw_fd()).register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        SourceFd(&self.as_raw_fd()).reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        SourceFd(&self.as_raw_fd()).deregister(registry)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use nix::sys::socket::getsockopt;

    use super::*;

    #[test]
    fn limits_of_a_connection_are_those_of_libpqs_keywords() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let found = |stream: &dyn AsFd| {
            let fd = stream.as_fd();
            let of_probes = [
                getsockopt(&fd, sockopt::TcpKeepIdle).unwrap(),
                getsockopt(&fd, sockopt::TcpKeepInterval).unwrap(),
                getsockopt(&fd, sockopt::TcpKeepCount).unwrap(),
            ];
            (
                getsockopt(&fd, sockopt::KeepAlive).unwrap(),
                of_probes,
                getsockopt(&fd, sockopt::TcpUserTimeout).unwrap(),
            )
        };
        let (_, [idle, interval, count], user_timeout) = found(&TcpStream::connect(address).unwrap());
        let check = |keywords: &str, expected: (bool, [u32; 3], u32)| {
            let tcp = crate::Conninfo::resolve_in(keywords, &Default::default()).unwrap().tcp;
            assert_eq!(found(&Link::start_tcp(address, &tcp).unwrap()), expected, "{keywords}");
            tcp
        };
        let ours = check("user=u", (true, [15, 5, count], 30_000));
        let as_libpq = found(&Link::start_tcp(address, &ours.or_of_kernel()).unwrap());
        assert_eq!(as_libpq, (true, [idle, interval, count], user_timeout));
        check("user=u tcp_user_timeout=0", (true, [15, 5, count], user_timeout));
        check("user=u tcp_user_timeout=-1 keepalives_idle=0", (true, [idle, 5, count], user_timeout));
        let all = "user=u tcp_user_timeout=7000 keepalives=1 keepalives_idle=9 keepalives_interval=3 keepalives_count=2";
        let given = check(all, (true, [9, 3, 2], 7000));
        assert_eq!(given.or_of_kernel(), given);
        check("user=u keepalives=0 keepalives_idle=9", (false, [idle, interval, count], 30_000));
    }
}
