//! The types that a key may have: whether it may vary follows from its type.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::directory::{Replay, Speed};
use crate::experiment::case::workload::WorkloadName;
use crate::experiment::case::{Build, Calls, Isolation, OnLostConnection, PartitionMethod, Think, Tls};
use crate::experiment::driver::DriverSpec;
use crate::experiment::keys::levels::Levels;
use crate::experiment::keys::workload::DirectoryTexts;
use crate::experiment::os::{HugePages, Numa, TransparentHugePages, WalPolicy};
use crate::experiment::plan::condition::Condition;
use crate::experiment::plan::{Design, RunOrder};
use crate::experiment::prepare::RestoreBy;
use crate::experiment::script::archive::RestoreFrom;
use crate::experiment::script::{DataChoice, ScriptEntry};
use crate::experiment::selector::Selector;
use crate::experiment::topology::pooler::{PoolMode, PoolerAdmin, PoolerKind};
use crate::experiment::topology::{ArchiveKind, ByteRate, Reads, RoundTrip, Synchronous};
use crate::load::course::RampUp;
use crate::load::{Pace, PollerChoice, Protocol};
use crate::text::share::Share;
use crate::text::units::{PgVersion, Scale, SettingValue, Span};

/// Values by names of the user's: settings, variables, factors.
pub type Named = BTreeMap<String, Levels<SettingValue>>;

/// The value of a key as a section has it.
pub trait KeyValue {
    /// Whether a list makes the key a factor.
    const MAY_VARY: bool = false;
    /// Whether it has names of the user's.
    const IS_NAMED: bool = false;

    /// The value that a combination has.
    type Chosen: Serialize + DeserializeOwned;

    /// The level that a combination has, given its number by key; `None` for a key that does not vary there.
    fn chosen(&self, key: &str, level: &dyn Fn(&str) -> Option<usize>) -> Self::Chosen;

    /// A level as cases write it, if they have a form of their own for it.
    fn as_cases_write(_text: &str) -> Option<String> {
        None
    }

    /// What of it varies or could, each with its levels as text.
    fn dimensions(&self, _key: &str) -> Vec<(String, Vec<String>)> {
        Vec::new()
    }

    /// Keeps the levels whose text is one of those wanted; without any, the key is left out if it can be.
    fn keep(&mut self, _is_kept: &dyn Fn(&str) -> bool) {}
}

/// The name of a row: the key, or the key with a name of the user's.
pub(super) const fn name<T: KeyValue>(key: &'static str, with_name: &'static str) -> &'static str {
    if T::IS_NAMED { with_name } else { key }
}

/// What one level of a key may be.
pub trait Level: LevelText + Clone + Serialize + DeserializeOwned {}

impl<T: LevelText + Clone + Serialize + DeserializeOwned> Level for T {}

/// What a combination has of a key, as cases carry it.
pub(super) fn value_of<T: Serialize>(chosen: &T) -> Value {
    serde_json::to_value(chosen).expect("values of keys are JSON")
}

/// Fails for what is no value that a combination can have.
pub(super) fn reads<T: KeyValue>(value: &Value) -> Result<(), serde_json::Error> {
    <T::Chosen as serde::Deserialize>::deserialize(value).map(drop)
}

/// A level as plans and selectors write it.
pub trait LevelText {
    /// The text.
    fn text(&self) -> String;

    /// What somebody else may have written, in this form; `None` for a type with one form, and for what is no value of it.
    fn rewritten(_text: &str) -> Option<String> {
        None
    }
}

fn kept<T: LevelText + Clone>(levels: &Levels<T>, is_kept: &dyn Fn(&str) -> bool) -> Option<Levels<T>> {
    Levels::many(levels.all().iter().filter(|level| is_kept(&level.text())).cloned().collect())
}

fn texts<T: LevelText>(levels: &Levels<T>) -> Vec<String> {
    levels.all().iter().map(LevelText::text).collect()
}

impl<T: Level> KeyValue for Levels<T> {
    const MAY_VARY: bool = true;

    type Chosen = T;

    fn chosen(&self, key: &str, level: &dyn Fn(&str) -> Option<usize>) -> T {
        self.all()[level(key).unwrap_or(0)].clone()
    }

    fn as_cases_write(text: &str) -> Option<String> {
        T::rewritten(text)
    }

    fn dimensions(&self, key: &str) -> Vec<(String, Vec<String>)> {
        vec![(key.to_string(), texts(self))]
    }

