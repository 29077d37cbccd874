//! `[[outage]]`: a fault that is injected while the load runs, and what follows it. Each is a level of the factor `outage`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{ByteRate, RoundTrip};
use crate::text::units::{Span, as_text};

/// Most outages of an experiment. Our convention.
pub const OUTAGES_MAX: usize = 50;

/// The outages of an experiment: tables, or their faults alone (`outage = ["kill-primary", "switchover"]`).
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Outages(pub Vec<OutageSection>);

/// One table `[[outage]]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutageSection {
    /// What is done; several are levels.
    #[serde(rename = "do")]
    pub faults: Faults,
    /// Its name among the levels, if `do` is not enough to tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When, after the load began: `"30s"`, or `"uniform(30s, 60s)"`, of which each repeat gets a stratum; the middle third of the
    /// measurement if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Moment>,
    /// What a manager of the cluster would do about it: `"promote s1 after 1s"`, `"restart after 1s"`, `"nothing"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Then>,
    /// How long it lasts until it is undone; until the load has ended if it is left out.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
    /// The user's command that does it, of `do = "hook"`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run: Vec<String>,
    /// The user's command that undoes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undo: Vec<String>,
    /// The user's command that shows, by exit code 0, that it happened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check: Vec<String>,
    /// Texts of the files of SQL that `load NODE FILE` names, by these names; read from the files if they are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scripts: BTreeMap<String, String>,
}

/// A level of the factor `outage`.
#[derive(Debug, Clone, PartialEq)]
pub struct OutageLevel<'a> {
    /// Name of it.
    pub name: String,
    /// The table that it is of.
    pub table: &'a OutageSection,
    /// One of the table's faults.
    pub fault: &'a Fault,
}

/// The outage of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutageSpec {
    /// Name among the levels.
    pub name: String,
    /// The fault.
    pub fault: Fault,
    /// From when to when it may begin, seconds after `go`.
    pub from_s: f64,
    /// The end of that interval, seconds.
    pub to_s: f64,
    /// The steps that follow.
    pub then: Then,
    /// How long it lasts until it is undone, seconds; `None`: until the load has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts_s: Option<f64>,
    /// The user's command that does it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run: Vec<String>,
    /// The user's command that undoes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undo: Vec<String>,
    /// The user's command that shows that it happened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check: Vec<String>,
    /// The SQL that `load NODE FILE` runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
}

/// How long a pooler may wait for the transactions that run until it is paused, seconds.
pub const PAUSING_S_MAX: u32 = 10;

impl OutageSpec {
    /// How long the clients of a pooler may be held back by it, seconds; 0 of faults that hold nobody back.
    pub fn pooler_paused_s(&self) -> f64 {
        match self.fault {
            Fault::Switchover => self.lasts_s.unwrap_or(0.0).max(f64::from(PAUSING_S_MAX)),
            _ => 0.0,
        }
    }
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Fault {
    /// SIGKILL to the postmaster of the primary and to all its processes.
    KillPrimary,
    /// The same for a standby: `kill-standby` (of `s1`), `kill-standby s2`.
    KillStandby(String),
    /// A stop of the primary in the mode `fast` or `immediate`: `stop-primary immediate`.
    StopPrimary {
        /// Whether it is an immediate one.
        is_immediate: bool,
    },
    /// A planned change of roles: a fast stop of the primary, all of its WAL replayed, `s1` promoted.
    Switchover,
    /// SIGSTOP to all processes of a node, or to those of one kind: `freeze s1`, `freeze startup@s1`.
    Freeze {
        /// The kind of its processes: `startup`, `walreceiver`; all of them if it is left out.
        process: Option<String>,
        /// The node: `primary`, `s1`.
        node: String,
    },
    /// The way between a standby and its upstream swallows everything: `cut s1`.
    Cut(String),
    /// The same, and the primary is killed so long after: `cut-and-kill s1 500ms`.
    CutAndKill {
        /// The standby.
        node: String,
        /// How long the way is cut before, milliseconds.
        after_ms: u64,
    },
    /// The way between a standby and its upstream takes so much longer, there and back: `slow s1 20ms`.
    Slow {
        /// The standby.
        node: String,
        /// Round trip that is added.
        added: RoundTrip,
    },
    /// No more than so many bytes per second pass each way between a standby and its upstream: `throttle s1 1MB/s`.
    Throttle {
        /// The standby.
        node: String,
        /// The rate.
        rate: ByteRate,
    },
    /// A file of SQL that a session of a superuser runs on a node, statement by statement, until it is cancelled: `load s1 report.sql`.
    Load {
        /// The node: `primary`, `s1`.
        node: String,
        /// The file, as it was named.
        file: String,
    },
    /// The user's command.
    Hook,
}

/// The steps that follow a fault.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Then {
    /// Nothing.
    #[default]
    Nothing,
    /// A standby is promoted so many seconds after the fault.
    Promote {
        /// Name of it.
        node: String,
        /// The time that a manager takes to notice, seconds.
        after_s: f64,
    },
    /// The node that was hit is started again so many seconds after the fault.
    Restart {
        /// The time that a manager takes to notice, seconds.
        after_s: f64,
    },
}

