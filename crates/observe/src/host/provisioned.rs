//! What a cloud says of its limits: for how long a volume of EBS was asked for more than it, or its instance, is provisioned for,
//! and packets that an instance's network adapter (ENA) held back.
//!
//! EBS answers NVMe's log page 0xD0 (amazon-ec2-utils, `ebsnvme`), ENA counts among the statistics of `ethtool -S`. Both are absent
//! elsewhere, which is said once with the reason. Parsers are pure.

use std::fs::{self, File};
use std::os::fd::AsRawFd;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::gather::Gather;

/// The first bytes of EBS' log page, little-endian.
const MAGIC: u32 = 0x3C23_B510;
const LOG_PAGE: u32 = 0xD0;
const LOG_BYTES: usize = 4096;
/// Where the log page has the microseconds over each limit.
const OVER_LIMIT_US: [(&str, usize); 4] =
    [("volume-iops", 56), ("volume-throughput", 64), ("instance-iops", 72), ("instance-throughput", 80)];
/// The suffix of ENA's counters of packets that an allowance held back.
const EXCEEDED: &str = "_allowance_exceeded";
/// More statistics than a driver has; each queue has some.
const STATISTICS_MAX: u32 = 20_000;
const NAME_BYTES: usize = 32;

/// The devices and interfaces of this machine that say anything of their limits.
#[derive(Debug, Default)]
pub(crate) struct Provisioned {
    volumes: Vec<(String, File)>,
    interfaces: Vec<String>,
}

impl Provisioned {
    /// Those of these disks, and all interfaces. Says to `missing` what is not there, and why.
    pub(crate) fn find(disks: &[String], mut missing: impl FnMut(&str, String)) -> Provisioned {
        let mut found = Provisioned::default();
        let mut reasons = Vec::new();
        for disk in disks {
            match volume(disk) {
                Ok(file) => found.volumes.push((disk.clone(), file)),
                Err(error) => reasons.push(format!("{error:#}")),
            }
        }
        if found.volumes.is_empty() && !disks.is_empty() {
            missing("disk.over_limit_time", reasons.join("; "));
        }
        let (names, reasons): (Vec<_>, Vec<_>) =
            interfaces().into_iter().map(ena).partition(std::result::Result::is_ok);
        found.interfaces = names.into_iter().flatten().collect();
        if found.interfaces.is_empty() {
            let reasons: Vec<String> =
                reasons.into_iter().filter_map(|reason| Some(format!("{:#}", reason.err()?))).collect();
            missing("net.held_back_packets", reasons.join("; "));
        }
        found
    }

    /// Adds the counters; a device that no longer answers is left out from then on.
    pub(crate) fn read(&mut self, gather: &mut Gather, mut missing: impl FnMut(&str, String)) {
        self.volumes.retain(|(disk, file)| {
            let over = log_page(file).and_then(|page| over_limit_s(&page));
            match over {
                Ok(over) => over.iter().for_each(|(limit, s)| {
                    gather.put("disk.over_limit_time", &format!("{disk}:{limit}"), *s);
                }),
                Err(ref error) => missing("disk.over_limit_time", format!("{disk}: {error:#}")),
            }
            over.is_ok()
        });
        self.interfaces.retain(|interface| {
            let held = statistics(interface);
            match held {
                Ok(ref all) => held_back(all).for_each(|(allowance, n)| {
                    gather.put("net.held_back_packets", &format!("{interface}:{allowance}"), n);
                }),
                Err(ref error) => missing("net.held_back_packets", format!("{interface}: {error:#}")),
            }
            held.is_ok()
        });
    }
}

