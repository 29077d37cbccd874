//! The least that a driver can do: prepared statements, messages built beforehand, one io_uring with multishot receives,
//! no histogram, no clock, no script. What `pgdyno drive` takes beyond it is what measuring costs; what it takes itself
//! is the kernel's. `bench/driver_vs_pgbench.py --bare` runs it with the others.
//!
//!     cargo run --release -p driver --example bare_loop -- SOCKET_DIRECTORY tpcb|select CLIENTS SECONDS SCALE
//!
//! Prints transactions and microseconds of its own processor time, connecting left out. Trust authentication, user and
//! database `postgres`; a reply that is not what it expects ends it.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use io_uring::types::{BufRingEntry, Fd};
use io_uring::{IoUring, cqueue, opcode, squeue};

/// A statement's text, and which of aid, bid, tid and delta its parameters are.
type Statement = (&'static str, &'static [Parameter]);

#[derive(Clone, Copy)]
enum Parameter {
    Account,
    Branch,
    Teller,
    Delta,
}
use Parameter::{Account, Branch, Delta, Teller};

const TPCB: &[Statement] = &[
    ("BEGIN", &[]),
    ("UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2", &[Delta, Account]),
    ("SELECT abalance FROM pgbench_accounts WHERE aid = $1", &[Account]),
    ("UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2", &[Delta, Teller]),
    ("UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2", &[Delta, Branch]),
    (
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
        &[Teller, Branch, Account, Delta],
    ),
    ("END", &[]),
];
const SELECT: &[Statement] = &[("SELECT abalance FROM pgbench_accounts WHERE aid = $1", &[Account])];
/// Every parameter is sent with so many digits, so that messages keep their length.
const DIGITS: usize = 9;
const BUFFER_BYTES: usize = 2048;
const N_BUFFERS: u16 = 1024;
/// What a reply to Sync ends with, but for the transaction's state: ReadyForQuery of five bytes.
const READY: [u8; 5] = [b'Z', 0, 0, 0, 5];

/// A message, and where its parameters' digits stand.
#[derive(Clone)]
struct Message {
    bytes: Vec<u8>,
    places: Vec<(usize, Parameter)>,
}

struct Client {
    stream: UnixStream,
    messages: Vec<Message>,
    step: usize,
    values: [u64; 4],
}

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [directory, script, n_clients, seconds, scale] = args.as_slice() else {
        bail!("usage: bare_loop SOCKET_DIRECTORY tpcb|select CLIENTS SECONDS SCALE");
    };
    let statements = match script.as_str() {
        "tpcb" => TPCB,
        "select" => SELECT,
        other => bail!("no script {other}: tpcb or select"),
    };
    // Other rows with each run: those of the run before have been written to since the last checkpoint, and cost the server less.
    let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
    let mut random = Random { state: seed | 1, scale: scale.parse()? };
    let mut clients = Vec::new();
    for _ in 0..n_clients.parse()? {
        clients.push(Client::connect(directory, statements)?);
    }
    let mut ring = Ring::new()?;
    let cpu = own_cpu_us();
    let n = ring.drive(&mut clients, &mut random, Duration::from_secs(seconds.parse()?))?;
    writeln!(std::io::stdout(), "{n} {}", own_cpu_us() - cpu)?;
    Ok(())
}

impl Client {
    fn connect(directory: &str, statements: &[Statement]) -> anyhow::Result<Client> {
        let path = format!("{directory}/.s.PGSQL.5432");
        let mut stream = UnixStream::connect(&path).with_context(|| path.clone())?;
        let parameters = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
        stream.write_all(&(parameters.len() as u32 + 4).to_be_bytes())?;
        stream.write_all(parameters)?;
        await_ready(&mut stream)?;
        let mut messages = Vec::new();
        for (n, (text, parameters)) in statements.iter().enumerate() {
            let parse = [format!("s{n}\0{text}\0").as_bytes(), &[0, 0]].concat();
            stream.write_all(&framed(b'P', &parse))?;
            stream.write_all(&framed(b'S', &[]))?;
            await_ready(&mut stream)?;
            messages.push(Message::new(n, parameters));
        }
        stream.set_nonblocking(true)?;
        Ok(Client { stream, messages, step: 0, values: [0; 4] })
    }

    /// The next message, with its values filled in. New values are drawn at the start of each transaction.
    fn next_message(&mut self, random: &mut Random) -> &[u8] {
        if self.step == 0 {
            self.values = random.values();
        }
        let message = &mut self.messages[self.step];
        for (place, parameter) in &message.places {
            let mut value = self.values[*parameter as usize];
            for digit in message.bytes[*place..place + DIGITS].iter_mut().rev() {
                *digit = b'0' + (value % 10) as u8;
                value /= 10;
            }
        }
        &message.bytes
    }
}

impl Message {
    /// Bind, Execute and Sync of prepared statement `n`.
    fn new(n: usize, parameters: &[Parameter]) -> Message {
        let mut bind = format!("\0s{n}\0").into_bytes();
        bind.extend([0, 0]);
        bind.extend((parameters.len() as u16).to_be_bytes());
        let mut places = Vec::new();
        for parameter in parameters {
            bind.extend((DIGITS as u32).to_be_bytes());
            places.push((5 + bind.len(), *parameter));
            bind.extend([b'0'; DIGITS]);
        }
        bind.extend([0, 0]);
        let bytes = [framed(b'B', &bind), framed(b'E', &[0, 0, 0, 0, 0]), framed(b'S', &[])].concat();
        Message { bytes, places }
    }
}

fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