/// When a fault is injected.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Moment {
    /// From when, seconds after `go`.
    pub from_s: f64,
    /// To when; the same for a fixed moment.
    pub to_s: f64,
}

/// One fault, or several.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Faults(pub Vec<Fault>);

impl OutageSection {
    /// The table that a fault alone stands for; `hook:PROGRAM` is a program that is called with `do`, `check` and `undo`.
    fn from_fault(text: &str) -> Result<OutageSection, String> {
        let Some(program) = text.strip_prefix("hook:").map(str::trim) else {
            return Ok(OutageSection { faults: Faults(vec![text.parse()?]), ..OutageSection::default() });
        };
        if program.is_empty() {
            return Err(format!("`{text}` names no program: hook:./kill-leader.sh"));
        }
        let call = |word: &str| vec![program.to_string(), word.to_string()];
        Ok(OutageSection {
            faults: Faults(vec![Fault::Hook]),
            name: Some(text.to_string()),
            run: call("do"),
            undo: call("undo"),
            check: call("check"),
            ..OutageSection::default()
        })
    }
}

impl Fault {
    /// Forms of all faults, for messages.
    pub const FORMS: &str = "kill-primary, kill-standby [NODE], stop-primary [immediate], switchover, freeze [PROCESS@]NODE, cut NODE, cut-and-kill NODE TIME, slow NODE TIME, throttle NODE RATE, load NODE FILE, hook";

    /// The node that it hits; `None` for the user's command.
    pub fn node(&self) -> Option<&str> {
        match self {
            Fault::KillPrimary | Fault::StopPrimary { .. } | Fault::Switchover => Some(PRIMARY),
            Fault::KillStandby(node)
            | Fault::Freeze { node, .. }
            | Fault::Cut(node)
            | Fault::CutAndKill { node, .. }
            | Fault::Slow { node, .. }
            | Fault::Throttle { node, .. }
            | Fault::Load { node, .. } => Some(node),
            Fault::Hook => None,
        }
    }

    /// The file of SQL that it runs.
    pub fn script(&self) -> Option<&str> {
        match self {
            Fault::Load { file, .. } => Some(file),
            _ => None,
        }
    }

    /// Whether it is about the way between a standby and its upstream, which then leads through a relay.
    pub fn is_of_way(&self) -> bool {
        matches!(self, Fault::Cut(_) | Fault::CutAndKill { .. } | Fault::Slow { .. } | Fault::Throttle { .. })
    }

    /// Whether the primary is gone after it.
    pub fn ends_primary(&self) -> bool {
        matches!(
            self,
            Fault::KillPrimary | Fault::CutAndKill { .. } | Fault::StopPrimary { .. } | Fault::Switchover
        )
    }
}

