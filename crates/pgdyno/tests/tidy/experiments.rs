//! The experiments that come with the program name no file in a directory where any user could have made it first.

use super::tree::{self, SourceFile};
use super::{assert_none, assert_one};

/// Directories that every user may write in, on Linux as it is usually set up.
const OPEN: [&str; 6] = ["/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock", "/var/lock"];

/// Names below [`OPEN`], in the values of an experiment.
fn problems(file: &SourceFile) -> Vec<String> {
    let mut found = Vec::new();
    let parsed: toml::Table = file.text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.path));
    texts(&toml::Value::Table(parsed), &mut found);
    let is_open = |text: &String| {
        let words = text.split(|c: char| c.is_whitespace() || "'\"=,;:".contains(c));
        words.into_iter().any(|word| OPEN.iter().any(|dir| word.starts_with(&format!("{dir}/"))))
    };
    let named = found.into_iter().filter(is_open);
    named.map(|text| format!("{}: anyone could have made `{text}` first", file.path)).collect()
}

fn texts(value: &toml::Value, found: &mut Vec<String>) {
    match value {
        toml::Value::String(text) => found.push(text.clone()),
        toml::Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
        toml::Value::Table(table) => table.values().for_each(|value| texts(value, found)),
        _ => {}
    }
}

#[test]
fn no_experiment_names_what_anyone_could_have_made_first() {
    let is_experiment =
        |file: &SourceFile| file.path.starts_with("experiments/") && file.path.ends_with(".toml");
    let files: Vec<SourceFile> = tree::all().into_iter().filter(is_experiment).collect();
    assert!(files.len() > 4, "only {} experiments found", files.len());
    assert_none(&files.iter().flat_map(problems).collect::<Vec<String>>());
}

#[test]
fn a_name_in_an_open_directory_is_found() {
    let found = |text: &str| problems(&SourceFile::new("experiments/a.toml", text));
    assert_none(&found(
        "# /tmp/a\n[[target]]\ndirectory = \"/var/lib/a\"\ndisk = \"the disk of /var/tmp\"\n",
    ));
    assert_one(&found("[[target]]\ndirectory = \"/dev/shm/a\"\n"), "/dev/shm/a");
    assert_one(&found("[server]\nsettings.archive_command = \"cp %p /var/tmp/wal/%f\"\n"), "/var/tmp/wal");
}
