//! Names of agents, and the subjects that a NATS server's permissions can tie to them.
//!
//! An agent publishes below `pgdyno.from.NAME` only, and hears `pgdyno.find` and what is below `pgdyno.to.NAME`. So a server that
//! allows each agent just this lets none of them speak for another.

/// Longest name, label's key and label's value, in bytes.
const NAME_BYTES_MAX: usize = 63;
/// Where agents are asked to announce themselves.
pub(crate) const FIND: &str = "pgdyno.find";

/// Refuses a name that is no token of a subject.
///
/// # Errors
/// Says what is allowed.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !is_plain {
        return Err(format!(
            "the name of an agent has letters, digits, `_` and `-` only, at most {NAME_BYTES_MAX} of them, not `{name}`"
        ));
    }
    Ok(())
}

/// Splits `KEY=VALUE`.
///
/// # Errors
/// Says what is allowed.
pub fn check_label(text: &str) -> Result<(String, String), String> {
    let is_plain = |part: &str| {
        !part.is_empty()
            && part.len() <= NAME_BYTES_MAX
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
    };
    match text.split_once('=') {
        Some((key, value)) if is_plain(key) && is_plain(value) => Ok((key.to_string(), value.to_string())),
        _ => Err(format!(
            "a label is KEY=VALUE, each of letters, digits and `_.-`, at most {NAME_BYTES_MAX} of them, not `{text}`"
        )),
    }
}

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
    fn what_would_be_another_subject_is_no_name() {
        for bad in ["", "a.b", "*", ">", "a b", "é", &"x".repeat(64)] {
            assert!(check_name(bad).unwrap_err().contains(&format!("not `{bad}`")));
        }
        assert_eq!(agent_of(&here("load-1", "id")), Some("load-1"));
        assert_eq!(agent_of("pgdyno.to.load-1.call"), None);
        assert!(is_unique(&unique().unwrap()) && unique().unwrap() != unique().unwrap());
    }

    #[test]
    fn labels_have_a_key_and_a_value() {
        assert_eq!(check_label("az=eu-west-1a"), Ok(("az".into(), "eu-west-1a".into())));
        for bad in ["az", "=a", "az=", "az=a b", "a*=b"] {
            assert!(check_label(bad).is_err(), "{bad}");
        }
    }
}