/// Seconds over each limit from EBS' log page.
fn over_limit_s(page: &[u8]) -> Result<[(&'static str, f64); OVER_LIMIT_US.len()]> {
    let magic = page.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    ensure!(magic == Some(MAGIC), "its log page is not that of EBS");
    ensure!(page.len() >= 96, "its log page is too short");
    let at = |offset: usize| {
        let bytes = page[offset..].first_chunk().copied().expect("the page is long enough");
        u64::from_le_bytes(bytes) as f64 / 1e6
    };
    Ok(OVER_LIMIT_US.map(|(limit, offset)| (limit, at(offset))))
}

/// Packets that allowances held back: `bw_in`, `bw_out`, `pps`, `conntrack`, `linklocal`.
fn held_back(statistics: &[(String, u64)]) -> impl Iterator<Item = (&str, f64)> {
    statistics.iter().filter_map(|(name, n)| Some((name.strip_suffix(EXCEEDED)?, *n as f64)))
}

/// The device of a volume, if it is one of EBS and we may ask it.
fn volume(disk: &str) -> Result<File> {
    let model = fs::read_to_string(format!("/sys/block/{disk}/device/model")).unwrap_or_default();
    match model.trim() {
        "" => bail!("`{disk}` has no model, as a volume of EBS has"),
        "Amazon Elastic Block Store" => {}
        other => bail!("`{disk}` is no volume of EBS: its model is `{other}`"),
    }
    let file = File::open(format!("/dev/{disk}")).with_context(|| format!("cannot open `/dev/{disk}`"))?;
    over_limit_s(&log_page(&file)?).with_context(|| format!("`{disk}`"))?;
    Ok(file)
}

fn interfaces() -> Vec<String> {
    let entries = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name != "lo")
        .collect();
    names.sort();
    names
}

/// The interface, if its adapter counts what allowances held back.
fn ena(interface: String) -> Result<String> {
    let driver = fs::read_link(format!("/sys/class/net/{interface}/device/driver"));
    let driver = driver.ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    match driver.as_deref() {
        Some("ena") => {}
        Some(other) => bail!("`{interface}` uses the driver {other}, not ena"),
        None => bail!("`{interface}` is no device"),
    }
    let all = statistics(&interface).with_context(|| format!("`{interface}`"))?;
    ensure!(held_back(&all).next().is_some(), "the driver of `{interface}` counts no allowances");
    Ok(interface)
}

/// `struct nvme_admin_cmd` of the kernel's `linux/nvme_ioctl.h`.
#[repr(C)]
#[derive(Debug, Default)]
struct AdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

nix::ioctl_readwrite!(nvme_admin, b'N', 0x41, AdminCommand);

/// The log page 0xD0 of an NVMe device.
fn log_page(device: &File) -> Result<Vec<u8>> {
    const GET_LOG_PAGE: u8 = 2;
    let mut page = vec![0u8; LOG_BYTES];
    let mut command = AdminCommand {
        opcode: GET_LOG_PAGE,
        namespace: 1,
        address: page.as_mut_ptr() as u64,
        data_bytes: LOG_BYTES as u32,
        cdw10: LOG_PAGE | (1024 << 16),
        timeout_ms: 1000,
        ..AdminCommand::default()
    };
    // SAFETY: the command is the kernel's structure, and its address that of a buffer of as many bytes, which outlives the call.
    let status = unsafe { nvme_admin(device.as_raw_fd(), &raw mut command) };
    let status = status.context("cannot read its log page (that needs CAP_SYS_ADMIN)")?;
    ensure!(status == 0, "its log page was refused with status {status:#x}");
    Ok(page)
}

/// `struct ifreq` of the kernel for SIOCETHTOOL: the interface's name, and the address of a request.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    data: *mut u8,
    rest: [u8; 16],
}

nix::ioctl_readwrite_bad!(ethtool, 0x8946, InterfaceRequest);

/// The statistics of an interface as `ethtool -S` prints them.
fn statistics(interface: &str) -> Result<Vec<(String, u64)>> {
    const GET_DRIVER: u32 = 0x03;
    const GET_STRINGS: u32 = 0x1b;
    const GET_STATISTICS: u32 = 0x1d;
    const SET_OF_STATISTICS: u32 = 1;
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let ask = |buffer: &mut [u8]| -> Result<()> {
        let mut name = [0; 16];
        ensure!(interface.len() < name.len(), "its name is too long");
        name[..interface.len()].copy_from_slice(interface.as_bytes());
        let mut request = InterfaceRequest { name, data: buffer.as_mut_ptr(), rest: [0; 16] };
        // SAFETY: the request is as large as the kernel's, and each caller's buffer has room for what its command answers.
        unsafe { ethtool(socket.as_raw_fd(), &raw mut request) }
            .context("cannot ask the driver for statistics")?;
        Ok(())
    };
    let put = |buffer: &mut [u8], at: usize, value: u32| {
        buffer[4 * at..4 * at + 4].copy_from_slice(&value.to_ne_bytes());
    };
    // `struct ethtool_drvinfo` has 196 bytes, the number of statistics at 180.
    let mut driver = [0; 196];
    put(&mut driver, 0, GET_DRIVER);
    ask(&mut driver)?;
    let n = u32::from_ne_bytes(driver[180..184].try_into().expect("four bytes"));
    ensure!((1..=STATISTICS_MAX).contains(&n), "its driver has {n} statistics");
    let mut names = vec![0; 12 + n as usize * NAME_BYTES];
    [GET_STRINGS, SET_OF_STATISTICS, n]
        .into_iter()
        .enumerate()
        .for_each(|(i, word)| put(&mut names, i, word));
    ask(&mut names)?;
    // A driver may have more by now; the kernel writes as many as it has, so there is room for twice as many.
    let mut values = vec![0; 8 + 2 * n as usize * 8];
    [GET_STATISTICS, n].into_iter().enumerate().for_each(|(i, word)| put(&mut values, i, word));
    ask(&mut values)?;
    Ok(pair(&names[12..], &values[8..]))
}

