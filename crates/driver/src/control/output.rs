//! Lines to the parent, and how a load fails.

use std::io::{self, Write};

use model::load::drive::DriverLine;

/// Why a load did not take place, or could not be reported.
pub(crate) enum Failure {
    /// The parent does not listen any more.
    Output(io::Error),
    /// What was wrong and what to do about it.
    Load(String),
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        Failure::Output(e)
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::Load(message)
    }
}

/// Writes one line, at once.
pub(crate) fn say(output: &mut dyn Write, line: &DriverLine) -> io::Result<()> {
    let mut text = serde_json::to_string(line).map_err(io::Error::other)?;
    text.push('\n');
    output.write_all(text.as_bytes())?;
    output.flush()
}
