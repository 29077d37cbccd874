//! Targets: servers in different places that one experiment measures.

pub mod lane;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::experiment::driver::DriverSpec;
use crate::experiment::driver::inventory::DriverSection;
use crate::experiment::os::limits::Limits;

/// Before the name of a label of a target, in the keys of factors: `target.provider`.
pub const LABEL: &str = "target.";
/// Hours of a month: 365 days of 24 hours over 12 months, as providers reckon.
pub const HOURS_PER_MONTH: f64 = 730.0;

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
    /// Size of the machine, as the experiment calls it: `small`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
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
    /// Price of a month of 730 hours, instead of that of an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_per_month: Option<f64>,
    /// Currency of the price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// The server's host, if it lets us in: its processors, disks and networks are observed there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<DriverSpec>,
    /// The command that restarts this server by URL, for settings that change at a restart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restart: Vec<String>,
    /// Drivers of this target alone, instead of the experiment's: clouds are driven from inside.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub driver: Vec<DriverSection>,
    /// An exporter on the machine, in Prometheus' text format: `https://10.0.0.5:9100/metrics`. Without user and
    /// password, for it is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<String>,
    /// How the exporter is reached, and which of its metrics are ours.
    #[serde(skip_serializing_if = "ExporterSection::is_default")]
    pub exporter: ExporterSection,
    /// What its devices and network are declared to give; each value comes before that of the experiment's `[limits]`.
    #[serde(skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// Price of an hour at which spot capacity was rented: the cost is reckoned with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot_price_per_hour: Option<f64>,
    /// The most that was bid for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bid_per_hour: Option<f64>,
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
    /// Labels: `provider`, `region`, `size`, `instance`, `disk`, `memory` and any others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Price of an hour; one of a month is divided by 730.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<f64>,
    /// Currency of the price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// An exporter on the machine that is polled while a load runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<String>,
    /// How it is reached, and which of its metrics are ours.
    #[serde(default, skip_serializing_if = "ExporterSection::is_default")]
    pub exporter: ExporterSection,
}

/// `[target.exporter]`. It names where secrets are, and holds none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExporterSection {
    /// File with the root certificates to trust, in PEM format; by default those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// User of HTTP's basic authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Environment variable with that user's password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_env: Option<String>,
    /// File with that user's password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// Environment variable with a bearer token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
    /// File with a bearer token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// The exporter's metrics by ours, without `remote.`: `"disk.read_bytes"`; `"cpu.busy"` is the share of all
    /// processors that is busy.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, ExporterMetric>,
}

impl ExporterSection {
    /// Whether nothing is said.
    pub fn is_default(&self) -> bool {
        *self == ExporterSection::default()
    }
}

/// A metric of an exporter: its name, or a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected the name of a metric, or a table of name, labels, instance, scale and per_second"
)]
pub enum ExporterMetric {
    /// All of its samples are added up.
    Name(String),
    /// Some of them.
    Samples(ExporterSamples),
}

/// Samples of a metric of an exporter.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExporterSamples {
    /// Name of the metric.
    pub name: String,
    /// Labels that a sample must have; others are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Label with the device, interface or processor; without it, all samples are added up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Factor that makes our unit of its unit; by default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Whether it is a rate per second instead of a counter that grows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub per_second: bool,
}

impl ExporterMetric {
    /// The samples that it names.
    pub fn samples(&self) -> ExporterSamples {
        match self {
            ExporterMetric::Name(name) => {
                ExporterSamples { name: name.clone(), ..ExporterSamples::default() }
            }
            ExporterMetric::Samples(samples) => samples.clone(),
        }
    }
}

impl TargetSection {
    /// All labels by name; those with a key of their own before others of the same name.
    pub fn all_labels(&self) -> BTreeMap<String, String> {
        let fixed = [
            ("provider", &self.provider),
            ("region", &self.region),
            ("size", &self.size),
            ("instance", &self.instance),
            ("disk", &self.disk),
            ("memory", &self.memory),
        ];
        let mut labels = self.labels.clone();
        labels.extend(fixed.into_iter().filter_map(|(key, value)| Some((key.to_string(), value.clone()?))));
        let prices = [("spot_price", self.spot_price_per_hour), ("bid", self.bid_per_hour)];
        let with_unit = |price: f64| match &self.currency {
            Some(currency) => format!("{price} {currency} an hour"),
            None => format!("{price} an hour"),
        };
        labels
            .extend(prices.into_iter().filter_map(|(key, price)| Some((key.to_string(), with_unit(price?)))));
        labels
    }

    /// The target as a case has it.
    pub fn spec(&self) -> TargetSpec {
        TargetSpec {
            name: self.name.clone(),
            directory: self.directory.clone(),
            labels: self.all_labels(),
            price_per_hour: self
                .spot_price_per_hour
                .or(self.price_per_hour)
                .or(self.price_per_month.map(|price| price / HOURS_PER_MONTH)),
            currency: self.currency.clone(),
            telemetry: self.telemetry.clone(),
            exporter: self.exporter.clone(),
        }
    }
}
