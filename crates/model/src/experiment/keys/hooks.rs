//! `[hooks]`: commands of the user, which no shell sees, before and after cases and runs.

use serde::{Deserialize, Serialize};

use super::row::{KeyKind, of_place};
use super::section;
use crate::text::units::Span;

section! {
    /// `[hooks]`: commands of the user, which no shell sees, before and after cases and runs.
    #[serde(deny_unknown_fields, default)]
    hooks: HooksSection {
        /// a command and its arguments, called when the case changes
        #[serde(skip_serializing_if = "Vec::is_empty")]
        BEFORE_CASE = before_case: Vec<String>,
            of_place(KeyKind::List(&KeyKind::Text), "none");

        /// a command and its arguments, called when the case changes
        #[serde(skip_serializing_if = "Vec::is_empty")]
        AFTER_CASE = after_case: Vec<String>,
            of_place(KeyKind::List(&KeyKind::Text), "none");

        /// a command and its arguments, called around each run
        #[serde(skip_serializing_if = "Vec::is_empty")]
        BEFORE_RUN = before_run: Vec<String>,
            of_place(KeyKind::List(&KeyKind::Text), "none");

        /// a command and its arguments, called around each run
        #[serde(skip_serializing_if = "Vec::is_empty")]
        AFTER_RUN = after_run: Vec<String>,
            of_place(KeyKind::List(&KeyKind::Text), "none");

        /// time limit of each command of a hook
        #[serde(skip_serializing_if = "Option::is_none")]
        TIMEOUT = timeout: Option<Span>,
            of_place(KeyKind::Seconds(1), "`10min`");
    }
}
