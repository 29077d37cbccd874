//! `[limits]`, and `limits` of a `[[target]]`: what is known of the server's devices and network, as a provider sells them.

use serde::{Deserialize, Serialize};

use super::row::{KeyKind, row};
use super::section;

section! {
    /// `[limits]`, and `limits` of a `[[target]]`: what is known of the server's devices and network, as a provider sells them.
    #[derive(Copy)]
    #[serde(deny_unknown_fields, default)]
    limits: Limits {
        /// provisioned reads and writes per second of the data's device; runs are judged by this and by measured ceilings
        #[serde(skip_serializing_if = "Option::is_none")]
        DATA_IOPS = data_iops: Option<f64>,
            row(KeyKind::Positive, "");

        /// provisioned MB (10^6 bytes) per second of the data's device
        #[serde(skip_serializing_if = "Option::is_none")]
        DATA_MB_S = data_mb_s: Option<f64>,
            row(KeyKind::Positive, "");

        /// provisioned reads and writes per second of the WAL's device
        #[serde(skip_serializing_if = "Option::is_none")]
        WAL_IOPS = wal_iops: Option<f64>,
            row(KeyKind::Positive, "");

        /// provisioned MB (10^6 bytes) per second of the WAL's device
        #[serde(skip_serializing_if = "Option::is_none")]
        WAL_MB_S = wal_mb_s: Option<f64>,
            row(KeyKind::Positive, "");

        /// MB per second of the server's network, each way
        #[serde(skip_serializing_if = "Option::is_none")]
        NETWORK_MB_S = network_mb_s: Option<f64>,
            row(KeyKind::Positive, "");
    }
}