/// The name of the server that takes writes.
pub const PRIMARY: &str = "primary";

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Fault::KillPrimary => f.write_str("kill-primary"),
            Fault::KillStandby(node) => write!(f, "kill-standby {node}"),
            Fault::StopPrimary { is_immediate: false } => f.write_str("stop-primary"),
            Fault::StopPrimary { is_immediate: true } => f.write_str("stop-primary immediate"),
            Fault::Switchover => f.write_str("switchover"),
            Fault::Freeze { process: None, node } => write!(f, "freeze {node}"),
            Fault::Freeze { process: Some(process), node } => write!(f, "freeze {process}@{node}"),
            Fault::Cut(node) => write!(f, "cut {node}"),
            Fault::CutAndKill { node, after_ms } => write!(f, "cut-and-kill {node} {after_ms}ms"),
            Fault::Slow { node, added } => write!(f, "slow {node} {added}"),
            Fault::Throttle { node, rate } => write!(f, "throttle {node} {rate}"),
            Fault::Load { node, file } => write!(f, "load {node} {file}"),
            Fault::Hook => f.write_str("hook"),
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Fault, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let node = |text: &str| match text {
            PRIMARY => Ok(text.to_string()),
            _ => {
                let number = text.strip_prefix('s').and_then(|n| n.parse::<u32>().ok());
                let is_known = number.is_some_and(|n| n >= 1 && text == format!("s{n}"));
                if is_known {
                    Ok(text.to_string())
                } else {
                    Err(format!("`{text}` is no node: primary, s1, s2, …"))
                }
            }
        };
        match words.as_slice() {
            ["kill-primary"] => Ok(Fault::KillPrimary),
            ["kill-standby"] => Ok(Fault::KillStandby("s1".to_string())),
            ["kill-standby", name] => node(name).map(Fault::KillStandby),
            ["stop-primary"] | ["stop-primary", "fast"] => Ok(Fault::StopPrimary { is_immediate: false }),
            ["stop-primary", "immediate"] => Ok(Fault::StopPrimary { is_immediate: true }),
            ["switchover"] => Ok(Fault::Switchover),
            ["freeze", what] => match what.split_once('@') {
                Some((process, name)) => {
                    Ok(Fault::Freeze { process: Some(process.to_string()), node: node(name)? })
                }
                None => Ok(Fault::Freeze { process: None, node: node(what)? }),
            },
            ["cut", name] => node(name).map(Fault::Cut),
            ["cut-and-kill", name, time] => {
                Ok(Fault::CutAndKill { node: node(name)?, after_ms: (seconds(time)? * 1000.0) as u64 })
            }
            ["slow", name, time] => match time.parse()? {
                RoundTrip::ZERO => Err(format!("`{text}` adds nothing: slow s1 20ms")),
                added => Ok(Fault::Slow { node: node(name)?, added }),
            },
            ["throttle", name, rate] => Ok(Fault::Throttle { node: node(name)?, rate: rate.parse()? }),
            // A name of a file may have spaces.
            ["load", name, _, ..] => {
                let file = after_words(text, 2).trim_end().to_string();
                Ok(Fault::Load { node: node(name)?, file })
            }
            ["fill", ..] => Err(format!(
                "`{text}`: pgdyno fills no file system, since it cannot show that the one of a node holds nothing of others; do it with \
                 do = \"hook\" and commands of yours"
            )),
            ["hook"] => Ok(Fault::Hook),
            _ => Err(format!("`{text}` is no fault: {}", Fault::FORMS)),
        }
    }
}

impl fmt::Display for Then {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Then::Nothing => f.write_str("nothing"),
            Then::Promote { node, after_s } => write!(f, "promote {node} after {after_s}s"),
            Then::Restart { after_s } => write!(f, "restart after {after_s}s"),
        }
    }
}

impl FromStr for Then {
    type Err = String;

    fn from_str(text: &str) -> Result<Then, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            ["nothing"] => Ok(Then::Nothing),
            ["restart"] => Ok(Then::Restart { after_s: 0.0 }),
            ["restart", "after", time] => Ok(Then::Restart { after_s: seconds(time)? }),
            ["promote", node] => Ok(Then::Promote { node: node.to_string(), after_s: 0.0 }),
            ["promote", node, "after", time] => {
                Ok(Then::Promote { node: node.to_string(), after_s: seconds(time)? })
            }
            _ => Err(format!(
                "`{text}` does not say what follows: \"promote s1 after 1s\", \"restart after 1s\", \"nothing\""
            )),
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.from_s == self.to_s {
            return write!(f, "{}s", self.from_s);
        }
        write!(f, "uniform({}s, {}s)", self.from_s, self.to_s)
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Moment, String> {
        let text = text.trim();
        let Some(range) = text.strip_prefix("uniform(").and_then(|rest| rest.strip_suffix(')')) else {
            let at = seconds(text)?;
            return Ok(Moment { from_s: at, to_s: at });
        };
        let refused = || format!("`{text}` is no interval: \"uniform(30s, 60s)\"");
        let (from, to) = range.split_once(',').ok_or_else(refused)?;
        let (from_s, to_s) = (seconds(from.trim())?, seconds(to.trim())?);
        if from_s < to_s { Ok(Moment { from_s, to_s }) } else { Err(refused()) }
    }
}

/// What follows so many words of a text.
fn after_words(text: &str, n: usize) -> &str {
    (0..n)
        .fold(text.trim_start(), |rest, _| rest.trim_start_matches(|c: char| !c.is_whitespace()).trim_start())
}

/// A duration as text, in seconds.
fn seconds(text: &str) -> Result<f64, String> {
    text.parse::<Span>().map(|span| span.ms as f64 / 1000.0)
}

as_text!(Fault, Then, Moment);

impl<'de> Deserialize<'de> for Faults {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Faults, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a fault such as \"kill-primary\", or a list of faults")]
        enum Given {
            One(String),
            Several(Vec<String>),
        }
        let texts = match Given::deserialize(from)? {
            Given::One(text) => vec![text],
            Given::Several(texts) => texts,
        };
        let faults = texts.iter().map(|text| text.parse()).collect::<Result<Vec<Fault>, String>>();
        match faults.map_err(serde::de::Error::custom)? {
            faults if faults.is_empty() => Err(serde::de::Error::custom("do is empty: name a fault")),
            faults => Ok(Faults(faults)),
        }
    }
}

impl<'de> Deserialize<'de> for Outages {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Outages, D::Error> {
        from.deserialize_any(GivenOutages)
    }
}

