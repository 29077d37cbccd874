//! A cluster as initdb leaves it, which the tests of one program copy: a copy takes a tenth of initdb's time.
//!
//! Copies would have one system identifier, by which PostgreSQL and pgdyno know a cluster, so each gets its own.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::binaries::program;
use crate::process::run;
use crate::shared::SharedServer;
use crate::user::{Apart, as_server_user, give_to_server_user, place_in_memory};

/// Where the first page of a WAL segment has the system identifier (`xlp_sysid` of `XLogLongPageHeaderData`).
const WAL_IDENTIFIER_OFFSET: u64 = 24;

/// Between these the control file has its checksum, of all bytes before it; each release has it elsewhere.
const CHECKSUM_OFFSETS: std::ops::Range<usize> = 200..1000;

static TEMPLATE: SharedServer<TemplateCluster> = SharedServer::new();

/// Goes with the last cluster that was copied from it.
#[derive(Debug)]
pub(crate) struct TemplateCluster {
    dir: Apart,
    copies: AtomicU64,
}

impl TemplateCluster {
    /// The one of this program's tests; its authentication is `trust`, its superuser `postgres`.
    pub(crate) fn get() -> Arc<TemplateCluster> {
        TEMPLATE.get(TemplateCluster::initialize)
    }

    fn initialize() -> TemplateCluster {
        let dir = place_in_memory();
        give_to_server_user(dir.path());
        // Whose it is, for whoever kills this program.
        fs::write(dir.path().join(format!("template-of-{}", std::process::id())), "").unwrap();
        let template = TemplateCluster { dir, copies: AtomicU64::new(0) };

        initialize(program("initdb"), &template.data());
        template
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Makes `data` a cluster of its own.
    pub(crate) fn copy_to(&self, data: &Path) {
        run(as_server_user(Command::new("cp").arg("-a").arg(self.data()).arg(data)));
        set_identifier(data, 1 + self.copies.fetch_add(1, Ordering::Relaxed));
    }
}

/// Has `initdb` make a cluster in `data`.
pub(crate) fn initialize(mut initdb: Command, data: &Path) {
    initdb.args(["-N", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-D"]);
    run(as_server_user(initdb.arg(data)));
}

/// Adds `number` to the system identifier, which is in the control file and in the WAL.
fn set_identifier(data: &Path, number: u64) {
    let control = data.join("global/pg_control");
    let mut bytes = fs::read(&control).unwrap();
    let has_checksum = |end: &usize| bytes[*end..end + 4] == crc32c(&bytes[..*end]).to_le_bytes();
    let end = CHECKSUM_OFFSETS.step_by(4).find(has_checksum).expect("a control file has a checksum");

    let first = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    let identifier = (first + number).to_le_bytes();
    bytes[..8].copy_from_slice(&identifier);
    let checksum = crc32c(&bytes[..end]).to_le_bytes();
    bytes[end..end + 4].copy_from_slice(&checksum);
    open(&control).write_all_at(&bytes, 0).unwrap();

    for segment in fs::read_dir(data.join("pg_wal")).unwrap().flatten() {
        if segment.file_type().unwrap().is_file() {
            open(&segment.path()).write_all_at(&identifier, WAL_IDENTIFIER_OFFSET).unwrap();
        }
    }
}

fn open(file: &Path) -> File {
    OpenOptions::new().write(true).open(file).unwrap()
}

/// The checksum of PostgreSQL's control file and WAL: CRC-32C (Castagnoli), bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let of_byte = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg()))
    };
    !bytes.iter().fold(!0, of_byte)
}
