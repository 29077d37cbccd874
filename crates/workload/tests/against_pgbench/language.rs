//! Scripts: values, random numbers, errors, splitting.

use crate::cluster::Cluster;
use std::collections::BTreeMap;
use workload::{Action, Bundle, Dialect, Emulator, Seeds, insert_automatic_variables};

/// The variables that `data/expressions.sql` uses.
const VARIABLES: [(&str, &str); 12] = [
    ("one", "1"),
    ("ten", "10"),
    ("half", "0.5"),
    ("yes", "yes"),
    ("y", "Y"),
    ("no", "n"),
    ("of", "of"),
    ("nothing", "NULL"),
    ("big", "9223372036854775807"),
    ("neg", "-12"),
    ("expo", "1e3"),
    ("spaced", "  42"),
];

/// Statements whose ends are not obvious. All run.
const SPLITTING: &str = r#"
-- a comment; with a semicolon
select 1; select 2 ;
select ';', 'it''s;', E'\';', e'\\', '\', "x;""y" from (select 1 as "x;""y") q;
select E'a\''
  'b\';', 'c' -- d;'
  '\';
select $$;$$, $a$ $b$ ; $$ $a$, 1 as a$b$c;
/* one; /* two; */ three; */ select 4 /* ; */ -- five;
  + 5;
select 6 \; select 7;
select (8) as "(;";
select '9'::text, 'a b'::text \
\set x 1
select array[:x, 2]:: int[], ':x', ':unset' /* :x */;
create or replace function pg_temp.f() returns int begin atomic select 1; select case when true then 2 end; end;
begin; select :x + :x; end;
select :x:x;
select 'last one without an end'
"#;

pub(crate) fn expressions_have_equal_values(cluster: &Cluster) {
    let script = include_str!("../data/expressions.sql");
    cluster.write("expressions.sql", script);
    let set: Vec<String> = VARIABLES.iter().map(|(name, value)| format!("--define={name}={value}")).collect();
    let mut arguments = vec!["-n", "-t", "4", "--random-seed=42", "-s", "7", "-f", "expressions.sql"];
    arguments.extend(set.iter().map(String::as_str));
    let theirs = cluster.pgbench(&arguments);
    let recorded = include_str!("../data/expressions.debug").lines();
    let said = theirs.lines().filter(|line| line.starts_with("debug("));
    assert!(said.eq(recorded), "the recorded values are not those of the installed pgbench:\n{theirs}");
}

pub(crate) fn errors_have_equal_words(cluster: &Cluster) {
    let tables = [include_str!("../data/syntax_errors.tsv"), include_str!("../data/run_errors.tsv")];
    let variables =
        ["-D", "bad=abc", "-D", "huge=92233720368547758070", "-D", "sign=-", "-D", "toolong=1e999"];
    for line in tables.iter().flat_map(|table| table.lines()) {
        let (script, wanted) = line.split_once('\t').expect("two columns");
        cluster.write("t.sql", &unescape(script));
        let arguments: Vec<&str> = ["-n", "-t", "1", "-f", "t.sql"].into_iter().chain(variables).collect();
        let said = cluster.pgbench(&arguments);
        let said: Vec<&str> = said.lines().filter(|line| !line.starts_with("Run was aborted")).collect();
        assert_eq!(said.join("\n"), unescape(wanted).trim_end_matches('\n'), "{script}");
    }
}

pub(crate) fn statements_are_split_equally(cluster: &Cluster) {
    cluster.write("splitting.sql", SPLITTING);
    let theirs = cluster.pgbench(&["--debug", "-n", "-t", "1", "-f", "splitting.sql", "postgres"]);
    assert_eq!(sent(&theirs), our_statements(SPLITTING, BTreeMap::new(), 1), "{theirs}");
}