fn await_ready(stream: &mut UnixStream) -> anyhow::Result<()> {
    let mut reply = Vec::new();
    while !ends_ready(&reply) {
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes)? {
            0 => bail!("the server closed the connection: {}", String::from_utf8_lossy(&reply)),
            n => reply.extend(&bytes[..n]),
        }
    }
    if reply.first() == Some(&b'E') {
        bail!("{}", String::from_utf8_lossy(&reply));
    }
    Ok(())
}

fn ends_ready(reply: &[u8]) -> bool {
    reply.len() > READY.len() && reply[reply.len() - READY.len() - 1..].starts_with(&READY)
}

/// Numbers that are good enough to spread accesses (xorshift).
struct Random {
    state: u64,
    scale: u64,
}

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % n
    }

    /// An account, a branch, a teller and a delta.
    fn values(&mut self) -> [u64; 4] {
        let scale = self.scale;
        [100_000 * scale, scale, 10 * scale, 5000].map(|n| 1 + self.below(n))
    }
}

/// A ring with provided buffers; as the driver's own, without what can go wrong.
struct Ring {
    ring: IoUring,
    entries: *mut BufRingEntry,
    data: Vec<u8>,
    tail: u16,
}

impl Ring {
    fn new() -> anyhow::Result<Ring> {
        let ring = IoUring::builder()
            .setup_cqsize(8192)
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .build(1024)?;
        let layout =
            std::alloc::Layout::from_size_align(usize::from(N_BUFFERS) * size_of::<BufRingEntry>(), 65_536)?;
        // SAFETY: the size is not zero; the memory is never freed.
        let entries = unsafe { std::alloc::alloc_zeroed(layout) }.cast::<BufRingEntry>();
        // SAFETY: the memory has room for the entries and is aligned to a page.
        unsafe { ring.submitter().register_buf_ring_with_flags(entries as u64, N_BUFFERS, 0, 0)? };
        let mut ring = Ring { ring, entries, data: vec![0; usize::from(N_BUFFERS) * BUFFER_BYTES], tail: 0 };
        (0..N_BUFFERS).for_each(|buffer| ring.offer(buffer));
        Ok(ring)
    }

    fn offer(&mut self, buffer: u16) {
        // SAFETY: inside of the ring, and behind the tail that the kernel knows.
        let entry = unsafe { &mut *self.entries.add(usize::from(self.tail % N_BUFFERS)) };
        entry.set_addr(self.data[usize::from(buffer) * BUFFER_BYTES..].as_ptr() as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the ring's tail lies in its first entry.
        let tail = unsafe { &*BufRingEntry::tail(self.entries).cast::<std::sync::atomic::AtomicU16>() };
        tail.store(self.tail, std::sync::atomic::Ordering::Release);
    }

    fn push(&mut self, entry: squeue::Entry, tag: u64) -> anyhow::Result<()> {
        // SAFETY: clients' messages and the buffers outlive the ring's work.
        unsafe { self.ring.submission().push(&entry.user_data(tag)) }.context("the queue is full")
    }

    fn send(&mut self, client: &mut Client, random: &mut Random) -> anyhow::Result<()> {
        let fd = Fd(client.stream.as_raw_fd());
        let message = client.next_message(random);
        let send = opcode::Send::new(fd, message.as_ptr(), message.len() as u32).build();
        self.push(send.flags(squeue::Flags::SKIP_SUCCESS), u64::MAX)
    }

    /// Transactions in the time.
    fn drive(&mut self, clients: &mut [Client], random: &mut Random, time: Duration) -> anyhow::Result<u64> {
        for (n, client) in clients.iter_mut().enumerate() {
            let receive = opcode::RecvMulti::new(Fd(client.stream.as_raw_fd()), 0).build();
            self.push(receive, n as u64)?;
            self.send(client, random)?;
            self.ring.submit()?;
        }
        let end = Instant::now() + time;
        let (mut n_transactions, mut n_turns) = (0, 0_u32);
        loop {
            self.ring.submit_and_wait(1)?;
            n_turns = n_turns.wrapping_add(1);
            if n_turns.is_multiple_of(64) && Instant::now() >= end {
                return Ok(n_transactions);
            }
            let found: Vec<cqueue::Entry> = self.ring.completion().collect();
            for entry in found {
                n_transactions += u64::from(self.take(entry, clients, random)?);
            }
        }
    }

    /// A completion; whether it ended a transaction.
    fn take(
        &mut self,
        entry: cqueue::Entry,
        clients: &mut [Client],
        random: &mut Random,
    ) -> anyhow::Result<bool> {
        let client = usize::try_from(entry.user_data()).ok().and_then(|n| clients.get_mut(n));
        let (Some(client), Some(buffer)) = (client, cqueue::buffer_select(entry.flags())) else {
            bail!("a request failed: {}", std::io::Error::from_raw_os_error(-entry.result()));
        };
        let start = usize::from(buffer) * BUFFER_BYTES;
        let reply = &self.data[start..start + entry.result() as usize];
        if reply.first() == Some(&b'E') {
            bail!("{}", String::from_utf8_lossy(reply));
        }
        let is_ready = ends_ready(reply);
        self.offer(buffer);
        if !cqueue::more(entry.flags()) {
            let receive = opcode::RecvMulti::new(Fd(client.stream.as_raw_fd()), 0).build();
            self.push(receive, entry.user_data())?;
        }
        if !is_ready {
            return Ok(false);
        }
        client.step = (client.step + 1) % client.messages.len();
        self.send(client, random)?;
        Ok(client.step == 0)
    }
}

/// User and system time of this process, in microseconds.
fn own_cpu_us() -> i64 {
    nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).map_or(0, |usage| {
        [usage.user_time(), usage.system_time()].iter().map(|t| t.tv_sec() * 1_000_000 + t.tv_usec()).sum()
    })
}
