//! The only file that touches sockets: one connection over TCP or a unix socket, nonblocking, perhaps through TLS.
//! Knows nothing of PostgreSQL's messages.

use crate::tls::TlsSetup;
use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, setsockopt, socket, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use rustix::net::{self, RecvFlags, SendFlags};
use rustls::ClientConnection;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Unacknowledged data, or a silent peer, breaks a TCP connection after this time if `tcp_user_timeout` is not set:
/// long enough for a stall to be seen and reported as one, short enough for a dead host to be noticed.
pub const TCP_USER_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Idle time before the first keepalive probe, and the time between probes.
const KEEPALIVE_IDLE_S: u32 = 15;
const KEEPALIVE_INTERVAL_S: u32 = 5;
/// Addresses of one name that are tried at most.
const ADDRESSES_MAX: usize = 64;
/// `connect` on a unix socket waits only while the server's queue is full; it must not wait for ever.
const UNIX_CONNECT_MAX: Duration = Duration::from_secs(10);

/// One connection. All operations return [`io::ErrorKind::WouldBlock`] instead of waiting.
#[derive(Debug)]
pub struct Link {
    stream: Stream,
    tls: Option<Box<ClientConnection>>,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Input.
    Read,
    /// Room for output.
    Write,
}

impl Link {
    /// Begins to connect; [`Link::is_connected`] tells the outcome once the link is writable.
    pub(crate) fn start_tcp(address: SocketAddr, user_timeout: Option<Duration>) -> io::Result<Link> {
        let stream = TcpStream::from(mio::net::TcpStream::connect(address)?);
        stream.set_nodelay(true)?;
        setsockopt(&stream, sockopt::KeepAlive, &true)?;
        setsockopt(&stream, sockopt::TcpKeepIdle, &KEEPALIVE_IDLE_S)?;
        setsockopt(&stream, sockopt::TcpKeepInterval, &KEEPALIVE_INTERVAL_S)?;
        let user_timeout_ms = user_timeout.unwrap_or(TCP_USER_TIMEOUT_DEFAULT).as_millis();
        setsockopt(&stream, sockopt::TcpUserTimeout, &u32::try_from(user_timeout_ms).unwrap_or(u32::MAX))?;
        Ok(Link { stream: Stream::Tcp(stream), tls: None })
    }

    /// The two ends of a connection within this process.
    ///
    /// # Errors
    /// When the process may have no more files.
    pub fn pair() -> io::Result<(Link, Link)> {
        let (one, other) = UnixStream::pair()?;
        one.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        let link = |stream| Link { stream: Stream::Unix(stream), tls: None };
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
        Ok(Link { stream: Stream::Unix(stream), tls: None })
    }

    /// Whether the connection stands; `false` while it is still being made.
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

    /// Puts TLS on the connection; go on with [`Link::handshake`].
    pub(crate) fn start_tls(&mut self, setup: TlsSetup) -> Result<(), rustls::Error> {
        self.tls = Some(Box::new(ClientConnection::new(setup.config, setup.name)?));
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
    /// `WouldBlock` if nothing is there (with TLS: after everything the socket had was taken), or the loss of the
    /// connection.
    #[inline]
    pub fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => retry(|| self.stream.read(buffer)),
            Some(tls) => recv_tls(tls, &mut self.stream, buffer),
        }
    }

    /// Asks the kernel after the socket and heeds no answer: what it keeps of it comes into the processor's caches.
    pub fn look_at(&self) {
        poll(&mut [PollFd::new(self.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO).ok();
    }

    /// Sends as much of `bytes` as the connection takes now.
    ///
    /// # Errors
    /// `WouldBlock` if it takes nothing, or the loss of the connection.
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => retry(|| self.stream.write(bytes)),
            Some(tls) => send_tls(tls, &mut self.stream, bytes),
        }
    }

    /// Writes what TLS holds back; call it when the link is writable and [`Link::wants_write`].
    ///
    /// # Errors
    /// `WouldBlock` if not everything could be written, or the loss of the connection.
    pub fn flush_pending(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => Ok(()),
            Some(tls) => write_tls(tls, &mut self.stream),
        }
    }

    /// True if TLS holds bytes that the socket did not take yet. Always false without TLS.
    pub fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// The descriptor, to wait for events.
    pub fn fd(&self) -> RawFd {
        self.as_raw_fd()
    }

    /// Waits until the link can be read (or written, if `want` says so) or `deadline` passes; `false` if it passed.
    ///
    /// # Errors
    /// Those of `poll(2)`.
    pub fn wait(&self, want: &[Want], deadline: Option<Instant>) -> io::Result<bool> {
        let mut flags = PollFlags::empty();
        for want in want {
            flags |= if *want == Want::Read { PollFlags::POLLIN } else { PollFlags::POLLOUT };
        }
        loop {
            let timeout = match deadline.map(|at| at.saturating_duration_since(Instant::now())) {
                None => PollTimeout::NONE,
                Some(left) if left.is_zero() => return Ok(false),
                // One more millisecond, for a wait rounded down would end before the deadline.
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

    /// The server's certificate in DER form, if there is TLS.
    pub(crate) fn server_certificate(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.peer_certificates()?.first().map(AsRef::as_ref)
    }

    /// True if both ends agreed on the name of the protocol inside TLS (ALPN).
    pub(crate) fn has_alpn(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.alpn_protocol().is_some())
    }

    /// True if everything goes through TLS.
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Version and cipher, such as `TLSv1_3 TLS13_AES_256_GCM_SHA384`, if there is TLS.
    pub(crate) fn tls_description(&self) -> Option<String> {
        let tls = self.tls.as_ref()?;
        Some(format!("{:?} {:?}", tls.protocol_version()?, tls.negotiated_cipher_suite()?.suite()))
    }
}

/// Looks a host name up. Blocks, as libpq does: the C library offers nothing else.
pub(crate) fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.take(ADDRESSES_MAX).collect())
}

fn recv_tls(tls: &mut ClientConnection, stream: &mut Stream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match tls.reader().read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Closed without a goodbye: as good as closed, for the protocol inside knows its ends.
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
        // The alert tells the server why; that it arrives is not essential.
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

/// System calls without the C library's around them: in a program of several threads that makes each of them a point of
/// cancellation, which costs more than all else that a send does outside of the kernel.
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
