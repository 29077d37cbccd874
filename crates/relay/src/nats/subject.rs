//! Names of agents, and the subjects that a NATS server's permissions can tie to them.
//!
//! An agent publishes below `pgdyno.from.NAME` only, and hears `pgdyno.find` and what is below `pgdyno.to.NAME`. So a server that
//! allows each agent just this lets none of them speak for another.

use crate::check_name;

/// Where agents are asked to announce themselves.
pub(crate) const FIND: &str = "pgdyno.find";

/// Where an agent announces itself to the one who asked with this `id`.
pub(crate) fn here(agent: &str, id: &str) -> String {
    format!("pgdyno.from.{agent}.here.{id}")
}

/// Where an agent is called.
pub(crate) fn call(agent: &str) -> String {
    format!("pgdyno.to.{agent}.call")
}

/// What goes to the process of an agent.
pub(crate) fn input(agent: &str, session: &str) -> String {
    format!("pgdyno.to.{agent}.in.{session}")
}

/// What comes from the process of an agent.
pub(crate) fn output(agent: &str, session: &str) -> String {
    format!("pgdyno.from.{agent}.out.{session}")
}

/// The agent that a subject names.
pub(crate) fn agent_of(subject: &str) -> Option<&str> {
    let agent = subject.strip_prefix("pgdyno.from.")?.split('.').next()?;
    check_name(agent).is_ok().then_some(agent)
}

/// A word that nobody guesses and that is a token of a subject.
///
/// # Errors
/// If the kernel has no random numbers.
pub(crate) fn unique() -> anyhow::Result<String> {
    files::random_hex(16)
}

/// Whether a word can be what [`unique`] made elsewhere.
pub(crate) fn is_unique(word: &str) -> bool {
    word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_names_its_agent() {
        assert_eq!(agent_of(&here("load-1", "id")), Some("load-1"));
        assert_eq!(agent_of("pgdyno.to.load-1.call"), None);
        assert!(is_unique(&unique().unwrap()) && unique().unwrap() != unique().unwrap());
    }
}
