//! Entries of `[[driver]]` and `--driver`: one machine, all hosts of a file, or the pods of a selection. A plan has one
//! [`DriverSpec`] for each machine.

use core::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::experiment::driver::{DriverSpec, default_program};

/// `[[driver]]`: one machine (`via`), the hosts of a file (`hosts`), or pods of Kubernetes (`kubernetes`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DriverSection {
    /// Name in reports, of one machine; by default the last word of `via` that names a machine.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The command that leads to one machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<String>,
    /// A file with one host a line, each reached by ssh; relative to the experiment file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<PathBuf>,
    /// Pods, each reached by `kubectl exec`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<PodsSection>,
    /// Path of pgdyno there, where a line of `hosts` names no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Whether pgdyno puts a copy of itself there if `program` is missing or another build.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub upload: bool,
    /// The address from which one machine's connections reach a server that pgdyno runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}

/// Pods of one namespace, found by their labels with the user's own `kubectl`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodsSection {
    /// A selection by labels as `kubectl get -l` takes it: `app=pgdyno-driver`.
    pub selector: String,
    /// Namespace; by default that of kubectl's context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Context of kubectl's configuration, which names the cluster; by default the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Container of each pod; by default the one that kubectl chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
}

/// The driver behind an entry, or where its drivers are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriverSource<'a> {
    /// One driver, which the entry names.
    One(DriverSpec),
    /// Hosts, one a line of this file.
    Hosts(&'a PathBuf),
    /// Pods that kubectl finds.
    Pods(&'a PodsSection),
}

impl DriverSection {
    /// The driver of the entry, or where its drivers are listed.
    ///
    /// # Errors
    /// When it names several of `via`, `hosts` and `kubernetes` or none, or gives several drivers the name or address of one.
    pub fn listed(&self) -> Result<DriverSource<'_>, String> {
        let is_one_of_one = self.name.is_empty() && self.address.is_none();
        match (self.via.is_empty(), &self.hosts, &self.kubernetes) {
            (true, None, None) => Err(
                "`via` is missing: the command that leads to the machine, such as [\"ssh\", \"client1\"]; or give \
                 `hosts`, a file, or `kubernetes`, pods"
                    .to_string(),
            ),
            (false, None, None) => Ok(DriverSource::One(self.spec())),
            (true, Some(_), None) | (true, None, Some(_)) if !is_one_of_one => Err(
                "`name` and `address` are for a single driver, which `via` leads to".to_string(),
            ),
            (true, Some(file), None) => Ok(DriverSource::Hosts(file)),
            (true, None, Some(pods)) => Ok(DriverSource::Pods(pods)),
            _ => Err("give one of `via`, `hosts` and `kubernetes`, not several".to_string()),
        }
    }

    /// The driver that `via` leads to.
    fn spec(&self) -> DriverSpec {
        DriverSpec {
            name: self.name.clone(),
            via: self.via.clone(),
            program: self.program.clone().unwrap_or_else(default_program),
            upload: self.upload,
            address: self.address,
        }
        .named()
    }

    /// The entry of one driver.
    #[must_use]
    pub fn new(spec: DriverSpec) -> DriverSection {
        let DriverSpec { name, via, program, upload, address } = spec;
        let program = Some(program).filter(|program| *program != default_program());
        DriverSection { name, via, program, upload, address, ..DriverSection::default() }
    }
}

/// `ssh:HOST` as of [`DriverSpec`], `@FILE`, or `kubectl:NAMESPACE/SELECTOR`.
impl FromStr for DriverSection {
    type Err = String;

    fn from_str(text: &str) -> Result<DriverSection, String> {
        if let Some(file) = text.strip_prefix('@').filter(|file| !file.is_empty()) {
            return Ok(DriverSection { hosts: Some(file.into()), ..DriverSection::default() });
        }
        if let Some(place) = text.strip_prefix("kubectl:") {
            let wrong = || format!("`{text}` names no pods: say kubectl:NAMESPACE/LABEL=VALUE");
            let (namespace, selector) = place.split_once('/').ok_or_else(wrong)?;
            let pods = PodsSection {
                selector: selector.to_string(),
                namespace: Some(namespace.to_string()),
                ..PodsSection::default()
            };
            pods.check().map_err(|_| wrong())?;
            return Ok(DriverSection { kubernetes: Some(pods), ..DriverSection::default() });
        }
        text.parse().map(DriverSection::new).map_err(|error: String| {
            format!("{error}; or @FILE with one host a line, or kubectl:NAMESPACE/LABEL=VALUE")
        })
    }
}

