//! Series that something else measured during a run: what an experiment file asks for, and what was taken into the run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[[import]]`. It names where secrets are, and holds none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Import {
    /// Name in reports.
    pub name: String,
    /// Unit of the values; `B` and `B/s` are drawn as MiB and MiB/s.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Address of a Prometheus server: `https://prometheus.example.org:9090`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<String>,
    /// The query in PromQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// File of comma-separated values; relative to the experiment file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csv: Option<PathBuf>,
    /// Name of the column with times: Unix seconds, or RFC 3339 with an offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_column: Option<String>,
    /// Name of the column with values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_column: Option<String>,
    /// How far the clock of these times is ahead of pgdyno's, seconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub clock_offset_s: f64,
    /// File with the root certificates to trust, in PEM format; by default those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// User of HTTP's basic authentication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Environment variable with that user's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_env: Option<String>,
    /// File with that user's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// Environment variable with a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
    /// File with a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// Longest name and unit.
const NAME_CHARS_MAX: usize = 60;
/// Most imports of an experiment.
const IMPORTS_MAX: usize = 50;
/// A clock that is further off is a mistake of units.
const OFFSET_S_MAX: f64 = 1e6;

impl Import {
    /// Checks the imports of an experiment.
    ///
    /// # Errors
    /// With the first thing that is wrong, and what to do.
    pub fn check_all(imports: &[Import]) -> Result<(), String> {
        if imports.len() > IMPORTS_MAX {
            return Err(format!("import: {} are more than {IMPORTS_MAX}", imports.len()));
        }
        for (n, import) in imports.iter().enumerate() {
            import.check().map_err(|why| format!("import `{}`: {why}", import.name))?;
            if imports[..n].iter().any(|other| other.name == import.name) {
                return Err(format!("import `{}` is named twice; give each a name of its own", import.name));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let is_short =
            |text: &str| text.chars().count() <= NAME_CHARS_MAX && !text.contains(|c: char| c.is_control());
        if self.name.trim().is_empty() || !is_short(&self.name) || !is_short(&self.unit) {
            return Err(format!("name and unit are text of at most {NAME_CHARS_MAX} characters"));
        }
        if !self.clock_offset_s.is_finite() || self.clock_offset_s.abs() > OFFSET_S_MAX {
            return Err(format!("clock_offset_s is not within {OFFSET_S_MAX} seconds"));
        }
        let has_access = self.ca.is_some() || self.user.is_some() || self.has_secret();
        match (&self.prometheus, &self.query, &self.csv, &self.time_column, &self.value_column) {
            (Some(address), Some(_), None, None, None) if address.contains('?') => {
                Err("prometheus is an address without `?`; what to ask is query".to_string())
            }
            (Some(_), Some(query), None, None, None) if query.trim().is_empty() => {
                Err("query is empty".to_string())
            }
            (Some(_), Some(_), None, None, None) => Ok(()),
            (None, None, Some(_), Some(_), Some(_)) if !has_access => Ok(()),
            _ => Err("give prometheus and query, or csv, time_column and value_column".to_string()),
        }
    }

    fn has_secret(&self) -> bool {
        let files = [&self.password_file, &self.token_file];
        let variables = [&self.password_env, &self.token_env];
        files.iter().any(|file| file.is_some()) || variables.iter().any(|name| name.is_some())
    }

    /// Where it comes from, in words: `http://127.0.0.1:9090: rate(x[15s])`, `power.csv: watts`.
    pub fn source(&self) -> String {
        match (&self.prometheus, &self.csv) {
            (Some(address), _) => format!("{address}: {}", self.query.as_deref().unwrap_or_default()),
            (_, Some(file)) => {
                format!("{}: {}", file.display(), self.value_column.as_deref().unwrap_or_default())
            }
            (None, None) => String::new(),
        }
    }
}

/// What was taken into a run; a line of `imports.jsonl`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Imported {
    /// Name of the import.
    pub name: String,
    /// Unit of the values.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Where it comes from, in words.
    pub source: String,
    /// The series, in order of their names.
    pub series: Vec<ImportedSeries>,
}

/// One series.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportedSeries {
    /// The labels that distinguish it from the others; empty if it is the only one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Times by our clock, seconds since the Unix epoch, and values.
    pub points: Vec<(f64, f64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_has_one_source_and_no_secret() {
        let check = |text: &str, expected: Option<&str>| {
            let import = |name: &str| Import {
                name: name.to_string(),
                ..serde_json::from_str(&format!("{{\"name\": \"x\", {text}}}")).unwrap()
            };
            let said = Import::check_all(&[import("a")]).err();
            assert_eq!(said.is_some(), expected.is_some(), "{text}: {said:?}");
            assert!(said.unwrap_or_default().contains(expected.unwrap_or_default()), "{text}");
            let twice = Import::check_all(&[import("a"), import("a")]).unwrap_err();
            assert!(expected.is_some() || twice.contains("named twice"), "{twice}");
            assert!(Import::check_all(&[import("\n")]).is_err());
        };
        check(r#""prometheus": "http://h:9090", "query": "up""#, None);
        check(r#""csv": "a.csv", "time_column": "t", "value_column": "v", "clock_offset_s": -2.5"#, None);
        check(r#""prometheus": "http://h:9090""#, Some("give prometheus and query, or csv"));
        check(r#""csv": "a.csv", "time_column": "t""#, Some("give prometheus and query, or csv"));
        check(r#""prometheus": "http://h/?token=x", "query": "up""#, Some("an address without `?`"));
        check(r#""prometheus": "http://h", "query": " ""#, Some("query is empty"));
        check(
            r#""csv": "a", "time_column": "t", "value_column": "v", "clock_offset_s": 1e9"#,
            Some("clock_offset_s"),
        );
        check(r#""csv": "a", "time_column": "t", "value_column": "v", "token_env": "T""#, Some("give"));
    }
}
