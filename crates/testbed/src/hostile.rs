//! What a server that breaks the protocol is made of: a port on which each connection runs a script, and messages.
//!
//! What it answers when is for the tests to say.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

use wire::Conninfo;
use wire::conninfo::SslMode;

/// No client sends a longer message.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// A listener on a free port of 127.0.0.1, and how `user` gets there without TLS.
#[must_use]
pub fn listen(user: &str, database: &str) -> (TcpListener, Conninfo) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let conninfo = Conninfo::new("127.0.0.1", port, user, database);
    (listener, Conninfo { sslmode: SslMode::Disable, ..conninfo })
}

/// A server that lets each connection run `script` on a thread. An error is the client's hanging up.
#[must_use]
pub fn serve(script: impl Fn(TcpStream) -> io::Result<()> + Clone + Send + 'static) -> Conninfo {
    let (listener, conninfo) = listen("u", "d");
    // The threads end with the process of the tests, or with their connection.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let script = script.clone();
            std::thread::spawn(move || script(stream.unwrap()));
        }
    });
    conninfo
}

/// A message with its length.
#[must_use]
pub fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// CommandComplete of a query.
#[must_use]
pub fn done() -> Vec<u8> {
    message(b'C', b"SELECT 1\0")
}

/// ReadyForQuery, outside of a transaction.
#[must_use]
pub fn ready() -> Vec<u8> {
    message(b'Z', b"I")
}

/// BackendKeyData.
#[must_use]
pub fn key() -> Vec<u8> {
    message(b'K', &[0, 0, 0, 1, 0, 0, 0, 2])
}

/// AuthenticationOk and what follows it until the first query.
#[must_use]
pub fn welcome() -> Vec<u8> {
    [message(b'R', &[0; 4]), key(), ready()].concat()
}

/// Reads a startup message, which has no tag.
///
/// # Errors
/// If the client hangs up.
pub fn read_startup(stream: &mut TcpStream) -> io::Result<()> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    stream.read_exact(&mut vec![0; body_length(length)])
}

/// Reads a message: its tag and length, and its body.
///
/// # Errors
/// If the client hangs up.
pub fn read_message(stream: &mut TcpStream) -> io::Result<([u8; 5], Vec<u8>)> {
    let mut header = [0; 5];
    stream.read_exact(&mut header)?;
    let mut body = vec![0; body_length([header[1], header[2], header[3], header[4]])];
    stream.read_exact(&mut body)?;
    Ok((header, body))
}

fn body_length(length: [u8; 4]) -> usize {
    (u32::from_be_bytes(length) as usize).clamp(4, MESSAGE_BYTES_MAX) - 4
}

/// Writes `bytes` again and again, as long as the client reads.
///
/// # Errors
/// When the client hangs up.
pub fn write_endlessly(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let many = bytes.repeat((256 * 1024_usize).div_ceil(bytes.len()));
    loop {
        stream.write_all(&many)?;
    }
}
