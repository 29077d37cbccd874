//! Splitting and compiling scripts.

use super::{bundle, defines};
use crate::script::program::{Delay, ScriptCommand, ShellWord};
use crate::script::sqlfile::line_and_column;
use crate::script::statement::TextPiece;
use crate::{Bundle, Fetch, Program, Seeds};

fn compile(source: &str) -> Program {
    Program::compile("t.sql", source).unwrap_or_else(|error| panic!("{source:?}: {error}"))
}

#[test]
fn places_in_the_servers_text_are_found_in_the_script() {
    let source = "\\set aid 1\n  SELECT ü, :aid,\n  x FROM t WHERE y = :aid AND z;\n";
    let program = compile(source);
    let statement = &program.statements[0];
    let check = |word: &str, expected: (usize, usize)| {
        let at = statement.text.find(word).unwrap();
        let position = statement.text[..at].chars().count();
        let offset = statement.offset_in(source, &program.variables, position);
        assert_eq!(line_and_column(source, offset), expected, "{word}");
    };
    check("SELECT", (2, 3));
    check("ü", (2, 10));
    check("$1", (2, 13));
    check("x FROM", (3, 3));
    check("$2", (3, 22));
    check("z", (3, 31));
}

#[test]
fn some_statements_make_later_ones_hard_to_judge() {
    let check = |sql: &str, expected| {
        assert_eq!(compile(sql).statements[0].changes_parsing(), expected, "{sql}");
    };
    check("create temp table t ();", true);
    check("SET search_path = x;", true);
    check("select 1 into t;", true);
    check("select 1;", false);
    check("insert into t values (1);", false);
    check("update t set a = 1;", false);
}

#[test]
fn statements_end_where_psql_ends_them() {
    let check = |source: &str, wanted: &[&str]| {
        let program = compile(source);
        let texts: Vec<String> =
            program.statements.iter().map(|statement| statement.original(&program.variables)).collect();
        assert_eq!(texts, wanted, "{source:?}");
    };
    check("select 1; select 2", &["select 1;", "select 2"]);
    check("select 1;;", &["select 1;", ";"]);
    check("select 1\n  ;\n", &["select 1\n  ;"]);
    check("select ';' ; select 2;", &["select ';' ;", "select 2;"]);
    check("select 'it''s;' ;", &["select 'it''s;' ;"]);
    check(r"select E'\';' ; select 1;", &[r"select E'\';' ;", "select 1;"]);
    check(r"select '\' ; select 1;", &[r"select '\' ;", "select 1;"]);
    check(r"select namee'\' ; select 1;", &[r"select namee'\' ;", "select 1;"]);
    check("select E'a\\''\n 'b\\';' ; x;", &["select E'a\\''\n 'b\\';' ;", "x;"]);
    check("select e'a' -- it's;\r\n--\n'\\';' ; x;", &["select e'a' -- it's;\r\n--\n'\\';' ;", "x;"]);
    check("select e'a' '\\' ; x;", &["select e'a' '\\' ;", "x;"]);
    check("select e'a' /*\n*/ '\\' ; x;", &["select e'a' /*\n*/ '\\' ;", "x;"]);
    check("select 'a'\n'\\' ; x;", &["select 'a'\n'\\' ;", "x;"]);
    check("select 1E'\\' , $1e'\\' ; x;", &["select 1E'\\' , $1e'\\' ;", "x;"]);
    check("select :e'\\' , :1E'\\' , 1\\::E'\\' ; x;", &["select :e'\\' , :1E'\\' , 1::E'\\' ;", "x;"]);
    check("select 1::e'\\';' , 1$e'\\';' ; x;", &["select 1::e'\\';' , 1$e'\\';' ;", "x;"]);
    check("select \"a;\"\"b\" ;", &["select \"a;\"\"b\" ;"]);
    check("select $$;$$ ; select 1;", &["select $$;$$ ;", "select 1;"]);
    check("select $a$ $b$ ; $a $a$ ; x;", &["select $a$ $b$ ; $a $a$ ;", "x;"]);
    check("select a$b$c ; select $1$ ; x;", &["select a$b$c ;", "select $1$ ;", "x;"]);
    check("select $é$;$é$ ;", &["select $é$;$é$ ;"]);
    check("-- one;\nselect -- two;\n1; -- three;\n", &["select -- two;\n1;"]);
    check("/* a; /* b; */ c; */ select 1;", &["/* a; /* b; */ c; */ select 1;"]);
    check("select 1 +-- x;\n 1; select 2*/*;*/3;", &["select 1 +-- x;\n 1;", "select 2*/*;*/3;"]);
    check("select (1;2); x;", &["select (1;2);", "x;"]);
    check("select 1 \\; select 2 ; x;", &["select 1 ; select 2 ;", "x;"]);
    check("select 1\\:: int;", &["select 1:: int;"]);
    check("create rule r as on a do (b; c); x;", &["create rule r as on a do (b; c);", "x;"]);
    check(
        "create or replace function f() returns int begin atomic select 1; select case when true then 2 end; end; x;",
        &[
            "create or replace function f() returns int begin atomic select 1; select case when true then 2 end; end;",
            "x;",
        ],
    );
    check("begin; update t set x = :x; end;", &["begin;", "update t set x = :x;", "end;"]);
    check("select 'open ; end", &["select 'open ; end"]);
    check("select $$open ; end", &["select $$open ; end"]);
    check("/* open ; end", &["/* open ; end"]);
    check("select 1 -- a\r;select 2;", &["select 1 -- a\r;", "select 2;"]);
    check("-- a\rselect 1;", &["select 1;"]);
    check("select 1e--c' ;\n\\bar\n", &["select 1e--c' ;\n\\bar\n"]);
    check("select 1 \\set x 1\nselect 2;", &["select 1 ", "select 2;"]);
}

