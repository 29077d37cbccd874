//! Brakes of devices: the server may read or write less there, by a control group.

use crate::summary::limiter::Bottleneck;
use crate::summary::proof::ProofKind;
use crate::what_if::WhatIf;
use crate::what_if::choose::{Change, Circumstances};
use crate::what_if::lowered::Lowered;

/// Fewer reads or writes per second, or MB, than this are no load of a device.
const LOAD_MIN: f64 = 1.0;

impl Circumstances<'_> {
    /// A fifth less of what a limiter asks of its device. How much there was is known from the device's ceiling, and of flushes, which
    /// follow each other, from the share of time with one.
    pub(super) fn throttled(&self, name: Bottleneck) -> Change {
        if !self.is_own() {
            return Err(
                "the devices of a server that pgdyno does not run are not its to take from".to_string()
            );
        }
        let resources = &self.run.resources;
        let mb_s = |bytes: Option<f64>| bytes.map(|bytes| bytes / 1e6);
        let (key, role, used) = match name {
            Bottleneck::DataRead => ("data_read_mb_s", "data", mb_s(resources.disk_read_bytes_per_s)),
            Bottleneck::DataWrite => ("data_write_mb_s", "data", mb_s(resources.disk_write_bytes_per_s)),
            Bottleneck::WalSync => ("wal_write_iops", "wal", resources.wal_device_writes_per_s),
            _ => ("wal_write_mb_s", "wal", mb_s(resources.wal_device_write_bytes_per_s)),
        };
        if let Some(reason) = &self.groups.no_throttle {
            return Err(reason.clone());
        }
        if self.case.os.contains_key(key) {
            return Err(format!("os.{key} limits the device already"));
        }
        let used = used
            .filter(|used| *used >= LOAD_MIN)
            .ok_or(format!("the {role} directory's device had hardly anything to do"))?;
        let share = self.share_of_device(name);
        // What the kernel writes later for everybody, no group of version 1 limits.
        let is_partial = name == Bottleneck::DataWrite && self.groups.is_writeback_free;
        if share.is_none() && is_partial {
            return Err("how much the device can give is not known (pgdyno calibrate measures it), and what the kernel writes \
                        later is in no control group"
                .to_string());
        }
        let lowered = Lowered::new(used, share.unwrap_or(1.0));
        let limit = format!("{:.3}", lowered.limit);
        let mut case = self.case.clone();
        case.os.insert(key.to_string(), limit.clone());
        let side_effect = match (share, self.is_shared(role)) {
            (None, _) => {
                "it can refute alone, since how much the device can give is not known; pgdyno calibrate measures it"
            }
            (Some(_), true) => "data and WAL are on one device, whose limit counts for both",
            (Some(_), false) => "",
        };
        let change = format!("{key}={limit} ({})", lowered.words("the device"));
        let what_if = self.changed(ProofKind::Brake, change, side_effect, case);
        let predicted = Some(lowered.predicted);
        Ok(WhatIf { predicted, is_partial, is_forced: share.is_none(), ..what_if })
    }

    /// How much of what the device can give was used, as far as the figures of the limiter say.
    fn share_of_device(&self, name: Bottleneck) -> Option<f64> {
        let most = |what: &str| {
            let of = self
                .limiter
                .figures
                .iter()
                .filter(|figure| figure.speaks_for == Some(name) && figure.of == what);
            of.map(|figure| figure.share).filter(|share| *share > 0.0).max_by(f64::total_cmp)
        };
        let of_time = if name == Bottleneck::WalSync { most("instants") } else { None };
        most("the ceiling").into_iter().chain(of_time).max_by(f64::total_cmp)
    }

    /// Whether data and WAL are on one device.
    fn is_shared(&self, role: &str) -> bool {
        let mounts = self.record.server_host().map(|host| &host.mounts);
        let device = |role: &str| Some(mounts?.get(role)?.device.as_str());
        let other = if role == "data" { "wal" } else { "data" };
        device(role).is_some() && device(role) == device(other)
    }
}
