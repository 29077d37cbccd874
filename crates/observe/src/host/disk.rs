//! Block device counters: the part of a tick that comes from `/proc/diskstats`.

use std::fs;

use anyhow::{Context, Result};
use procfs::{DiskStat, DiskStats, FromBufRead};

use crate::gather::Gather;

/// `/proc/diskstats` counts sectors of this size, whatever the device's own.
const SECTOR_BYTES: f64 = 512.0;

/// Times are printed as 32 bits of milliseconds. Those of a busy disk wrap around within days, because they are summed
/// over all requests.
const TIME_MODULUS_S: f64 = 4_294_967.296;

/// Adds the counters of the named devices.
///
/// # Errors
/// When `/proc/diskstats` cannot be read.
pub(crate) fn read(gather: &mut Gather, devices: &[String]) -> Result<()> {
    let text = fs::read_to_string("/proc/diskstats").context("cannot read `/proc/diskstats`")?;
    put(gather, &text, devices)
}

fn put(gather: &mut Gather, text: &str, devices: &[String]) -> Result<()> {
    let stats = DiskStats::from_buf_read(text.as_bytes()).context("cannot parse `/proc/diskstats`")?;
    for stat in stats.0.iter().filter(|stat| devices.contains(&stat.name)) {
        put_device(gather, stat);
    }
    Ok(())
}

fn put_device(gather: &mut Gather, stat: &DiskStat) {
    let ms = |ms: u64| ms as f64 / 1000.0;
    let values = [
        ("disk.reads", Some(stat.reads as f64)),
        ("disk.writes", Some(stat.writes as f64)),
        ("disk.flushes", stat.flushes.map(|n| n as f64)),
        ("disk.read_bytes", Some(stat.sectors_read as f64 * SECTOR_BYTES)),
        ("disk.write_bytes", Some(stat.sectors_written as f64 * SECTOR_BYTES)),
        ("disk.in_flight", Some(stat.in_progress as f64)),
    ];
    for (metric, value) in values {
        if let Some(value) = value {
            gather.put(metric, &stat.name, value);
        }
    }
    let times_s = [
        ("disk.read_time", Some(ms(stat.time_reading))),
        ("disk.write_time", Some(ms(stat.time_writing))),
        ("disk.flush_time", stat.time_flushing.map(ms)),
        ("disk.busy_time", Some(ms(stat.time_in_progress))),
    ];
    for (metric, time_s) in times_s {
        if let Some(time_s) = time_s {
            gather.put_wrapping(metric, &stat.name, time_s, TIME_MODULUS_S);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::Backwards;

    #[test]
    fn only_the_wanted_devices_and_their_fields_are_read() {
        let before = "\
 254       0 vda 110 30 9000 4100 12 38 4100 1191 0 1338 5351 4 45 516896 522 10 47
 254       1 vda1 1 0 8 1 0 0 0 0 0 1 1 0 0 0 0 0 0
 253       0 zram0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
   8       0 sda 5 0 8 1 0 0 0 0 2 1 1
";
        let after = before.replace(
            "vda 110 30 9000 4100 12 38 4100 1191 0 1338 5351 4 45 516896 522 10 47",
            "vda 111 30 9002 4150 14 38 4120 1291 3 1438 5551 4 45 516896 522 12 57",
        );
        let devices = ["vda".to_string(), "sda".to_string()];
        let mut gather = Gather::new(Backwards::Jitter);
        put(&mut gather, before, &devices).unwrap();
        gather.take();
        put(&mut gather, &after, &devices).unwrap();
        let (values, _) = gather.take();
        for (key, expected) in [
            ("disk.reads[vda]", 1.0),
            ("disk.writes[vda]", 2.0),
            ("disk.flushes[vda]", 2.0),
            ("disk.read_bytes[vda]", 1024.0),
            ("disk.write_bytes[vda]", 10240.0),
            ("disk.read_time[vda]", 0.05),
            ("disk.write_time[vda]", 0.1),
            ("disk.flush_time[vda]", 0.01),
            ("disk.busy_time[vda]", 0.1),
            ("disk.in_flight[vda]", 3.0),
            ("disk.in_flight[sda]", 2.0),
            ("disk.reads[sda]", 0.0),
        ] {
            assert!((values[key] - expected).abs() < 1e-9, "{key}: {values:?}");
        }
        // Kernels before 5.5 do not count flushes, so there is no value.
        assert!(!values.contains_key("disk.flushes[sda]"));
        assert!(values.keys().all(|key| !key.contains("zram0") && !key.contains("vda1")));
    }
}