#[test]
fn each_use_of_a_variable_is_a_parameter() {
    let check = |source: &str, text: &str, names: &[&str]| {
        let program = compile(source);
        let statement = &program.statements[0];
        let used: Vec<&str> = statement.parameters.iter().map(|id| program.variables.name(*id)).collect();
        assert_eq!((statement.text.as_str(), &used[..]), (text, names), "{source:?}");
    };
    check("select :a, :b, :a;", "select $1, $2, $1;".replace("$1;", "$3;").as_str(), &["a", "b", "a"]);
    check("select :a::int, b::text;", "select $1::int, b::text;", &["a"]);
    check("select ':a' /* :b */;", "select '$1' /* $2 */;", &["a", "b"]);
    check("select :1, :, ::a, :::b, x[1:2];", "select :1, :, ::a, :::b, x[1:2];", &[]);
    check("select :größe;", "select $1;", &["größe"]);
    check("select :a:b;", "select $1$2;", &["a", "b"]);
    check("select :{?a}, ':{?a}', :{?}, :{?a, ::{?a};", "select FALSE, ':{?a}', :{?}, :{?a, ::{?a};", &[]);
}

#[test]
fn places_and_labels_are_those_of_the_script() {
    let long = "x".repeat(200);
    let source = format!(
        "-- head\n\nselect 1,\n 2;\n  \\set a 1 + \\\n  2\nselect 3; select 4;\n\\sleep 1 ms\nselect '{long}';"
    );
    let program = compile(&source);
    let places: Vec<(usize, &str)> =
        program.commands.iter().map(|step| (step.line, step.label.as_str())).collect();
    let cut = format!("select '{}", "x".repeat(119));
    assert_eq!(
        places,
        [
            (3, "select 1,"),
            (5, "\\set a 1 + \\\n  2"),
            (7, "select 3;"),
            (7, "select 4;"),
            (8, "\\sleep 1 ms"),
            (9, cut.as_str())
        ]
    );
}

#[test]
fn sleeps_are_read_with_their_units() {
    let check = |words: &str, wanted: Delay| {
        let program = compile(&format!("\\sleep {words}"));
        assert_eq!(program.commands[0].command, ScriptCommand::Sleep(wanted), "{words}");
    };
    check("2", Delay::Fixed { us: 2_000_000 });
    check("2 s", Delay::Fixed { us: 2_000_000 });
    check("3 MS", Delay::Fixed { us: 3_000 });
    check("4us", Delay::Fixed { us: 4 });
    check("-1ms", Delay::Fixed { us: -1_000 });
    check("99999999999999999999", Delay::Fixed { us: i64::MAX });
    let program = compile("\\sleep :a ms");
    let variable = program.variables.find("a").unwrap();
    assert_eq!(
        program.commands[0].command,
        ScriptCommand::Sleep(Delay::Variable { variable, unit_us: 1_000 })
    );
}

