//! Templates of experiment files, by what they ask.

use model::experiment::keys;
use model::experiment::keys::row::KeyRow;

/// Questions for which there is a template.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum QuestionTemplate {
    /// Throughput by number of clients.
    #[default]
    Clients,
    /// Releases of PostgreSQL side by side.
    Versions,
    /// One setting at several values.
    Settings,
    /// The same load on several servers.
    Targets,
    /// Your own SQL.
    Scripts,
}

impl QuestionTemplate {
    /// The experiment file, with comments. Those that say what a key is are its row's.
    pub(crate) fn text(self) -> String {
        commented(self.written())
    }

    /// The same with an empty comment where a row has the words.
    fn written(self) -> &'static str {
        match self {
            QuestionTemplate::Clients => include_str!("../../templates/clients.toml"),
            QuestionTemplate::Versions => include_str!("../../templates/versions.toml"),
            QuestionTemplate::Settings => include_str!("../../templates/settings.toml"),
            QuestionTemplate::Targets => include_str!("../../templates/targets.toml"),
            QuestionTemplate::Scripts => include_str!("../../templates/scripts.toml"),
        }
    }
}

/// Puts the words of rows after empty comments.
fn commented(written: &str) -> String {
    let mut section = "";
    let mut text = String::new();
    for line in written.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
        }
        let key = line.split_once(" = ").map(|(name, _)| format!("{section}.{name}"));
        let row = if line.ends_with(" #") { key.and_then(|key| keys::find(&key)) } else { None };
        text.push_str(line);
        if let Some(row) = row {
            text.push_str(&format!(" {}", words(row)));
        }
        text.push('\n');
    }
    text
}

/// What a key is, in one clause: the help of its option, else its documentation.
fn words(row: &KeyRow) -> String {
    let long = row.option.map_or(row.what(), |option| option.help);
    let ends = ["; ", ". ", " ("].map(|end| long.find(end).unwrap_or(long.len()));
    let clause = &long[..ends.into_iter().min().unwrap_or(long.len())];
    let mut letters = clause.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().collect::<String>() + letters.as_str())
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn comments_that_say_what_a_key_is_are_those_of_its_row() {
        let text = QuestionTemplate::Clients.text();
        for line in [
            "title = \"Throughput by clients\"     # title of the reports",
            "measure = \"60s\"                     # length of the measurement window of each run: 30s, 5min",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        for template in QuestionTemplate::value_variants() {
            let text = template.text();
            assert!(!text.lines().any(|line| line.ends_with('#')), "{text}");
        }
    }
}
