//! What is wrong is said with its place.

use super::*;

/// The first error of column `x` of a table `t` of 1,000 rows: its place, and its message.
fn error(text: &str) -> (usize, String) {
    let source = match parse(text, 0) {
        Ok(source) => source,
        Err(error) => return (error.at, error.message),
    };
    let mut scope = scope();
    add(&mut scope, "other", "10", &[("k", "row + 1"), ("v", "'x'")]);
    let value = ValueSource { name: "x".to_string(), expression: source, is_hidden: false };
    let rows = Some(expression("1000"));
    scope
        .add_table(TableSource { name: "t".to_string(), rows, each: None, values: vec![value] })
        .expect("a table");
    match scope.compile() {
        Ok(_) => panic!("{text} has no error"),
        Err(errors) => (errors[0].at, errors[0].message.clone()),
    }
}

#[track_caller]
fn check(text: &str, at: usize, part_of_message: &str) {
    let (found_at, message) = error(text);
    assert!(found_at == at && message.contains(part_of_message), "{text}: {found_at}: {message}");
}

#[test]
fn texts_that_are_no_expressions_are_refused_at_their_place() {
    check("1 +", 3, "expected a value, found the end");
    check("1 2", 2, "expected an operator or the end, found `2`");
    check("f(1", 3, "expected `)`");
    check("a = b", 2, "write `==`");
    check("a && b", 2, "`and`");
    check("\"a\"", 0, "single quotes");
    check("'abc", 0, "no closing quote");
    check("12x", 0, "followed by a letter");
    check("99999999999999999999", 0, "beyond 64 bits");
    check("1 < 2 < 3", 0, "do not chain");
    check("t.", 2, "expected a column");
    check("and", 0, "expected a value");
    check("ä", 0, "`ä` is not of this language");
    check("", 0, "expected a value, found the end");
    check(&"(".repeat(100), 65, "nested deeper than 64");
    check(&format!("{}1", "-".repeat(100)), 65, "nested deeper than 64");
}

#[test]
fn unknown_names_are_refused_with_what_was_meant() {
    check("1 + thetta", 4, "unknown name `thetta`; did you mean `theta`?");
    check("unifrom(1, 2)", 0, "unknown function `unifrom`; did you mean `uniform`?");
    check("othr.k[0]", 0, "unknown table `othr`; did you mean `other`?");
    check("other.kk[0]", 0, "`other` has no column `kk`");
    check("other", 0, "`other` is a table");
    check("uniform", 0, "the function is written `uniform(…)`");
    check(
        "line_of('lists/word.txt', 1)",
        8,
        "there is no list `lists/word.txt`; did you mean `lists/words.txt`?",
    );
    check("item", 0, "within `list(…)` alone");
    check("parent", 0, "in a table with `each` alone");
    check("fresh(other)", 0, "in parameters alone");
    check("1 + null", 4, "`null` is an argument of `choose`");
    check("pick(null, null)", 0, "nothing but `null`");
}

#[test]
fn types_arities_and_values_are_checked() {
    check("uniform(1)", 0, "`uniform(least, most)`: 1 arguments are given");
    check("1 + 'a'", 0, "`+` of int and text is not defined; texts are joined by `concat(a, b)`");
    check("1.5 + decimal(1, 1)", 0, "`float(…)`");
    check("timestamp('2024-01-01') + 1", 0, "write `days(…)` or `seconds(…)`");
    check("not 1", 0, "`not` takes a bool, not int");
    check("1 == 'a'", 0, "are not of one type");
    check("choose(1, 2, 3)", 7, "takes a bool here, not int");
    check("choose(true, 2, 'a')", 0, "are not of one type");
    check("zipf(10, 0)", 9, "above 0 and at most 1000");
    check("zipf(row, theta * row)", 10, "known when the plan is made");
    check("uniform(10, 1)", 0, "`uniform(10, 1)` is empty");
    check("chance(2)", 7, "from 0 to 1");
    check("date('2023-02-29')", 5, "`2023-02-29` is no day");
    check("pick_weighted('a', 1, 'b')", 0, "has a weight behind it");
    check("1 / 0", 0, "`/` by zero");
    check("other.k[10]", 8, "row 10 of `other`: it has 10 rows, from 0");
    check("other.k[row + 20]", 8, "rows 20 to 1019 of `other`");
    check("other.k", 0, "which row is meant?");
    check("other.k['a']", 8, "a row is an int, not text");
    check("line_of('lists/words.txt', row)", 27, "0 to 999: the list has 3 words");
    check("sum(other.k)", 4, "`other` has rows of its own");
    check("rows(lists)", 5, "unknown table");
    check("vector(3, 0, 0.1)", 10, "at least 1");
    check(
        "pick(vector(3000, 1000, 0.1), vector(3000, 1000, 0.2), vector(3000, 1001, 0.2))",
        68,
        "4000000 coordinates",
    );
    check("int(1e300)", 0, "beyond 64 bits");
    check("1e300 * 1e300", 0, "not a finite number");
}