#[test]
fn rows_go_to_the_statement_before() {
    let program = compile("select 1 as one \\gset\nselect 2 as two \\; select 3 \\AsEt p_\nselect 4;");
    let fetches: Vec<&Fetch> = program.statements.iter().map(|statement| &statement.fetch).collect();
    let (gset, aset) = (Fetch::Gset { prefix: String::new() }, Fetch::Aset { prefix: "p_".to_owned() });
    assert_eq!(fetches, [&gset, &aset, &Fetch::Discard]);
    assert_eq!(program.commands.len(), 3);
}

#[test]
fn a_combination_has_parts_with_parameters_of_their_own() {
    let check = |source: &str, wanted: &[&str]| {
        let program = compile(source);
        assert_eq!(program.statements[0].parts(&program.variables), wanted, "{source}");
    };
    check("select :a \\; select :b, :a, ';' \\gset", &["select $1 ;", "select $1, $2, ';' "]);
    check("select 1 \\; -- none\n \\; ;", &["select 1 ;"]);
    check(
        "create function f() begin atomic select 1; end;",
        &["create function f() begin atomic select 1; end;"],
    );
}

#[test]
fn variables_inside_quotes_are_known() {
    let check = |sql: &str, wanted: &[bool]| {
        let program = compile(sql);
        let pieces = program.statements[0].pieces.iter().filter(|piece| piece.variable().is_some());
        let quoted: Vec<bool> = pieces.map(|piece| matches!(piece, TextPiece::Quoted(_))).collect();
        assert_eq!(quoted, wanted, "{sql}");
    };
    check("select :a, ':b', \":c\", :d", &[false, true, true, false]);
    check("select 'it''s :a', :b, e'\\':c', E'' :d, ne':e'", &[true, false, true, false, true]);
    check("select $$:a$$ || $x$ $$ :b $x$, $1 + :c, a$b$:d", &[true, true, false, false]);
    check("select 1 /* ' :a */ + :b -- ' :c\n + :d", &[false, false, false, false]);
    check("select ':a", &[true]);
}

#[test]
fn rows_of_a_copy_follow_it() {
    let source = "\\set n 1\nCOPY t FROM STDIN;\n\\copydata\n:n\tx\n;\\set\n\\.\nselect 2;";
    let program = compile(source);
    assert_eq!((program.commands.len(), program.statements.len()), (3, 2));
    let data = program.statements[0].copy_data.as_ref().unwrap();
    assert!(
        matches!(&data[..], [TextPiece::Quoted(_), TextPiece::Text(rows)] if rows == "\tx\n;\\set\n"),
        "{data:?}"
    );
    assert_eq!(program.statements[1].copy_data, None);
    assert_eq!((program.commands[2].line, program.commands[2].label.as_str()), (7, "select 2;"));
    let check = |source: &str, wanted: &str| {
        let error = Program::compile("f.sql", source).unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
    };
    check("COPY t FROM STDIN;\n\\copydata\n1\n", "the data has no end: a line with \\. must follow it");
    check("COPY t FROM STDIN;\n\\copydata x\n\\.\n", "unexpected argument");
    let misplaced = "f.sql:2: \\copydata must follow a COPY FROM STDIN";
    check("select 1;\n\\copydata\n1\n\\.\n", misplaced);
    check("COPY t TO STDOUT;\n\\copydata\n1\n\\.\n", misplaced);
    compile("copy t /* all */ from/**/stdin(format csv);\n\\copydata\n1\n\\.\n");
    check("\\set x 1\n\\copydata\n\\.\nselect 1;", "f.sql:2: \\copydata must follow a COPY FROM STDIN");
}

#[test]
fn shell_words_know_variables() {
    let program = compile("\\shell echo :a ::b c:d");
    let a = program.variables.find("a").unwrap();
    let text = |word: &str| ShellWord::Text(word.to_owned());
    let words = vec![text("echo"), ShellWord::Variable(a), text(":b"), text("c:d")];
    assert_eq!(program.commands[0].command, ScriptCommand::Shell { words });
}

