//! Scripts of workload directories: parameters, glued names, facts, and what is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use generator::{Choice, Directory, Instance, Manifest, Problem};

use super::defines;
use crate::directories::{builtin, problems, unsupported};
use crate::script::statement::Fetch;
use crate::{Action, BoundParameter, Bundle, Clock, Drawer, Emulator, Prng, Statement};

const MANIFEST: &str = "format = 1
name = \"shop\"
title = \"Shop\"
about = \"For tests\"
source = \"own\"
licence = \"MIT OR Apache-2.0\"
scale = \"10 items\"

[options]
limit = {default = 3, least = 1, most = 100, about = \"rows\"}
mode = {default = \"it's\", about = \"a text\"}

[[table]]
name = \"item{1..3}\"
rows = \"10 * scale\"
[table.columns]
id = \"row + 1\"
name = \"concat('item ', row)\"
";

/// A directory of one table and these transactions: what `workload.toml` says of each after its name, and its script.
fn instance(transactions: &[(&str, &str, &str)]) -> Arc<Instance> {
    let mut manifest = MANIFEST.to_owned();
    let mut files = BTreeMap::new();
    let mut weights = Vec::new();
    for (name, declared, source) in transactions {
        manifest += &format!("\n[[transaction]]\nname = \"{name}\"\n{declared}\n");
        weights.push(format!("{name} = 1"));
        files.insert(format!("transactions/{name}.sql"), (*source).to_owned());
    }
    manifest += &format!("\n[variants]\nplain = {{weights = {{{}}}}}\n", weights.join(", "));
    files.insert("workload.toml".to_owned(), manifest);
    files.insert("schema.sql".to_owned(), "create table item{n} (id int, name text);\n".to_owned());
    files.insert("README.md".to_owned(), "For tests.\n".to_owned());
    let choice = Choice { scale: 1, ..Choice::default() };
    let made = Directory::new(files).and_then(|directory| Instance::new(&directory, &choice));
    Arc::new(made.unwrap_or_else(|problems| panic!("{}", texts(&problems))))
}

fn options() -> BTreeMap<String, String> {
    defines(&[("limit", "3"), ("mode", "it's"), ("scale", "1")])
}

/// The bundle of a directory with one transaction.
fn bundle_of(declared: &str, source: &str) -> Bundle {
    let instance = instance(&[("one", declared, source)]);
    Bundle::compile_directory(&[("one", source, 1)], &options(), &instance).unwrap()
}

fn emulator_of(bundle: &Bundle, client: u32) -> Emulator {
    let drawer = Drawer { client, n_clients: 2, seed: 7, clock: Clock::default() };
    Emulator::new(bundle, Prng::seed(1), client as usize, &options()).drawing(bundle, drawer)
}

/// The statement that is sent for one of the script.
fn sent<'a>(bundle: &'a Bundle, emulator: &Emulator, statement: usize) -> &'a Statement {
    let statement = &bundle.programs[0].statements[statement];
    let Some(glued) = &statement.glued else { return statement };
    &glued.variants[emulator.variant(glued).unwrap()]
}

/// The texts of one transaction for the simple protocol, and for the others with their parameters.
fn run(bundle: &Bundle, emulator: &mut Emulator) -> Vec<(String, String)> {
    let program = &bundle.programs[0];
    let mut texts = Vec::new();
    loop {
        match emulator.step(program).unwrap() {
            Action::Send { statement } => {
                let statement = sent(bundle, emulator, statement);
                let mut simple = Vec::new();
                emulator.render_pieces(program, &statement.pieces, &mut simple).unwrap();
                let mut bound = statement.text.clone();
                for variable in &statement.parameters {
                    let mut value = Vec::new();
                    match emulator.parameter(*variable, &mut value) {
                        BoundParameter::Text => bound += &format!(" |{}", String::from_utf8(value).unwrap()),
                        BoundParameter::Null => bound += " |NULL",
                        BoundParameter::Unset => bound += " |?",
                    }
                }
                texts.push((String::from_utf8(simple).unwrap(), bound));
            }
            Action::End => return texts,
            _ => {}
        }
    }
}

fn once(declared: &str, source: &str) -> Vec<(String, String)> {
    let bundle = bundle_of(declared, source);
    let mut emulator = emulator_of(&bundle, 0);
    emulator.begin(&bundle.programs[0]);
    run(&bundle, &mut emulator)
}