impl PodsSection {
    /// Refuses an empty selection, which would take all pods, and what kubectl could take for an option.
    ///
    /// # Errors
    /// Names the key.
    pub fn check(&self) -> Result<(), String> {
        let given = [
            ("selector", Some(&self.selector)),
            ("namespace", self.namespace.as_ref()),
            ("context", self.context.as_ref()),
            ("container", self.container.as_ref()),
        ];
        for (key, text) in given {
            let is_bad = |text: &&String| text.trim().is_empty() || text.starts_with('-');
            if let Some(text) = text.filter(is_bad) {
                return Err(format!("kubernetes.{key}: `{text}` is empty or begins with `-`"));
            }
        }
        Ok(())
    }
}

/// The hosts of a file: one a line, as after `ssh:` of `--driver`; `#` begins a comment.
///
/// # Errors
/// With the number of the line, from 1; also when the file names no host.
pub fn hosts(text: &str) -> Result<Vec<DriverSpec>, String> {
    let mut found: Vec<(usize, DriverSpec)> = Vec::new();
    for (n, line) in (1..).zip(text.lines()) {
        let host = line.split('#').next().unwrap_or_default().trim();
        if host.is_empty() {
            continue;
        }
        let host = host.strip_prefix("ssh:").unwrap_or(host);
        let spec: DriverSpec = format!("ssh:{host}").parse().map_err(|_| {
            format!("{n}: `{host}` is no host: say HOST, USER@HOST or USER@HOST:PORT, with =PATH of pgdyno there, and one a line")
        })?;
        if let Some((before, _)) = found.iter().find(|(_, other)| other.name == spec.name) {
            return Err(format!("{n}: `{}` is already in line {before}", spec.name));
        }
        found.push((n, spec));
    }
    if found.is_empty() {
        Err("1: it names no host".to_string())
    } else {
        Ok(found.into_iter().map(|(_, spec)| spec).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_hosts_has_one_a_line_and_mistakes_have_their_line() {
        let names = |text: &str| -> Result<Vec<String>, String> {
            Ok(hosts(text)?.into_iter().map(|spec| spec.via[1..].join(" ") + " " + &spec.program).collect())
        };
        let text = "# clients\nclient1\n\n  me@client2:2222=/opt/pgdyno  # the slow one\r\nssh:client3\n";
        assert_eq!(
            names(text).unwrap(),
            ["-- client1 pgdyno", "-p2222 -- me@client2 /opt/pgdyno", "-- client3 pgdyno"]
        );
        for (text, expected) in [
            ("a\nb c\n", "2: `b c` is no host"),
            ("a\n\n-oProxyCommand=x\n", "3: `-oProxyCommand=x` is no host"),
            ("a\n# b\na\n", "3: `a` is already in line 1"),
            ("# nobody\n", "1: it names no host"),
        ] {
            let error = names(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn an_option_names_one_machine_a_file_or_pods() {
        let read = |text: &str| text.parse::<DriverSection>();
        let one = read("ssh:a=/opt/pgdyno").unwrap();
        let DriverSource::One(spec) = one.listed().unwrap() else { panic!("{one:?}") };
        assert_eq!((spec.name.as_str(), spec.program.as_str()), ("a", "/opt/pgdyno"));
        assert_eq!(read("@hosts.txt").unwrap().hosts, Some("hosts.txt".into()));
        let pods = read("kubectl:bench/app=pgdyno,tier in (a,b)").unwrap();
        let DriverSource::Pods(pods) = pods.listed().unwrap() else { panic!("{pods:?}") };
        assert_eq!(pods.selector, "app=pgdyno,tier in (a,b)");
        assert_eq!(pods.namespace.as_deref(), Some("bench"));
        for text in ["@", "kubectl:app=x", "kubectl:/app=x", "kubectl:bench/", "kubectl:-n/app=x", "client1"]
        {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(&format!("`{text}` names no ")), "{error}");
        }
    }

    #[test]
    fn an_entry_is_one_thing() {
        let check = |entry: DriverSection, expected: &str| {
            let error = entry.listed().unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        let (via, hosts) = (vec!["ssh".to_string(), "a".to_string()], Some(PathBuf::from("h")));
        check(DriverSection::default(), "`via` is missing");
        check(DriverSection { via, hosts: hosts.clone(), ..DriverSection::default() }, "not several");
        let name = "a".to_string();
        check(DriverSection { name, hosts, ..DriverSection::default() }, "for a single driver");
    }
}
