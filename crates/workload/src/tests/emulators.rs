//! Running scripts without a server.

use super::{bundle, defines, emulator};
use crate::script::eval::Slot;
use crate::{Action, BoundParameter, Bundle, Dialect, Emulator, Program, Unsendable, Value};

/// Runs a transaction and returns what was sent and slept.
fn run(emulator: &mut Emulator, program: &Program) -> Vec<String> {
    emulator.begin(program);
    let mut log = Vec::new();
    loop {
        match emulator.step(program).expect("the script runs") {
            Action::End => return log,
            Action::Sleep { ns } => log.push(format!("sleep {ns}")),
            Action::Send { statement } => {
                let mut text = Vec::new();
                emulator.render(program, statement, &mut text).expect("each variable has a value");
                log.push(String::from_utf8(text).expect("text"));
            }
            Action::Shell | Action::SetShell => {
                log.push(
                    emulator.script().expect("a script").shell_line(program).expect("the line is complete"),
                );
                emulator
                    .script_mut()
                    .expect("a script")
                    .take_shell_answer(program, b"42\nmore")
                    .expect("an integer");
            }
            other => log.push(format!("{other:?}")),
        }
    }
}

#[test]
fn conditions_take_one_branch() {
    let source = "\\if :a > 1
select 'many';
\\if :b
select 'b';
\\elif :c
select 'c';
\\endif
\\elif :a = 1
select 'one';
\\else
select 'none';
\\if not :b
select 'not b';
\\else
\\endif
\\endif
select 'end';";
    let check = |a: &str, b: &str, c: &str, wanted: &[&str]| {
        let bundle = bundle(source);
        let mut emulator = emulator(&bundle, 1, &defines(&[("a", a), ("b", b), ("c", c)]));
        let log = run(&mut emulator, &bundle.programs[0]);
        let wanted: Vec<String> = wanted.iter().map(|word| format!("select '{word}';")).collect();
        assert_eq!(log, wanted, "a={a} b={b} c={c}");
    };
    check("2", "true", "true", &["many", "b", "end"]);
    check("2", "false", "true", &["many", "c", "end"]);
    check("2", "0", "null", &["many", "end"]);
    check("1", "true", "true", &["one", "end"]);
    check("0", "true", "true", &["none", "end"]);
    check("0", "false", "true", &["none", "not b", "end"]);
}

#[test]
fn a_condition_behind_the_one_that_holds_is_not_evaluated() {
    let bundle = bundle(
        "\\if 1\nselect 1;\n\\elif 1 / 0\nselect 2;\n\\endif\n\\if 0\n\\if 1 / 0\n\\elif 1 / 0\n\\endif\n\\endif",
    );
    let mut emulator = emulator(&bundle, 1, &defines(&[]));
    assert_eq!(run(&mut emulator, &bundle.programs[0]), ["select 1;"]);
}

#[test]
fn values_stand_in_statements_as_pgbench_writes_them() {
    let source = "\\set i -5\n\\set d 1.0 / 3\n\\set t 1 = 1\n\\set n null
select :i, :d, :t, :n, :s, ':s', :unset, :i::int;";
    let bundle = bundle(source).speaking(Dialect::Pgbench);
    let program = &bundle.programs[0];
    let mut emulator = emulator(&bundle, 1, &defines(&[("s", "it's")]));
    let wanted = "select -5, 0.333333333333333, true, NULL, it's, 'it's', :unset, -5::int;";
    assert_eq!(run(&mut emulator, program), [wanted]);
    let mut texts = Vec::new();
    for variable in &program.statements[0].parameters {
        let mut text = Vec::new();
        let bound = emulator.parameter(*variable, &mut text);
        texts.push((bound == BoundParameter::Text).then(|| String::from_utf8(text).expect("text")));
    }
    let wanted =
        ["-5", "0.333333333333333", "true", "NULL", "it's", "it's"].map(|text| Some(text.to_owned()));
    assert_eq!(texts[..6], wanted);
    assert_eq!((&texts[6], &texts[7]), (&None, &Some("-5".to_owned())));
}

