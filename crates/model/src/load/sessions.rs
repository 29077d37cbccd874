//! The settings with which the sessions of a load worked, as they report them when the load is over.

use serde::{Deserialize, Serialize};

use crate::secret::hide_value;

/// What the sessions that were asked have answered, one of each driver thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSettings {
    /// Sessions that answered.
    pub n_answered: u32,
    /// Why one did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent: Option<String>,
    /// Settings that neither the server's files and command line nor its defaults decide, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<SessionSetting>,
}

/// A value of a setting in some of the sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSetting {
    /// Name of the setting.
    pub name: String,
    /// Value, as `SHOW` prints it.
    pub value: String,
    /// Where the value comes from, in words of `pg_settings`: `session` (a statement, or a function that it calls), `client`
    /// (the connection string), `user`, `database`, `database user`.
    pub source: String,
    /// Sessions that have it.
    pub n: u32,
}

impl SessionSettings {
    /// Adds a session's answer, or what other threads and drivers have heard.
    pub fn add(&mut self, more: SessionSettings) {
        self.n_answered += more.n_answered;
        self.silent = self.silent.take().or(more.silent);
        for one in more.settings {
            let key = |s: &SessionSetting| (s.name.clone(), s.value.clone(), s.source.clone());
            match self.settings.binary_search_by_key(&key(&one), key) {
                Ok(at) => self.settings[at].n += one.n,
                Err(at) => self.settings.insert(at, one),
            }
        }
    }

    /// Replaces secrets, as the record of the server does.
    pub fn hide_secrets(&mut self) {
        for setting in &mut self.settings {
            setting.value = hide_value(&setting.name, &setting.value).into_owned();
        }
    }

    /// The values of a setting that some session has.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a SessionSetting> {
        self.settings.iter().filter(move |setting| setting.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_with_the_same_value_are_counted_together() {
        let answer = |value: &str| {
            let setting = |name: &str| SessionSetting {
                name: name.into(),
                value: value.into(),
                source: "session".into(),
                n: 1,
            };
            SessionSettings {
                n_answered: 1,
                silent: None,
                settings: vec![setting("jit"), setting("work_mem")],
            }
        };
        let mut sum = SessionSettings::default();
        sum.add(answer("on"));
        sum.add(SessionSettings { silent: Some("lost".into()), ..SessionSettings::default() });
        sum.add(answer("off"));
        sum.add(answer("on"));
        let found: Vec<(&str, &str, u32)> =
            sum.settings.iter().map(|s| (s.name.as_str(), s.value.as_str(), s.n)).collect();
        let expected = [("jit", "off", 1), ("jit", "on", 2), ("work_mem", "off", 1), ("work_mem", "on", 2)];
        assert_eq!((sum.n_answered, sum.silent.as_deref(), found), (3, Some("lost"), expected.to_vec()));
        assert_eq!(sum.values("jit").count(), 2);
    }
}
