//! Targets: servers in different places that one experiment measures.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[[target]]` of an experiment file: a server by URL, or a place on this machine where pgdyno runs one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TargetSection {
    /// What the target is called: the level of the factor `target`.
    pub name: String,
    /// A running server, as libpq takes it. Without it pgdyno runs a server itself, as `[server]` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Where the clusters of a server that pgdyno runs are kept: on the disk that this target stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// Who runs the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// What kind of machine it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// What the data is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Memory of the machine as PostgreSQL writes sizes, `64GB`: what `scale = "3x RAM"` multiplies where pgdyno cannot
    /// look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// What an hour of it costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<f64>,
    /// In what money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// An exporter on the machine, in Prometheus' text format: `http://10.0.0.5:9100/metrics`. Recorded: without user and
    /// password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<String>,
    /// Anything else worth knowing.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A target as a case has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetSpec {
    /// Its name.
    pub name: String,
    /// Where the clusters of a server that pgdyno runs are kept, if not in the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// What is known of it by name: `provider`, `region`, `instance`, `disk`, `memory` and whatever was given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What an hour of it costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<f64>,
    /// In what money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// An exporter on the machine that is asked while a load runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<String>,
}

impl TargetSection {
    /// As a case has it.
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
