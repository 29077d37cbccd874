//! What a command line lacks before an experiment is measured again: servers, and consents. All of it is asked for at once.

use anyhow::{Error, Result};
use wire::Conninfo;

use super::servers::Unnamed;
use crate::front::ask::Ask;

/// Servers and consents that are missing.
#[derive(Debug, Default)]
pub(super) struct Lacks {
    servers: Option<Unnamed>,
    commands: Option<Ask>,
    size: Option<Ask>,
}

impl Lacks {
    /// Takes down that servers have no name here.
    ///
    /// # Errors
    /// Any other reason.
    pub(super) fn servers(&mut self, chosen: Result<Vec<Conninfo>>) -> Result<Vec<Conninfo>> {
        chosen.or_else(|error| {
            self.servers = Some(error.downcast::<Unnamed>()?);
            Ok(Vec::new())
        })
    }

    pub(super) fn needs_servers(&self) -> bool {
        self.servers.is_some()
    }

    /// Takes down that a consent is missing.
    ///
    /// # Errors
    /// Any other reason.
    pub(super) fn consent(&mut self, decided: Result<()>) -> Result<()> {
        decided.or_else(|error| {
            self.commands = Some(error.downcast::<Ask>()?);
            Ok(())
        })
    }

    /// Takes down why the plan needs a consent to its length, if it does.
    pub(super) fn time(&mut self, why: Option<String>) {
        self.size = why.map(Ask::size);
    }

    /// Fails with all that is missing. A page shows the consent to commands first, and asks for that to the length when it has it.
    ///
    /// # Errors
    /// When something is.
    pub(super) fn expect_nothing(self) -> Result<()> {
        let Lacks { servers, commands, size } = self;
        let mut words: Vec<String> = servers.map(|servers| servers.to_string()).into_iter().collect();
        let last = match (commands, size) {
            (Some(commands), size) => {
                words.extend(size.map(|size| size.to_string()));
                Some(commands)
            }
            (None, size) => size,
        };
        match (last, words.is_empty()) {
            (None, true) => Ok(()),
            (None, false) => Err(Error::msg(words.join("; besides, "))),
            (Some(ask), true) => Err(ask.into()),
            (Some(ask), false) => Err(Error::from(ask).context(words.join("; besides, ") + "; besides")),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::front::ask::ConsentLine;

    use super::*;

    #[test]
    fn all_that_is_missing_is_asked_for_at_once() {
        let commands = || {
            let line = ConsentLine { text: "workload.scripts: a.sql".to_string(), instead: String::new() };
            Error::from(Ask::commands("it would execute".to_string(), vec![line]))
        };
        let mut lacks = Lacks::default();
        lacks.consent(Err(commands())).unwrap();
        lacks.time(Some("This would take 2.0 days".to_string()));
        let error = lacks.expect_nothing().unwrap_err();
        let words = format!("{error:#}");
        assert!(
            words.starts_with("This would take 2.0 days; confirm with --yes; besides: it would execute:\n  workload.scripts: a.sql"),
            "{words}"
        );
        assert!(words.contains("--allow-commands=") && error.downcast_ref::<Ask>().is_some(), "{words}");
        let mut lacks = Lacks::default();
        assert!(
            lacks.consent(Err(Error::msg("broken"))).is_err()
                && lacks.servers(Err(Error::msg("broken"))).is_err()
        );
        assert!(lacks.expect_nothing().is_ok());
    }
}