#[test]
fn bundles_refuse_what_cannot_run() {
    let check = |scripts: &[(&str, &str, u32)], variables: &[(&str, &str)], wanted: &str| {
        let error = Bundle::compile(scripts, &defines(variables)).expect_err(wanted);
        assert_eq!(error.to_string(), wanted);
    };
    check(&[], &[], "no script is given");
    check(&[("a", "select 1;", 0)], &[], "total script weight must not be zero");
    check(&[("a", "select 1;", 1)], &[("1x", "1")], "option: invalid variable name: \"1x\"");
    check(&[("a", " ", 1)], &[], "empty command list for script \"a\"");
    check(&vec![("a", "select 1;", 1); 129], &[], "at most 128 SQL scripts are allowed");
}

#[test]
fn too_many_parameters_are_reported_on_request() {
    let source = format!("select 1{};", ",\n:a".repeat(256));
    let error = compile(&source).check_parameter_counts().expect_err("256 parameters");
    assert_eq!(error.message, format!("statement has too many arguments (maximum is 255): {source}"));
    assert_eq!(compile("select :a;").check_parameter_counts(), Ok(()));
}

#[test]
fn scripts_share_variables_and_are_chosen_by_weight() {
    let scripts = [("a", "select :x;", 1), ("b", "select :y, :x;", 0), ("c", "select :x;", 3)];
    let bundle = Bundle::compile(&scripts, &defines(&[])).expect("compiles");
    assert_eq!(
        bundle.programs[0].statements[0].parameters[0],
        bundle.programs[1].statements[0].parameters[1]
    );
    let mut prng = Seeds::derive(1, 1, 1).thread[0].choose.clone();
    let mut counts = [0u32; 3];
    for _ in 0..8000 {
        counts[bundle.choose(&mut prng)] += 1;
    }
    assert_eq!(counts[1], 0);
    assert!((1850..2150).contains(&counts[0]), "{counts:?}");
}

#[test]
fn a_single_script_draws_nothing_to_choose() {
    let bundle = bundle("select 1;");
    let mut prng = Seeds::derive(1, 1, 1).thread[0].choose.clone();
    let before = prng.clone();
    assert_eq!((bundle.choose(&mut prng), prng), (0, before));
}

/// Fragments of which scripts are made up.
const FRAGMENTS: [&str; 50] = [
    "\\",
    "\\set ",
    "x ",
    ":x",
    ":",
    "::",
    "\n",
    "\r\n",
    " ",
    "\\\n",
    "\\\r\n",
    ";",
    "\\;",
    "'",
    "\"",
    "$",
    "$$",
    "$a$",
    "é",
    "/*",
    "*/",
    "--",
    "(",
    ")",
    "E'",
    "\\if ",
    "\\elif ",
    "\\else",
    "\\endif",
    "\\sleep ",
    "1",
    "9223372036854775808",
    "1.",
    "e",
    ".5",
    "+",
    "-",
    "case when ",
    " then ",
    " end",
    "random(",
    ",",
    "not ",
    " is ",
    "null",
    "\\gset",
    "\\copydata\n",
    "\n\\.\n",
    "\u{0}",
    "~",
];

/// Whatever the input, the answer is a program or an error.
#[test]
fn no_input_makes_the_compiler_panic() {
    let mut prng = crate::Prng::seed(2026);
    for _ in 0..40_000 {
        let n = prng.uint64_range(0, 24);
        let fragment = |_| FRAGMENTS[prng.uint64_range(0, FRAGMENTS.len() as u64 - 1) as usize];
        let source: String = (0..n).map(fragment).collect();
        let Ok(bundle) = Bundle::compile(&[("t.sql", &source, 1)], &defines(&[])) else { continue };
        let mut emulator = super::emulator(&bundle, 1, &defines(&[("x", "1")]));
        emulator.begin(&bundle.programs[0]);
        let mut out = Vec::new();
        while let Ok(action) = emulator.step(&bundle.programs[0]) {
            match action {
                crate::Action::Send { statement } => {
                    let _ = emulator.render(&bundle.programs[0], statement, &mut out);
                }
                crate::Action::Sleep { .. } => {}
                _ => break,
            }
        }
    }
}

/// Counting the lines before each command would take most of an hour.
#[test]
fn a_script_of_many_lines_is_compiled_in_time_proportional_to_them() {
    let n = 100_000;
    let source = format!("{}select 1;\n{}", "\\if true\n".repeat(n), "\\endif\n".repeat(n));
    let begun = std::time::Instant::now();
    let program = crate::Program::compile("long", &source).unwrap();
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    assert_eq!(program.commands[n].line, n + 1);
    assert_eq!(program.commands.last().unwrap().line, 2 * n + 1);
}