#[test]
fn what_has_no_value_is_never_sent_unless_pgbench_would() {
    let source = "select 1 as q \\gset\nselect :u, :q, ':q';";
    let check = |dialect, set: bool, bound: [BoundParameter; 2], rendered: Result<&str, Unsendable>| {
        let bundle = bundle(source).speaking(dialect);
        let program = &bundle.programs[0];
        let mut emulator = emulator(&bundle, 1, &defines(if set { &[("u", "1")] } else { &[] }));
        let script = emulator.script_mut().expect("a script");
        script.assign_column(program, "gset", "q", None).expect("a name");
        let parameters = &program.statements[1].parameters;
        let got = [0, 1].map(|n| emulator.parameter(parameters[n], &mut Vec::new()));
        assert_eq!(got, bound, "{dialect:?} {set}");
        let mut text = Vec::new();
        let got = emulator.render(program, 1, &mut text).map(|()| String::from_utf8(text).expect("text"));
        assert_eq!(got, rendered.map(str::to_owned), "{dialect:?} {set}");
    };
    let of = |name| bundle(source).variables.find(name).expect("a variable");
    check(
        Dialect::Exact,
        false,
        [BoundParameter::Unset, BoundParameter::Null],
        Err(Unsendable::Unset(of("u"))),
    );
    check(
        Dialect::Exact,
        true,
        [BoundParameter::Text, BoundParameter::Null],
        Err(Unsendable::NullInText(of("q"))),
    );
    check(Dialect::Pgbench, false, [BoundParameter::Null, BoundParameter::Text], Ok("select :u, , '';"));

    let bundle = bundle("\\set n null\nselect :n /* :n */, $$:n$$;");
    let mut emulator = emulator(&bundle, 1, &defines(&[]));
    emulator.begin(&bundle.programs[0]);
    emulator.step(&bundle.programs[0]).expect("runs");
    let mut text = Vec::new();
    let error = emulator.render(&bundle.programs[0], 0, &mut text).expect_err("NULL in a string");
    assert_eq!(text, b"select NULL /* NULL */, $$");
    let cause = "variable \"n\" is NULL, which has no place inside a text";
    assert_eq!(error.cause(&bundle.variables), cause);
    assert_eq!(
        Unsendable::Unset(of("u")).cause(&super::bundle(source).variables),
        "undefined variable \"u\""
    );
}

#[test]
fn sleeping_times_are_in_nanoseconds() {
    let source = "\\sleep 2\n\\sleep 3 ms\n\\sleep -1\n\\set a 4\n\\sleep :a us\n\\set a 1.9\n\\sleep :a";
    let bundle = bundle(source);
    let mut emulator = emulator(&bundle, 1, &defines(&[]));
    let wanted = ["sleep 2000000000", "sleep 3000000", "sleep 0", "sleep 4000", "sleep 1000000000"];
    assert_eq!(run(&mut emulator, &bundle.programs[0]), wanted);
}

#[test]
fn a_rewound_transaction_repeats_its_random_values() {
    let bundle =
        bundle("\\set x random(1, 1000000)\nselect :x;\n\\set y random_gaussian(1, 1000000, 3)\nselect :y;");
    let program = &bundle.programs[0];
    let mut emulator = emulator(&bundle, 1, &defines(&[]));
    let first = run(&mut emulator, program);
    emulator.rewind(program);
    // Without `begin`, which would remember the stream as it is now.
    let mut again = Vec::new();
    while let Action::Send { statement } = emulator.step(program).expect("runs") {
        let mut text = Vec::new();
        emulator.render(program, statement, &mut text).expect("each variable has a value");
        again.push(String::from_utf8(text).expect("text"));
    }
    assert_eq!(again, first);
    assert_ne!(run(&mut emulator, program), first);
}

#[test]
fn variables_outlive_transactions_and_are_seen_by_all_scripts() {
    let scripts = [("a", "\\set n :n + 1", 1), ("b", "select :n, :client_id, :who;", 1)];
    let bundle = Bundle::compile(&scripts, &defines(&[])).expect("compiles").speaking(Dialect::Pgbench);
    let prng = crate::Prng::seed(1);
    let mut emulator =
        Emulator::new(&bundle, prng.clone(), 7, &defines(&[("n", "0"), ("who", "me"), ("idle", "1")]));
    for _ in 0..3 {
        run(&mut emulator, &bundle.programs[0]);
    }
    assert_eq!(run(&mut emulator, &bundle.programs[1]), ["select 3, 7, me;"]);
    let mut renamed = Emulator::new(&bundle, prng, 7, &defines(&[("n", "0"), ("client_id", "99")]));
    assert_eq!(run(&mut renamed, &bundle.programs[1]), ["select 0, 99, :who;"]);
}

