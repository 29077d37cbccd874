//! What is worked out when a script is compiled, and what is not. That values and errors stay what they are is seen in
//! `expressions`, whose tables run folded too.

use super::{bundle_with, defines};
use crate::script::eval::Slot;
use crate::script::expr::Expr;
use crate::{Bundle, ScriptCommand, Value};

/// The expression of the script's last `\set`.
fn folded(source: &str) -> Expr {
    let variables = defines(&[("scale", "10"), ("half", "0.5"), ("bad", "abc"), ("none", "null")]);
    last_set(&bundle_with(source, &variables))
}

fn last_set(bundle: &Bundle) -> Expr {
    let sets = bundle.programs[0].commands.iter().rev().find_map(|step| match &step.command {
        ScriptCommand::Set { expr, .. } => Some(expr.clone()),
        _ => None,
    });
    sets.expect("the script sets a variable")
}

#[test]
fn constant_expressions_are_evaluated_once() {
    let check = |expr: &str, value: Value| {
        assert_eq!(folded(&format!("\\set x {expr}")), Expr::Constant(value), "{expr}");
    };
    check("100000 * :scale", Value::Int(1_000_000));
    check("sqrt(16) + :half", Value::Double(4.5));
    check("greatest(1, :scale, 3)", Value::Int(10));
    check("hash(:scale, 5)", Value::Int(crate::random::hash_murmur2(10, 5)));
    check("not (:scale > 3)", Value::Bool(false));
    check(":none is null", Value::Bool(true));
    check("1 + :none", Value::Null);
    check("false or :scale = 10", Value::Bool(true));
}

#[test]
fn a_draw_has_a_range_that_is_known_and_good() {
    let check = |expr: &str, lo: i64, hi: i64| {
        assert_eq!(folded(&format!("\\set x {expr}")), Expr::Draw { lo, hi }, "{expr}");
    };
    check("random(1, 100000 * :scale)", 1, 1_000_000);
    check("random(-5000, 5000)", -5000, 5000);
    check("random(7, 7)", 7, 7);
    check("random(1, 2.5)", 1, 2);
    for other in ["random(2, 1)", "random(1, :none)", "random(0, 9223372036854775807)", "random(1, :bad)"] {
        let expr = folded(&format!("\\set x {other}"));
        assert!(matches!(expr, Expr::Call(..)), "{other}: {expr:?}");
    }
}

#[test]
fn expressions_that_fail_draw_or_print_are_evaluated_when_run() {
    for expr in [
        "1 / 0",
        ":bad + 1",
        "debug(1)",
        "random_gaussian(1, 10, 2.5)",
        ":missing",
        "sqrt(:client_id)",
        "-(-9223372036854775807 - 1)",
    ] {
        assert!(!matches!(folded(&format!("\\set x {expr}")), Expr::Constant(_)), "{expr}");
    }
    // The part that never runs does not fail.
    assert!(matches!(folded("\\set x case when true then 1 else 1/0 end"), Expr::Case(..)));
}

#[test]
fn a_variable_that_anything_assigns_is_looked_up() {
    let is_left = |source: &str| matches!(folded(source), Expr::Variable(_));
    assert!(!is_left("select 1;\n\\set x :scale"));
    assert!(is_left("\\set scale 5\n\\set x :scale"));
    assert!(is_left("\\setshell scale echo 5\n\\set x :scale"));
    // Rows may become any variable.
    assert!(is_left("select 1 as scale \\gset\n\\set x :scale"));
    assert!(is_left("select 1 as scale \\aset\n\\set x :scale"));
    // Another script of the same load assigns it.
    let sources = [("a.sql", "\\set x :scale", 1), ("b.sql", "\\set scale 5", 1)];
    let bundle = Bundle::compile(&sources, &defines(&[("scale", "10")])).unwrap();
    assert!(matches!(last_set(&bundle), Expr::Variable(_)));
}

#[test]
fn conditions_are_folded_too() {
    let variables = defines(&[("scale", "10")]);
    let bundle = bundle_with("\\if :scale > 5\n\\set x 1\n\\elif :scale > 3\n\\endif", &variables);
    for step in &bundle.programs[0].commands {
        if let ScriptCommand::If { condition, .. } | ScriptCommand::Elif { condition, .. } = &step.command {
            assert_eq!(condition, &Expr::Constant(Value::Bool(true)));
        }
    }
    let mut emulator = super::emulator(&bundle, 1, &variables);
    emulator.begin(&bundle.programs[0]);
    emulator.step(&bundle.programs[0]).unwrap();
    let x = bundle.variables.find("x").unwrap();
    assert_eq!(emulator.script().expect("a script").slot(x), &Slot::Value(Value::Int(1)));
}