#[test]
fn parameters_are_literals_in_the_simple_protocol_and_values_in_the_others() {
    for (parameter, simple, bound) in [
        ("7", "select 7;", "select $1; |7"),
        ("0 - 7", "select -7;", "select $1; |-7"),
        ("2.5", "select 2.5;", "select $1; |2.5"),
        ("decimal(1234, 2)", "select 12.34;", "select $1; |12.34"),
        ("'it''s'", "select 'it''s';", "select $1; |it's"),
        ("date('2024-02-29')", "select '2024-02-29';", "select $1; |2024-02-29"),
        ("item2.name[4]", "select 'item 4';", "select $1; |item 4"),
    ] {
        let found = once(&format!("params = {{x = \"{parameter}\"}}"), "select :x;");
        assert_eq!(found, [(simple.to_owned(), bound.to_owned())], "{parameter}");
    }
}

#[test]
fn a_negative_number_stays_one_wherever_it_stands() {
    for (sql, simple) in [
        ("select 1 -:x;", "select 1 -(-7);"),
        ("select 1 - :x;", "select 1 - -7;"),
        ("select :x::smallint;", "select (-7)::smallint;"),
        ("select :x, 2 -:y, :y::int;", "select -7, 2 -5, 5::int;"),
    ] {
        let found = once("params = {x = \"0 - 7\", y = \"5\"}", sql);
        assert_eq!(found[0].0, simple);
    }
}

#[test]
fn options_are_variables_and_those_that_are_texts_are_literals() {
    let found = once("", "select :limit, :mode, :scale;");
    let expected = ("select 3, 'it''s', 1;".to_owned(), "select $1, $2, $3; |3 |it's |1".to_owned());
    assert_eq!(found, [expected]);
}

#[test]
fn scripts_compute_with_parameters() {
    let source = "\\set y :n * 2\n\\set z :half + :n\n\\if :n > 3\nselect :y, :z, :n;\n\\endif";
    let found = once("params = {n = \"5\", half = \"decimal(5, 1)\"}", source);
    assert_eq!(found[0].0, "select 10, 5.5, 5;");
}

#[test]
fn each_transaction_draws_again_and_a_retry_keeps_what_was_drawn() {
    let source = "\\set r random(1, 1000000)\nselect :n, :t, :r;";
    let bundle = bundle_of("params = {n = \"uniform(1, 1000000000)\", t = \"ascii(20)\"}", source);
    let program = &bundle.programs[0];
    let draw = |client: u32| {
        let mut emulator = emulator_of(&bundle, client);
        let mut texts = Vec::new();
        for _ in 0..3 {
            emulator.begin(program);
            let first = run(&bundle, &mut emulator);
            emulator.rewind(program);
            assert_eq!(run(&bundle, &mut emulator), first, "a retry");
            texts.extend(first.into_iter().map(|(_, bound)| bound));
        }
        texts
    };
    let (one, other) = (draw(0), draw(1));
    assert_eq!(one, draw(0));
    assert!(one[0] != one[1] && one[1] != one[2] && one[0] != other[0], "{one:?} {other:?}");
    // The script's own numbers are those of a script without parameters.
    let plain = Bundle::compile(&[("one", "\\set r random(1, 1000000)\nselect :r;", 1)], &options()).unwrap();
    let mut emulator = Emulator::new(&plain, Prng::seed(1), 0, &options());
    emulator.begin(&plain.programs[0]);
    let own = run(&plain, &mut emulator).remove(0).1;
    assert_eq!(own.rsplit('|').next(), one[0].rsplit('|').next());
}