#[test]
fn text_is_typed_when_an_expression_asks() {
    let check = |text: &str, wanted: Result<Value, &str>| {
        let typed =
            crate::script::eval::value_of_text("v", text.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(typed, wanted.map_err(str::to_owned), "{text:?}");
    };
    check("NULL", Ok(Value::Null));
    for text in ["t", "TRUE", "y", "yes", "on", "ON"] {
        check(text, Ok(Value::Bool(true)));
    }
    for text in ["f", "fals", "n", "NO", "of", "off"] {
        check(text, Ok(Value::Bool(false)));
    }
    check("nu", Err("malformed variable \"v\" value: \"nu\""));
    check("o", Err("malformed variable \"v\" value: \"o\""));
    check("truest", Err("malformed variable \"v\" value: \"truest\""));
    check("-9223372036854775808", Ok(Value::Int(i64::MIN)));
    check("+5", Ok(Value::Int(5)));
    check(" 5", Ok(Value::Int(5)));
    check("5 ", Err("malformed variable \"v\" value: \"5 \""));
    check("9223372036854775808", Err("value \"9223372036854775808\" is out of range for type bigint"));
    check("1e3", Ok(Value::Double(1000.0)));
    check("inf", Ok(Value::Double(f64::INFINITY)));
    check("", Err("variable \"v\" is empty"));
}

#[test]
fn assigned_text_keeps_its_form_until_it_is_set() {
    let bundle = bundle("select :a;\n\\set b :a + 0\nselect :a, :b;");
    let mut emulator = emulator(&bundle, 1, &defines(&[]));
    let a = bundle.variables.find("a").unwrap();
    emulator.script_mut().expect("a script").set_text(a, b"007");
    assert_eq!(run(&mut emulator, &bundle.programs[0]), ["select 007;", "select 007, 7;"]);
    emulator.script_mut().expect("a script").set_value(a, Value::Int(8));
    assert_eq!(emulator.script().expect("a script").slot(a), &Slot::Value(Value::Int(8)));
}

#[test]
fn shells_and_pipelines_are_handed_out() {
    let bundle = bundle(
        "\\shell echo :a ::b c\n\\setshell n printf :a\n\\startpipeline\nselect :n;\n\\syncpipeline\n\\endpipeline",
    );
    let mut emulator = emulator(&bundle, 1, &defines(&[("a", "A")]));
    let wanted = ["echo A :b c", "printf A", "StartPipeline", "select 42;", "SyncPipeline", "EndPipeline"];
    assert_eq!(run(&mut emulator, &bundle.programs[0]), wanted);
}

#[test]
fn shells_fail_in_pgbench_s_words() {
    let check = |source: &str, output: &[u8], wanted: &str| {
        let bundle = bundle(source);
        let program = &bundle.programs[0];
        let mut emulator = emulator(&bundle, 1, &defines(&[]));
        emulator.begin(program);
        emulator.step(program).expect("a shell");
        let line = emulator.script().expect("a script").shell_line(program);
        let error = line
            .and_then(|_| emulator.script_mut().expect("a script").take_shell_answer(program, output))
            .expect_err(source);
        assert_eq!((error.cause.as_str(), error.command), (wanted, 0), "{source}");
        assert_eq!(error.outcome, "execution of meta-command failed");
    };
    check("\\shell echo :no", b"", "echo: undefined variable \":no\"");
    check("\\setshell 1x echo", b"1", "setshell: invalid variable name: \"1x\"");
    check("\\setshell x echo y", b"y\n", "echo: shell command must return an integer (not \"y\n\")");
    let long = format!("\\shell echo {}", "x".repeat(250));
    check(&long, b"", "echo: shell command is too long");
}

#[test]
fn a_command_gets_no_text_for_null_but_pgbench_s() {
    for (dialect, wanted) in [
        (Dialect::Exact, Err("echo: variable \"q\" is NULL, which has no place inside a text")),
        (Dialect::Pgbench, Ok("echo NULL")),
    ] {
        let bundle = bundle("\\set q null\n\\shell echo :q").speaking(dialect);
        let program = &bundle.programs[0];
        let mut emulator = emulator(&bundle, 1, &defines(&[]));
        emulator.begin(program);
        emulator.step(program).expect("a shell");
        let line = emulator.script().expect("a script").shell_line(program).map_err(|error| error.cause);
        assert_eq!(line.as_deref().map_err(String::as_str), wanted);
    }
}

#[test]
fn columns_become_variables_if_a_script_knows_them() {
    let bundle = bundle("select 1 as n \\gset p_\nselect :p_n;");
    let program = &bundle.programs[0];
    let mut emulator = emulator(&bundle, 1, &defines(&[]));
    assert_eq!(
        emulator.script_mut().expect("a script").assign_column(program, "gset", "p_n", Some(b"12")),
        Ok(())
    );
    assert_eq!(
        emulator.script_mut().expect("a script").assign_column(program, "gset", "unknown", Some(b"12")),
        Ok(())
    );
    let wanted = "gset: invalid variable name: \"p_?column?\"".to_owned();
    assert_eq!(
        emulator.script_mut().expect("a script").assign_column(program, "gset", "p_?column?", Some(b"")),
        Err(wanted)
    );
    assert_eq!(run(&mut emulator, program)[1], "select 12;");
}

#[test]
fn commands_are_counted_as_pgbench_counts_them() {
    let source = "\\if :a = 1\n\\set x 1\n\\elif :a = 2\n\\set x 2\n\\else\n\\set x 3\n\\endif\n\\set y 1";
    let check = |a: &str, wanted: &[usize]| {
        let bundle = bundle(source);
        let program = &bundle.programs[0];
        let mut emulator = emulator(&bundle, 1, &defines(&[("a", a)]));
        emulator.begin(program);
        let mut seen = vec![emulator.command()];
        while emulator.step_one(program).expect("runs").is_none() {
            seen.push(emulator.command());
        }
        seen.pop();
        assert_eq!(seen, wanted, "a = {a}");
    };
    check("1", &[0, 1, 2, 7]);
    check("2", &[0, 2, 3, 4, 7]);
    check("3", &[0, 2, 5, 6, 7]);
}
