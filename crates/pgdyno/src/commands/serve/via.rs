//! `pgdyno serve --via`: results of another host. Each connection of a browser becomes a pipe to a pgdyno there, which serves that
//! connection; nothing listens there, and requests are judged there as on a server of that host's own.

use std::io::{self, BufRead, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use model::experiment::driver::DriverSpec;
use serve::Options;

use super::makers;
use crate::{Exit, say};

/// Most connections at the same time: a browser opens six.
const CONNECTIONS_MAX: usize = 12;
/// How often a new connection, and the end, are looked for.
const PAUSE: Duration = Duration::from_millis(20);
/// Longest name of a directory.
const NAME_BYTES_MAX: u64 = 8192;
/// The hidden command that serves one connection.
const COMMAND: &str = "show";

/// Leads connections to the host until a signal asks to stop.
pub(super) fn lead(listener: &TcpListener, host: &DriverSpec, dir: &Path, stop: &AtomicBool) -> Result<Exit> {
    ensure!(
        !host.upload,
        "--via needs a pgdyno on the host: name its path, as in ssh:db1=/opt/pgdyno/pgdyno"
    );
    listener.set_nonblocking(true).context("cannot listen without blocking")?;
    let n_open = Arc::new(AtomicUsize::new(0));
    while !stop.load(Ordering::Relaxed) {
        let connection = match n_open.load(Ordering::Relaxed) < CONNECTIONS_MAX {
            true => listener.accept(),
            false => Err(io::ErrorKind::WouldBlock.into()),
        };
        let Ok((stream, _)) = connection else {
            std::thread::sleep(PAUSE);
            continue;
        };
        n_open.fetch_add(1, Ordering::Relaxed);
        let (host, dir, n_open) = (host.clone(), dir.to_path_buf(), n_open.clone());
        std::thread::spawn(move || {
            if let Err(error) = lead_one(&stream, &host, &dir) {
                say(&format!("`{}`: {error:#}", host.name));
                refuse(&stream, &host.name);
            }
            n_open.fetch_sub(1, Ordering::Relaxed);
        });
    }
    Ok(Exit::Done)
}

/// Leads one connection to the host, until either end closes it.
fn lead_one(stream: &TcpStream, host: &DriverSpec, dir: &Path) -> Result<()> {
    stream.set_nonblocking(false).context("cannot use a connection")?;
    stream.set_nodelay(true).ok();
    let words = host.words(COMMAND);
    let (program, arguments) = words.split_first().context("--via names no command")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{program}`"))?;
    let ended = pass(stream, &mut child, dir);
    // A browser keeps connections open; whoever is at the other end has gone.
    let _ = stream.shutdown(Shutdown::Both);
    let _ = child.kill();
    let status = child.wait().context("cannot wait for the end of the pipe")?;
    match ended? {
        0 => anyhow::bail!("`{program}` ended without an answer ({status})"),
        _ => Ok(()),
    }
}

/// Passes bytes in both directions; returns how many came back.
fn pass(stream: &TcpStream, child: &mut Child, dir: &Path) -> Result<u64> {
    let (mut to, mut from) = child.stdin.take().zip(child.stdout.take()).context("the pipe has two ends")?;
    let name =
        dir.to_str().filter(|name| !name.contains('\n')).context("the directory's name is not text")?;
    writeln!(to, "{name}").context("cannot write to the pipe")?;
    let (mut reader, mut writer) = (stream.try_clone()?, stream.try_clone()?);
    std::thread::spawn(move || {
        let _ = io::copy(&mut reader, &mut to);
    });
    let mut n_bytes = 0;
    let mut buffer = [0; 16 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) | Err(_) => return Ok(n_bytes),
            Ok(n) if writer.write_all(&buffer[..n]).is_ok() => n_bytes += n as u64,
            Ok(_) => return Ok(n_bytes.max(1)),
        }
    }
}

fn refuse(mut stream: &TcpStream, name: &str) {
    let words = format!("pgdyno: `{name}` cannot be reached; the terminal of pgdyno serve says why\n");
    let head = format!(
        "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        words.len()
    );
    let _ = stream.write_all((head + &words).as_bytes());
}

/// `pgdyno show`: serves one connection on standard input and output. The first line names the directory.
pub(crate) fn show() -> Result<Exit> {
    let mut input = io::stdin().lock();
    let mut name = String::new();
    input
        .by_ref()
        .take(NAME_BYTES_MAX)
        .read_line(&mut name)
        .context("cannot read the name of the directory")?;
    let root = PathBuf::from(name.trim_end_matches('\n'));
    let options = Options {
        root,
        listen: std::net::SocketAddr::from(([127, 0, 0, 1], 0)),
        wants_token: false,
        names: Vec::new(),
        is_short: false,
        may_move: false,
        may_control: false,
        tool_version: env!("CARGO_PKG_VERSION"),
    };
    let (own, of_server) = UnixStream::pair().context("cannot make a connection")?;
    let serving = serve::start_on(of_server, options, makers::MAKERS)?;
    let mut answers = own.try_clone().context("cannot make a connection")?;
    std::thread::spawn(move || {
        let mut output = io::stdout().lock();
        let mut buffer = [0; 16 << 10];
        while let Ok(n @ 1..) = answers.read(&mut buffer) {
            if output.write_all(&buffer[..n]).and_then(|()| output.flush()).is_err() {
                break;
            }
        }
        // The reader has gone, or the connection was closed.
        std::process::exit(Exit::Done as i32);
    });
    let mut requests = own;
    let _ = io::copy(&mut input, &mut requests);
    drop(serving);
    Ok(Exit::Done)
}