#[test]
fn a_variable_after_a_name_is_a_part_of_it_in_every_protocol() {
    let source = "select name from item:t where id = :id;\nselect 1 from item:t, item:u;";
    let declared = "params = {t = \"uniform(1, 3)\", u = \"uniform(2, 3)\", id = \"4\"}";
    let bundle = bundle_of(declared, source);
    let glued = |n: usize| bundle.programs[0].statements[n].glued.as_ref().unwrap();
    assert_eq!((glued(0).variants.len(), glued(1).variants.len()), (3, 6));
    assert_eq!(bundle.programs[0].statements[0].label, "select name from item:t where id = :id;");
    let mut emulator = emulator_of(&bundle, 0);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        emulator.begin(&bundle.programs[0]);
        let texts = run(&bundle, &mut emulator);
        let table = texts[0].0.trim_start_matches("select name from item").split(' ').next().unwrap();
        assert_eq!(texts[0].0, format!("select name from item{table} where id = 4;"));
        assert_eq!(texts[0].1, format!("select name from item{table} where id = $1; |4"));
        assert!(texts[1].0.starts_with(&format!("select 1 from item{table}, item")), "{texts:?}");
        seen.insert(texts[1].0.clone());
    }
    assert_eq!(seen.len(), 6);
    // Options that are numbers can be glued too.
    assert_eq!(once("", "select 1 from item:limit;")[0].0, "select 1 from item3;");
}

#[test]
fn columns_of_a_statement_with_glued_names_are_kept_whichever_it_is() {
    let declared = "params = {t = \"uniform(1, 3)\"}";
    for (command, fetch) in [("\\gset", true), ("\\aset", true), (";", false)] {
        let bundle = bundle_of(declared, &format!("select name from item:t {command}\n"));
        let statement = &bundle.programs[0].statements[0];
        assert_eq!(statement.fetch != Fetch::Discard, fetch, "{command}");
        let variants = &statement.glued.as_ref().unwrap().variants;
        assert!(variants.iter().all(|variant| variant.fetch == statement.fetch), "{command}");
    }
}

#[test]
fn plain_scripts_have_no_glued_names() {
    let bundle = Bundle::compile(&[("a", "\\set t 1\nselect 1 from item:t;", 1)], &options()).unwrap();
    let statement = &bundle.programs[0].statements[0];
    assert!(statement.glued.is_none() && statement.text == "select 1 from item$1;");
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let check = |declared: &str, source: &str, expected: &str| {
        let instance = instance(&[("one", declared, source)]);
        let error = Bundle::compile_directory(&[("one", source, 1)], &options(), &instance).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        let problems = problems(&instance, &options());
        assert!(problems.iter().any(|problem| !problem.is_warning && problem.file == "transactions/one.sql"));
    };
    check("params = {n = \"uniform(1, 2000)\"}", "select 1 from item:n;", "compiled 2000 times");
    check("params = {n = \"ascii(3)\"}", "select 1 from item:n;", "its range is not known");
    check("", "select 1 from item:n;", "neither a parameter nor an option");
    check("params = {n = \"uniform(1, 2)\"}", "\\set n 3\nselect 1 from item:n;", "cannot be set");
    check("params = {n = \"ascii(3)\"}", "select 'a :n';", "stands within quotes");
    check("", "-- pgdyno: extended\n\\repeat x :limit\nselect 1;\n\\endrepeat", "declares no such loop");
    let each = "each = {x = {v = \"uniform(1, 9)\"}}";
    check(each, "-- pgdyno: extended\n\\repeat x 3\nselect 1;\n\\endrepeat", "is a variable");
    check(each, "-- pgdyno: extended\n\\repeat x :limit\nselect :v;", "without matching \\endrepeat");
    check(each, "-- pgdyno: extended\nselect 1;\n\\endrepeat", "without matching \\repeat");
    let nested = "-- pgdyno: extended\n\\repeat x :limit\n\\if 1\nselect :v;\n\\endrepeat\n\\endif";
    check(each, nested, "\\endrepeat without matching");
    check("facts = {a = \"b ==\"}", "\\set b 1\nselect :b;", "fact `a`");
}

