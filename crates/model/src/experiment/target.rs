//! Targets: servers in different places that one experiment measures.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::experiment::driver::DriverSpec;
use crate::experiment::driver::inventory::DriverSection;

/// `[[target]]` of an experiment file: a server by URL, or a place on this machine where pgdyno runs one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TargetSection {
    /// Name of the target: the level of the factor `target`.
    pub name: String,
    /// A running server, in libpq's syntax. Without it pgdyno runs a server itself, as `[server]` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Directory for the clusters of a server run by pgdyno: on the disk that this target stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// Provider of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Location.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Machine type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Disk type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Memory of the machine, in PostgreSQL's notation (`64GB`): `scale = "3x RAM"` multiplies it if pgdyno cannot read
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Price of an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<f64>,
    /// Currency of the price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// The server's host, if it lets us in: its processors, disks and networks are observed there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<DriverSpec>,
    /// Drivers of this target alone, instead of the experiment's: clouds are driven from inside.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub driver: Vec<DriverSection>,
    /// An exporter on the machine, in Prometheus' text format: `http://10.0.0.5:9100/metrics`. Recorded without user
    /// and password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<String>,
    /// Any other labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// The target of a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct TargetSpec {
    pub name: String,
    /// Directory for the clusters of a server run by pgdyno; by default the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// Labels: `provider`, `region`, `instance`, `disk`, `memory` and any others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Price of an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<f64>,
    /// Currency of the price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// An exporter on the machine that is polled while a load runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<String>,
}

impl TargetSection {
    /// The target as a case has it.
    pub fn spec(&self) -> TargetSpec {
        let fixed = [
            ("provider", &self.provider),
            ("region", &self.region),
            ("instance", &self.instance),
            ("disk", &self.disk),
            ("memory", &self.memory),
        ];
        let mut labels = self.labels.clone();
        labels.extend(fixed.into_iter().filter_map(|(key, value)| Some((key.to_string(), value.clone()?))));
        TargetSpec {
            name: self.name.clone(),
            directory: self.directory.clone(),
            labels,
            price_per_hour: self.price_per_hour,
            currency: self.currency.clone(),
            telemetry: self.telemetry.clone(),
        }
    }
}
