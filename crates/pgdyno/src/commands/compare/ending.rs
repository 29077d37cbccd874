//! How the measuring of a comparison ended, and which exit code that leads to.

use anyhow::Result;

use crate::{Exit, say};

/// How the measuring of a comparison ended.
#[derive(Debug)]
pub(crate) enum CompareEnding {
    /// With all that was planned, or as much of it as the verdict needs.
    Whole,
    /// By itself, and runs are missing.
    Incomplete,
    /// On request.
    Stopped,
    /// With an error, after something had been measured.
    Failed(anyhow::Error),
}

impl CompareEnding {
    /// The exit code, given that of the comparison of what was measured. Says an error that it does not return.
    ///
    /// # Errors
    /// Those of the comparison, unless it lacks what was not measured.
    pub(crate) fn exit(self, of_comparison: Result<Exit>) -> Result<Exit> {
        match (self, of_comparison) {
            (CompareEnding::Failed(error), _) | (CompareEnding::Stopped, Err(error)) => {
                say(&format!("pgdyno: error: {error:#}"));
                Ok(Exit::Partial)
            }
            (CompareEnding::Stopped | CompareEnding::Incomplete, Ok(_)) => Ok(Exit::Partial),
            (CompareEnding::Whole | CompareEnding::Incomplete, exit) => exit,
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn what_was_stopped_or_failed_after_a_part_is_partial_even_if_the_part_is_void() {
        let void = || Err(anyhow!("the sides differ"));
        for (ending, of_comparison, expected) in [
            (CompareEnding::Stopped, void(), Some(Exit::Partial)),
            (CompareEnding::Stopped, Ok(Exit::Different), Some(Exit::Partial)),
            (CompareEnding::Failed(anyhow!("no space")), void(), Some(Exit::Partial)),
            (CompareEnding::Incomplete, Ok(Exit::Done), Some(Exit::Partial)),
            (CompareEnding::Incomplete, void(), None),
            (CompareEnding::Whole, void(), None),
            (CompareEnding::Whole, Ok(Exit::Different), Some(Exit::Different)),
        ] {
            let words = format!("{ending:?} with {of_comparison:?}");
            assert_eq!(ending.exit(of_comparison).ok(), expected, "{words}");
        }
    }
}