/// Names of 32 bytes each, and their values of 8.
fn pair(names: &[u8], values: &[u8]) -> Vec<(String, u64)> {
    let name = |bytes: &[u8]| {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    let values = values.as_chunks::<8>().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
    names.chunks_exact(NAME_BYTES).map(name).zip(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::Backwards;

    #[test]
    fn time_over_the_limits_is_where_the_layout_says() {
        let mut page = vec![0; LOG_BYTES];
        page[..4].copy_from_slice(&[0x10, 0xB5, 0x23, 0x3C]);
        for (offset, us) in [(48, 9), (56, 1_500_000u64), (64, 250_000), (72, 7), (80, 0), (88, 32)] {
            page[offset..offset + 8].copy_from_slice(&us.to_le_bytes());
        }
        let expected = [
            ("volume-iops", 1.5),
            ("volume-throughput", 0.25),
            ("instance-iops", 0.000_007),
            ("instance-throughput", 0.0),
        ];
        assert_eq!(over_limit_s(&page).unwrap(), expected);
        assert_eq!(over_limit_s(&page[..90]).unwrap_err().to_string(), "its log page is too short");
        page[0] = 0;
        assert_eq!(over_limit_s(&page).unwrap_err().to_string(), "its log page is not that of EBS");
        assert!(over_limit_s(&[]).is_err());
        assert_eq!(size_of::<AdminCommand>(), 72);
    }

    #[test]
    fn allowances_are_found_among_an_adapters_statistics() {
        let all = [
            ("tx_timeout", 3u64),
            ("bw_in_allowance_exceeded", 17),
            ("pps_allowance_exceeded", 0),
            ("rx_bytes", 9),
        ];
        let mut names = Vec::new();
        for (name, _) in all {
            let mut bytes = [0; NAME_BYTES];
            bytes[..name.len()].copy_from_slice(name.as_bytes());
            names.extend(bytes);
        }
        let values: Vec<u8> = all.iter().flat_map(|(_, n)| n.to_ne_bytes()).collect();
        let paired = pair(&names, &values);
        assert_eq!(paired[1], ("bw_in_allowance_exceeded".to_string(), 17));
        assert_eq!(held_back(&paired).collect::<Vec<_>>(), [("bw_in", 17.0), ("pps", 0.0)]);
    }

    #[test]
    fn what_is_not_there_is_said_by_name() {
        let mut told = Vec::new();
        let disks = ["no-such-disk".to_string()];
        let mut found = Provisioned::find(&disks, |what, reason| told.push((what.to_string(), reason)));
        if found.interfaces.is_empty() {
            assert_eq!(told[1].0, "net.held_back_packets");
        }
        assert_eq!(told[0].0, "disk.over_limit_time");
        assert!(told[0].1.contains("`no-such-disk` has no model"), "{told:?}");
        let mut gather = Gather::new(Backwards::Jitter);
        found.read(&mut gather, |what, reason| panic!("{what}: {reason}"));
        assert!(ena("lo".to_string()).unwrap_err().to_string().contains("`lo` is no device"));
        // The loopback's driver has no statistics, which the kernel says.
        assert!(statistics("lo").is_err());
        let null = File::open("/dev/null").unwrap();
        assert!(log_page(&null).unwrap_err().to_string().contains("cannot read its log page"));
    }
}