#[test]
fn what_is_not_set_or_not_supported_is_found() {
    let found = |declared: &str, source: &str| {
        let instance = instance(&[("one", declared, source)]);
        texts(&problems(&instance, &options()))
    };
    assert_eq!(found("params = {n = \"1\"}", "select :n, :limit, :client_id, :scale;"), "");
    let unset = found("", "select 1;\nselect :n;");
    assert!(unset.starts_with("transactions/one.sql:2:8: `:n` is neither"), "{unset}");
    assert!(unset.ends_with("\n  select :n;\n         ^^"), "{unset}");
    let misspelt = found("params = {number = \"1\"}", "select 1::int, ':x' || :nmuber::text, :number;");
    assert!(misspelt.starts_with("transactions/one.sql:1:17: "), "{misspelt}");
    assert!(misspelt.contains("; did you mean `:number`?\n"), "{misspelt}");
    let syntax = found("", "select 1;\n  \\set a 1 + ;\nselect :a;");
    assert!(syntax.starts_with("transactions/one.sql:2:14: unexpected character (;)"), "{syntax}");
    assert_eq!(found("params = {n = \"uniform(1, 3)\"}", "select 1 from item:n;"), "");
    assert!(found("facts = {sum = \"n\"}", "select 1;").contains("fact `sum`: nothing sets `n`"));
    assert_eq!(found("facts = {sum = \"n + limit\"}", "select 1 as n \\gset"), "");
    let of = instance(&[("one", "protocol = \"simple\"", "select 1;")]);
    assert!(unsupported(of.manifest())[0].message.contains("`protocol` is not supported"));
    let one = "timeout = \"1s\"";
    assert_eq!(found(one, "select 1;"), "");
}

#[test]
fn facts_are_computed_when_the_transaction_was_committed() {
    let source = "\\set a :n - 1\n\\set b 0 - 5\nselect :a, :b;";
    let declared =
        "params = {n = \"4\"}\nfacts = {a = \"a\", none = \"b\", is_four = \"n == 4\", half = \"n / 2\"}";
    let bundle = bundle_of(declared, source);
    let program = &bundle.programs[0];
    let mut emulator = emulator_of(&bundle, 0);
    let mut sums = vec![0; program.facts.len()];
    for _ in 0..2 {
        emulator.begin(program);
        run(&bundle, &mut emulator);
        emulator.committed(program, &mut sums).unwrap();
    }
    let named: BTreeMap<&str, u64> = program.facts.iter().map(String::as_str).zip(sums).collect();
    assert_eq!(named, [("a", 6), ("half", 4), ("is_four", 2), ("none", 0)].into());
}

#[test]
fn loops_draw_their_parameters_in_each_round_and_again_in_a_retry() {
    let source = "-- pgdyno: extended\n\\repeat line :n\nselect :v, :w;\n\\endrepeat\nselect :n;";
    let declared =
        "params = {n = \"uniform(0, 4)\"}\neach = {line = {v = \"uniform(1, 1000000)\", w = \"ascii(9)\"}}";
    let bundle = bundle_of(declared, source);
    let program = &bundle.programs[0];
    let mut emulator = emulator_of(&bundle, 0);
    let mut lengths = std::collections::BTreeSet::new();
    for _ in 0..50 {
        emulator.begin(program);
        let first = run(&bundle, &mut emulator);
        emulator.rewind(program);
        assert_eq!(run(&bundle, &mut emulator), first);
        let n: usize = first.last().unwrap().1.rsplit('|').next().unwrap().parse().unwrap();
        assert_eq!(first.len(), n + 1, "{first:?}");
        assert!(n < 2 || first[0] != first[1]);
        lengths.insert(n);
    }
    assert_eq!(lengths.len(), 5);
}

#[test]
fn every_built_in_directory_compiles_in_each_of_its_variants() {
    for name in model::experiment::case::workload::directories::BUILTIN {
        let files = builtin(name).unwrap_or_else(|| panic!("{name} is built in"));
        let files = files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect();
        let directory = Directory::new(files).unwrap();
        let manifest =
            Manifest::read(&directory).unwrap_or_else(|problems| panic!("{name}: {}", texts(&problems)));
        let unsupported = unsupported(&manifest);
        assert!(unsupported.is_empty(), "{name}: {}", texts(&unsupported));
        let variants = manifest.variants.iter().map(|variant| Some(variant.name.clone()));
        for variant in variants.chain([None]) {
            let choice = Choice { variant: variant.clone(), scale: 1, ..Choice::default() };
            let made = Instance::new(&directory, &choice);
            let instance = made.unwrap_or_else(|problems| panic!("{name} {variant:?}: {}", texts(&problems)));
            let mut defines = instance.options().clone();
            defines.insert("scale".to_owned(), "1".to_owned());
            let problems = problems(&Arc::new(instance), &defines);
            assert!(problems.is_empty(), "{name} {variant:?}: {}", texts(&problems));
        }
    }
}

fn texts(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