pub(crate) fn scripts_are_chosen_equally(cluster: &Cluster) {
    let weights = [1u32, 0, 3, 2];
    cluster.write("choose.sql", "\\set x debug(1)\n");
    let files: Vec<String> = weights.iter().map(|weight| format!("--file=choose.sql@{weight}")).collect();
    let mut arguments = vec!["-n", "-t", "500", "--random-seed=9"];
    arguments.extend(files.iter().map(String::as_str));
    let theirs = cluster.pgbench(&arguments);
    let theirs =
        theirs.lines().filter_map(|line| line.strip_prefix("debug(script=")?.split(',').next()?.parse().ok());
    let theirs: Vec<usize> = theirs.collect();
    let scripts = weights.map(|weight| ("choose.sql", "select 1;", weight));
    let bundle = Bundle::compile(&scripts, &BTreeMap::new()).expect("compiles");
    let mut choose = Seeds::derive(9, 1, 1).thread[0].choose.clone();
    let ours: Vec<usize> = (0..500).map(|_| bundle.choose(&mut choose)).collect();
    assert_eq!(theirs, ours);
}

/// One thread only: pgbench's threads write over each other's lines.
pub(crate) fn clients_have_equal_streams(cluster: &Cluster) {
    let script =
        "\\set x debug(:client_id * 1000000000 + random(0, 999999999))\n\\set y debug(:default_seed)\n";
    cluster.write("streams.sql", script);
    let said = cluster.pgbench(&["-n", "-t", "20", "-c", "5", "--random-seed=77", "-f", "streams.sql"]);
    let seeds = Seeds::derive(77, 5, 1);
    let mut theirs: Vec<&str> = said.lines().filter(|line| line.starts_with("debug(")).collect();
    let mut ours = Vec::new();
    let mut defines = BTreeMap::new();
    insert_automatic_variables(&mut defines, 1, 77, seeds.default_seed);
    let bundle = Bundle::compile(&[("streams.sql", script, 1)], &defines).expect("compiles");
    for (client, prng) in seeds.client.iter().enumerate() {
        let mut emulator = Emulator::new(&bundle, prng.clone(), client, &defines);
        for _ in 0..20 {
            emulator.begin(&bundle.programs[0]);
            assert_eq!(emulator.step(&bundle.programs[0]), Ok(Action::End));
            ours.extend(emulator.take_debug_lines().drain(..).map(|line| line.text(0)));
        }
    }
    theirs.sort_unstable();
    ours.sort_unstable();
    assert!(theirs == ours, "{said}");
}

/// The statements that pgbench, run with `--debug`, says it sends.
pub(crate) fn sent(words: &str) -> Vec<String> {
    let marked = format!("\n{words}");
    let messages = marked.split("\npgbench: ");
    let texts = messages.filter_map(|message| message.strip_prefix("client 0 sending "));
    // A notice of the server may follow without a name in front.
    texts.map(|text| text.trim_end_matches('\n').to_owned()).collect()
}

/// The statements that client 0 sends, from the same script and seed.
pub(crate) fn our_statements(
    script: &str,
    mut defines: BTreeMap<String, String>,
    n_transactions: usize,
) -> Vec<String> {
    let seeds = Seeds::derive(5, 1, 1);
    let scale = defines.get("scale").and_then(|scale| scale.parse().ok()).unwrap_or(1);
    insert_automatic_variables(&mut defines, scale, 5, seeds.default_seed);
    let bundle =
        Bundle::compile(&[("t.sql", script, 1)], &defines).expect("compiles").speaking(Dialect::Pgbench);
    let program = &bundle.programs[0];
    let mut emulator = Emulator::new(&bundle, seeds.client[0].clone(), 0, &defines);
    let mut statements = Vec::new();
    for _ in 0..n_transactions {
        emulator.begin(program);
        while let Action::Send { statement } = emulator.step(program).expect("runs") {
            let mut text = Vec::new();
            emulator.render(program, statement, &mut text).expect("pgbench sends all");
            statements.push(String::from_utf8(text).expect("text").trim_end_matches('\n').to_owned());
        }
    }
    statements
}

/// Undoes the escapes of a field of `data/*.tsv`.
fn unescape(field: &str) -> String {
    let marked = field.replace("\\\\", "\u{0}");
    marked.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t").replace('\u{0}', "\\")
}
