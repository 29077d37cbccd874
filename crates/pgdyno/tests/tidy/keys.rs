//! Keys of the experiment file are named by their constants: a key that is written as text would be one that no row has, without notice.

use model::experiment::keys;
use model::experiment::keys::row::NAME;

use super::tree::{self, SourceFile};
use super::{assert_none, assert_one};

/// How many texts of a file are a key, and nothing else.
fn written(file: &SourceFile) -> usize {
    let is_table = file.path.starts_with("crates/model/src/experiment/keys");
    if file.is_test || is_table {
        return 0;
    }
    let lines = file.production_text().lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.collect::<Vec<&str>>().join("\n");
    let of_key = |key: &str| code.matches(&format!("\"{key}\"")).count();
    keys::all().map(|row| row.name).filter(|key| key.contains('.') && !key.ends_with(NAME)).map(of_key).sum()
}

fn problem(file: &SourceFile) -> Option<String> {
    let n = written(file);
    (n > 0).then(|| format!("{}: {n} keys are written as text; use keys::SECTION::KEY", file.path))
}

#[test]
fn keys_are_named_by_their_constants() {
    let found: Vec<String> = tree::rust().iter().filter_map(problem).collect();
    assert_none(&found);
}

#[test]
fn a_key_that_is_written_as_text_is_found() {
    let problems = |text: &str| {
        problem(&SourceFile::new("crates/report/src/a.rs", text)).into_iter().collect::<Vec<String>>()
    };
    assert_one(&problems("values[\"run.measure\"]"), "1 keys are written as text");
    assert_none(&problems(
        "// \"run.measure\"\nvalues[keys::run::MEASURE.name]; \"run.mesure\"; \"run.measure: x\"",
    ));
    assert_none(&problems("a\n#[cfg(test)]\nmod tests {\n \"run.measure\"; }"));
}
