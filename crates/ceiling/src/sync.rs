//! How fast small writes become durable, by `wal_sync_method`: as `pg_test_fsync` measures it, but on a segment of WAL,
//! at increasing offsets, as the server writes it.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};
use nix::unistd::{fdatasync, fsync};

use crate::rounds::{CeilingRound, median};
use crate::scratch::ScratchFile;
use crate::{Effort, Found};

/// A page of WAL.
const PAGE_BYTES: usize = 8192;
/// A segment of WAL: it is written in a circle, since the server reuses segments.
const SEGMENT_BYTES: u64 = 16 << 20;

/// Measures each method on a file of `file_bytes`, which are allocated.
///
/// # Errors
/// When the device fails, or the user wants to stop.
pub(crate) fn measure(
    scratch: &ScratchFile,
    file_bytes: u64,
    effort: &Effort,
    found: &mut Found,
) -> Result<()> {
    let page = vec![0x5a_u8; PAGE_BYTES];
    let n_pages = (file_bytes.min(SEGMENT_BYTES) / PAGE_BYTES as u64).max(1);
    type Sync = fn(&File) -> nix::Result<()>;
    let none: Sync = |_| Ok(());
    let methods: [(&str, &File, Sync); 4] = [
        ("fdatasync", &scratch.plain, |file| fdatasync(file.as_fd())),
        ("fsync", &scratch.plain, |file| fsync(file.as_fd())),
        ("open_datasync", &scratch.datasync, none),
        ("open_sync", &scratch.sync, none),
    ];
    for (method, file, sync) in methods {
        let pace = median(effort, |length| {
            CeilingRound::take(length, effort, |n| {
                let written = file.write_all_at(&page, n % n_pages * PAGE_BYTES as u64);
                written.with_context(|| format!("write 8 kB ({method})"))?;
                sync(file).with_context(|| format!("make 8 kB durable ({method})"))
            })
        })?;
        found.put("sync_rate", Some(method), pace.rate);
        found.put("sync_time", Some(method), pace.time_s);
    }
    Ok(())
}