#[test]
fn an_error_in_a_let_is_at_its_own_text() {
    let mut scope = scope();
    scope.set_let("wrong", parse("1 + nothing", 77).expect("an expression"));
    add(&mut scope, "t", "10", &[("x", "wrong"), ("y", "2 * wrong"), ("z", "unknown")]);
    let errors = scope.compile().err().expect("errors");
    let places: Vec<(usize, usize)> = errors.iter().map(|error| (error.origin, error.at)).collect();
    assert_eq!(places, [(3, 0), (77, 4)]);
}

#[test]
fn cycles_are_found_wherever_they_go() {
    let first = |scope: Scope| scope.compile().err().expect("errors")[0].message.clone();
    let mut cyclic = scope();
    add(&mut cyclic, "t", "10", &[("x", "y + 1"), ("y", "z"), ("z", "x")]);
    assert!(first(cyclic).contains("`t.x` → `t.y` → `t.z` → `t.x` depends on itself"));
    let mut cyclic = scope();
    add(&mut cyclic, "t", "10", &[("x", "u.y[row]")]);
    add(&mut cyclic, "u", "10", &[("y", "t.x[row]")]);
    assert!(first(cyclic).contains("depends on itself"));
    let mut cyclic = scope();
    cyclic.set_let("p", expression("q"));
    cyclic.set_let("q", expression("p"));
    add(&mut cyclic, "t", "10", &[("x", "p")]);
    assert!(first(cyclic).contains("`p` is defined by itself"));
    let mut own = scope();
    add(&mut own, "t", "10", &[("x", "t.x[row - 1]")]);
    assert!(first(own).contains("depends on itself"));
}

#[test]
fn no_text_makes_the_reader_or_the_compiler_panic() {
    let pieces = [
        "row",
        "1",
        "0",
        "-",
        "+",
        "*",
        "/",
        "%",
        "(",
        ")",
        "[",
        "]",
        ",",
        ".",
        "other",
        "k",
        "'a'",
        "uniform",
        "list",
        "item",
        "json",
        "choose",
        "zipf",
        "==",
        "<",
        "and",
        "not",
        "1.5",
        "9223372036854775807",
        "hash",
        "date",
        "decimal",
        "nullable",
        "substr",
        "concat",
        "sum",
        "zeros",
        "ä",
        "'",
        "round",
        "key",
        "pick",
    ];
    let mut draws = crate::random::Draws { state: 4 };
    let mut n_compiled = 0;
    for _ in 0..20_000 {
        let n = 1 + draws.below(9);
        let text: Vec<&str> = (0..n).map(|_| pieces[draws.below(pieces.len() as u64) as usize]).collect();
        let text = text.join(if draws.below(2) == 0 { " " } else { "" });
        let Ok(source) = parse(&text, 0) else { continue };
        let mut scope = scope();
        add(&mut scope, "other", "10", &[("k", "row + 1")]);
        let value = ValueSource { name: "x".to_string(), expression: source, is_hidden: false };
        let rows = Some(expression("10"));
        let table = TableSource { name: "t".to_string(), rows, each: None, values: vec![value] };
        let table = scope.add_table(table).expect("a table");
        if let Ok(generator) = scope.compile() {
            n_compiled += 1;
            // A fault is an answer, too.
            let _ = generator.rows(table).write_row(3, &mut Vec::new());
        }
    }
    assert!(n_compiled > 200, "{n_compiled}");
}
