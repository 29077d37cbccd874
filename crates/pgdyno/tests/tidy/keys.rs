//! Keys of the experiment file are named by their constants: a key that is written as text would be one that no row has, without notice.

use model::experiment::keys;
use model::experiment::keys::row::NAME;

use super::tree::{self, SourceFile};
use super::{assert_none, assert_one};

/// Files that still write keys as text, and how many. The numbers may only become smaller.
const WRITTEN: &[(&str, usize)] = &[
    ("crates/analysis/src/case/factors.rs", 1),
    ("crates/analysis/src/comparison/differences.rs", 1),
    ("crates/dataset/src/session/limit.rs", 1),
    ("crates/experiment/src/forecast/fit/changes.rs", 12),
    ("crates/experiment/src/forecast/fit/places.rs", 6),
    ("crates/experiment/src/forecast/fit/share.rs", 13),
    ("crates/experiment/src/forecast/fit/system.rs", 4),
    ("crates/experiment/src/forecast/fit/together.rs", 2),
    ("crates/experiment/src/forecast/intent.rs", 2),
    ("crates/experiment/src/plan/design.rs", 2),
    ("crates/experiment/src/plan/expand/figures.rs", 1),
    ("crates/experiment/src/plan/file.rs", 9),
    ("crates/experiment/src/plan/pairs.rs", 4),
    ("crates/experiment/src/plan/question.rs", 4),
    ("crates/experiment/src/plan/scripts.rs", 2),
    ("crates/experiment/src/plan/targets.rs", 1),
    ("crates/experiment/src/plan/targets/labels.rs", 1),
    ("crates/experiment/src/plan/title.rs", 3),
    ("crates/experiment/src/stage/embedded.rs", 3),
    ("crates/experiment/src/stage/origin.rs", 1),
    ("crates/experiment/src/stage/os.rs", 3),
    ("crates/pgdyno/src/commands/compare/measure.rs", 1),
    ("crates/pgdyno/src/commands/stored/pack/commands.rs", 1),
    ("crates/pgdyno/src/front/foreign/thing.rs", 38),
    ("crates/pgdyno/src/front/secrets.rs", 3),
    ("crates/pgdyno/src/front/setup.rs", 10),
    ("crates/report/src/axis.rs", 9),
    ("crates/report/src/axis/pair.rs", 3),
    ("crates/report/src/prose/answer.rs", 7),
    ("crates/report/src/prose/factors.rs", 2),
    ("crates/report/src/prose/headline.rs", 1),
];

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

fn problem(file: &SourceFile, allowed: &[(&str, usize)]) -> Option<String> {
    let may = allowed.iter().find(|(path, _)| *path == file.path).map_or(0, |(_, n)| *n);
    match written(file) {
        n if n > may => Some(format!(
            "{}: {n} keys are written as text ({may} may be); use keys::SECTION::KEY",
            file.path
        )),
        n if n < may => Some(format!("{}: {n} keys are written as text; the list says {may}", file.path)),
        _ => None,
    }
}

#[test]
fn keys_are_named_by_their_constants() {
    let found: Vec<String> = tree::rust().iter().filter_map(|file| problem(file, WRITTEN)).collect();
    assert_none(&found);
}

#[test]
fn a_key_that_is_written_as_text_is_found() {
    let file = |text: &str| SourceFile::new("crates/report/src/a.rs", text);
    let problems = |text: &str, allowed| problem(&file(text), allowed).into_iter().collect::<Vec<String>>();
    assert_one(&problems("values[\"run.measure\"]", &[]), "1 keys are written as text (0 may be)");
    assert_none(&problems(
        "// \"run.measure\"\nvalues[keys::run::MEASURE.name]; \"run.mesure\"; \"run.measure: x\"",
        &[],
    ));
    assert_none(&problems("a\n#[cfg(test)]\nmod tests {\n \"run.measure\"; }", &[]));
    assert_none(&problems("\"run.measure\"", &[("crates/report/src/a.rs", 1)]));
    assert_one(&problems("", &[("crates/report/src/a.rs", 1)]), "the list says 1");
}
