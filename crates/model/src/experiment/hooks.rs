//! `[hooks]`: commands of the user before and after cases and runs, for what pgdyno cannot set itself.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use crate::experiment::keys::hooks::HooksSection;
use crate::text::units::Span;
use crate::text::word_enum::words;

/// Seconds that a command may take if the file does not say.
const TIMEOUT_S: u32 = 600;

words! {
    /// The moment of a hook.
    Hook, "a hook" {
        /// Before the first run of a case, and whenever the case before was another one.
        #[default]
        BeforeCase = "before_case",
        /// After the last run of a case, and whenever the next one is another case.
        AfterCase = "after_case",
        /// Before each run, ahead of the restore of its data.
        BeforeRun = "before_run",
        /// After each run whose `before_run` was called, also if it failed.
        AfterRun = "after_run",
    }
}

impl HooksSection {
    /// Whether none is given.
    pub fn is_empty(&self) -> bool {
        *self == HooksSection::default()
    }

    /// The hooks as a case has them.
    ///
    /// # Errors
    /// Names the key that is wrong.
    pub fn spec(&self) -> Result<HooksSpec, String> {
        let spec = HooksSpec {
            before_case: self.before_case.clone(),
            after_case: self.after_case.clone(),
            before_run: self.before_run.clone(),
            after_run: self.after_run.clone(),
            timeout_s: self.timeout.and_then(Span::whole_s).unwrap_or(TIMEOUT_S),
        };
        // A case without hooks is recorded without any trace of them.
        if spec.is_empty() {
            return Ok(HooksSpec::default());
        }
        for hook in Hook::ALL {
            let words = spec.words(hook);
            if words.first().is_some_and(String::is_empty) || words.iter().any(|word| word.contains('\0')) {
                return Err(format!(
                    "hooks.{hook}: not a command: the program is empty, or a word holds a zero byte"
                ));
            }
        }
        Ok(spec)
    }
}

/// The hooks of a case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct HooksSpec {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before_case: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after_case: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before_run: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after_run: Vec<String>,
    /// Time limit of each command, seconds.
    pub timeout_s: u32,
}

impl HooksSpec {
    /// The command of a hook; empty if there is none.
    pub fn words(&self, hook: Hook) -> &[String] {
        match hook {
            Hook::BeforeCase => &self.before_case,
            Hook::AfterCase => &self.after_case,
            Hook::BeforeRun => &self.before_run,
            Hook::AfterRun => &self.after_run,
        }
    }

    /// Whether there are no commands.
    pub fn is_empty(&self) -> bool {
        Hook::ALL.iter().all(|hook| self.words(*hook).is_empty())
    }
}