/// Reads tables, or faults alone, and names what is wrong with one where it stands.
struct GivenOutages;

impl<'de> Visitor<'de> for GivenOutages {
    type Value = Outages;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("tables [[outage]], or faults such as \"kill-primary\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Outages, E> {
        Ok(Outages(vec![OutageSection::from_fault(text).map_err(E::custom)?]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Outages, A::Error> {
        let mut tables = Vec::new();
        while let Some(GivenOutage(table)) = all.next_element()? {
            tables.push(table);
        }
        Ok(Outages(tables))
    }
}

/// One table, or one fault alone.
struct GivenOutage(OutageSection);

impl<'de> Deserialize<'de> for GivenOutage {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<GivenOutage, D::Error> {
        struct One;

        impl<'de> Visitor<'de> for One {
            type Value = GivenOutage;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a table [[outage]], or a fault such as \"kill-primary\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<GivenOutage, E> {
                OutageSection::from_fault(text).map(GivenOutage).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<GivenOutage, A::Error> {
                OutageSection::deserialize(MapAccessDeserializer::new(table)).map(GivenOutage)
            }
        }

        from.deserialize_any(One)
    }
}

impl Outages {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The levels of the factor `outage`: the name of each, and its table and fault.
    pub fn levels(&self) -> Vec<OutageLevel<'_>> {
        let of_table = |table: &'_ OutageSection| table.faults.0.len();
        self.0
            .iter()
            .flat_map(|table| table.faults.0.iter().map(move |fault| (table, fault)))
            .map(|(table, fault)| {
                let name = match (&table.name, of_table(table)) {
                    (Some(name), 1) => name.clone(),
                    (Some(name), _) => format!("{name} {fault}"),
                    (None, _) => fault.to_string(),
                };
                OutageLevel { name, table, fault }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_as_they_are_written() {
        for text in [
            "kill-primary",
            "kill-standby s2",
            "stop-primary",
            "stop-primary immediate",
            "switchover",
            "freeze s1",
            "freeze startup@s1",
            "cut s1",
            "cut-and-kill s1 500ms",
            "slow s1 20ms",
            "throttle s1 1MB/s",
            "load s1 reports/a b.sql",
            "load s1 s",
            "load s1 s1",
            "load primary primary load",
            "hook",
        ] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "kill",
            "kill-standby x1",
            "freeze",
            "freeze startup@",
            "cut s0",
            "stop-primary smart",
            "slow s1",
            "slow s1 0ms",
            "throttle s1 1MB",
            "throttle primary",
            "load s1",
        ] {
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
    }

    #[test]
    fn moments_and_what_follows_are_read_as_they_are_written() {
        for text in ["30s", "0.5s", "uniform(30s, 60s)"] {
            assert_eq!(text.parse::<Moment>().unwrap().to_string(), text);
        }
        for text in ["uniform(60s, 30s)", "uniform(1s)", "soon"] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
        for text in ["nothing", "promote s1 after 1s", "restart after 0.5s"] {
            assert_eq!(text.parse::<Then>().unwrap().to_string(), text);
        }
        assert!("wait".parse::<Then>().is_err());
    }

    #[test]
    fn tables_and_faults_alone_are_outages() {
        #[derive(Deserialize)]
        struct File {
            outage: Outages,
        }
        let levels = |text: &str| {
            let file: File = toml::from_str(text).unwrap();
            file.outage.levels().into_iter().map(|level| level.name).collect::<Vec<_>>()
        };
        assert_eq!(levels("outage = \"kill-primary\""), ["kill-primary"]);
        assert_eq!(levels("outage = [\"kill-primary\", \"switchover\"]"), ["kill-primary", "switchover"]);
        let tables = "[[outage]]\ndo = [\"kill-primary\", \"switchover\"]\n[[outage]]\ndo = \"freeze s1\"\nname = \"ice\"\nfor = \"2s\"\n";
        assert_eq!(levels(tables), ["kill-primary", "switchover", "ice"]);
        let hook: File = toml::from_str("outage = \"hook:./x.sh\"").unwrap();
        assert_eq!(hook.outage.0[0].undo, ["./x.sh", "undo"]);
        for (text, expected) in [
            ("outage = \"hook:\"", "names no program"),
            ("[[outage]]\ndo = \"unplug\"", "`unplug` is no fault"),
            ("outage = [\"unplug\"]", "`unplug` is no fault"),
            ("outage = [\"fill s1\"]", "it cannot show that the one of a node holds nothing of others"),
            ("[[outage]]\nname = \"x\"", "missing field `do`"),
        ] {
            let refused = toml::from_str::<File>(text).map(|_| ()).unwrap_err().to_string();
            assert!(refused.contains(expected), "{text}: {refused}");
        }
    }
}