    fn keep(&mut self, is_kept: &dyn Fn(&str) -> bool) {
        if let Some(kept) = kept(self, is_kept) {
            *self = kept;
        }
    }
}

impl<T: Level> KeyValue for Option<Levels<T>> {
    const MAY_VARY: bool = true;

    type Chosen = Option<T>;

    fn chosen(&self, key: &str, level: &dyn Fn(&str) -> Option<usize>) -> Option<T> {
        let (levels, n) = self.as_ref().zip(level(key))?;
        Some(levels.all()[n].clone())
    }

    fn as_cases_write(text: &str) -> Option<String> {
        T::rewritten(text)
    }

    fn dimensions(&self, key: &str) -> Vec<(String, Vec<String>)> {
        self.iter().map(|levels| (key.to_string(), texts(levels))).collect()
    }

    fn keep(&mut self, is_kept: &dyn Fn(&str) -> bool) {
        *self = self.take().and_then(|levels| kept(&levels, is_kept));
    }
}

impl KeyValue for Named {
    const MAY_VARY: bool = true;
    const IS_NAMED: bool = true;

    type Chosen = BTreeMap<String, String>;

    fn chosen(&self, key: &str, level: &dyn Fn(&str) -> Option<usize>) -> BTreeMap<String, String> {
        let of = |(name, levels): (&String, &Levels<SettingValue>)| {
            let n = level(&format!("{key}.{name}"))?;
            Some((name.clone(), levels.all()[n].text()))
        };
        self.iter().filter_map(of).collect()
    }

    fn dimensions(&self, key: &str) -> Vec<(String, Vec<String>)> {
        self.iter().map(|(name, levels)| (format!("{key}.{name}"), texts(levels))).collect()
    }
}

/// Types of levels that are displayed as files write them.
macro_rules! displayed {
    ($($level:ty),+ $(,)?) => {
        $(impl LevelText for $level {
            fn text(&self) -> String {
                self.to_string()
            }
        })+
    };
}

displayed!(
    bool,
    u32,
    u64,
    f64,
    String,
    PgVersion,
    SettingValue,
    PollerChoice,
    Protocol,
    Tls,
    Calls,
    Think,
    Isolation,
    PartitionMethod,
    PoolerKind,
    PoolMode,
    WorkloadName,
    WalPolicy,
    RestoreBy,
    HugePages,
    TransparentHugePages,
    Numa,
    Reads,
    ArchiveKind,
);

/// Types of levels that files may write in several forms.
macro_rules! rewritten {
    ($($level:ty),+ $(,)?) => {
        $(impl LevelText for $level {
            fn text(&self) -> String {
                self.to_string()
            }

            fn rewritten(text: &str) -> Option<String> {
                text.parse::<$level>().ok().map(|level| level.text())
            }
        })+
    };
}

rewritten!(Span, Scale, RampUp, Synchronous, RoundTrip, ByteRate);

impl LevelText for Pace {
    fn text(&self) -> String {
        self.to_string()
    }

    fn rewritten(text: &str) -> Option<String> {
        // A bare number is a rate.
        let pace = text.parse::<Pace>().or_else(|_| format!("{text}/s").parse());
        pace.ok().map(|pace| pace.text())
    }
}

impl LevelText for PathBuf {
    fn text(&self) -> String {
        self.display().to_string()
    }
}

/// Types of keys that cannot vary, given or absent.
macro_rules! single {
    ($($value:ty),+ $(,)?) => {
        $(
            impl KeyValue for $value {
                type Chosen = $value;

                fn chosen(&self, _key: &str, _level: &dyn Fn(&str) -> Option<usize>) -> $value {
                    Clone::clone(self)
                }
            }

            impl KeyValue for Option<$value> {
                type Chosen = Option<$value>;

                fn chosen(&self, _key: &str, _level: &dyn Fn(&str) -> Option<usize>) -> Option<$value> {
                    Clone::clone(self)
                }
            }
        )+
    };
}

single!(
    bool,
    u32,
    u64,
    f64,
    String,
    Span,
    Share,
    PathBuf,
    Design,
    RunOrder,
    Build,
    DriverSpec,
    OnLostConnection,
    PoolerAdmin,
    DataChoice,
    Replay,
    Speed,
    RestoreFrom,
    DirectoryTexts,
    Selector,
    Vec<String>,
    Vec<Vec<String>>,
    Vec<Selector>,
    Vec<Condition>,
    Vec<ScriptEntry>,
);
