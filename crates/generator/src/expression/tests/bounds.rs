//! What is known before a value is made: intervals, lengths, nulls, uniqueness, cost.

use super::*;

#[test]
fn intervals_hold_the_values() {
    for (text, low, high) in [
        ("row", 0, 999),
        ("row * 3 - 7", -7, 2990),
        ("-row", -999, 0),
        ("row / 10 - row % 10", -9, 99),
        ("uniform(-5, row)", -5, 999),
        ("uniform(-7, 7) / 2", -4, 3),
        ("uniform(-7, 7) % 5", 0, 4),
        ("7 / (2 * uniform(-2, 3) + 1)", -7, 7),
        ("uniform(-3, 2) * uniform(-4, 5)", -15, 12),
        ("decimal(uniform(0, 10), 2) * 3", 0, 30),
        ("decimal(row, 2) + 1", 100, 1099),
        ("int(uniform(0.0, 9.9))", 0, 9),
        ("zipf(100, 1.1)", 0, 99),
        ("permute(row, rows)", 0, 999),
        ("least(row, 10)", 0, 10),
        ("greatest(row, 10)", 10, 999),
        ("abs(row - 10)", 0, 989),
        ("choose(row == 0, 5, row)", 0, 999),
        ("pick(3, 9, 6)", 3, 9),
        ("length(letters(2, 20))", 0, 20),
        ("round(decimal(row, 1))", -1, 100),
        ("year(date(1990 + row % 10, 1, 1))", 1990, 1999),
        ("hash(row)", i128::from(i64::MIN), i128::from(i64::MAX)),
    ] {
        let found = facts(text);
        assert_eq!(found.reach, Some((low, high)), "{text}");
        for at in [0, 1, 17, 999] {
            let value: i128 = cell(text, at).replace('.', "").parse().expect("a number");
            assert!((low..=high).contains(&value), "{text}: {value}");
        }
    }
}

#[test]
fn lengths_hold_the_texts() {
    for (text, longest) in [
        ("'äöü'", 3),
        ("row", 3),
        ("row * -1", 4),
        ("decimal(row, 2)", 4),
        ("decimal(row, 1) - 5", 4),
        ("concat('user', row)", 7),
        ("concat('a', date('2024-01-01'))", 11),
        ("ascii(10, 40)", 40),
        ("pattern('##-?')", 4),
        ("prose('lists/words.txt', 1, 43)", 43),
        ("words('lists/words.txt', 1, 3)", 17),
        ("words('lists/umlauts.txt', 2, 2)", 7),
        ("substr(ascii(40), 3, 5)", 5),
        ("zeros(row, 9)", 9),
        ("choose(row == 1, 'abc', 'abcde')", 5),
        ("uuid()", 36),
        ("chance(0.5)", 1),
        ("compressible(100, 3)", 100),
    ] {
        assert_eq!(facts(text).longest, Some(longest), "{text}");
        for at in 0..50 {
            let value = cell(text, at).replace("\\\\", "\\");
            assert!(value.chars().count() as u64 <= longest, "{text}: {value}");
        }
    }
}

#[test]
fn nulls_uniqueness_and_constants_are_known() {
    let is_nullable = |text: &str| facts(text).is_nullable;
    assert!(is_nullable("nullable(0.1, 1)") && is_nullable("nullable(0.1, 1) + 1"));
    assert!(!is_nullable("concat(nullable(0.1, 'a'), 'b')") && !is_nullable("row"));
    assert!(
        !is_nullable("choose(nullable(0.5, true), 1, 2)")
            && is_nullable("choose(row == 1, nullable(1, 1), 2)")
    );
    for (text, expected) in [
        ("row", true),
        ("row + 1", true),
        ("10 - 2 * row", true),
        ("row * 0", false),
        ("permute(row, rows)", true),
        ("permute(row, 10)", false),
        ("concat('user', row)", true),
        ("concat(row, row)", false),
        ("concat('x', hash(row))", true),
        ("row / 2", false),
        ("uniform(0, 10)", false),
        ("uuid()", true),
        ("zeros(row, 9)", true),
    ] {
        assert_eq!(facts(text).is_unique, expected, "{text}");
    }
    assert!(facts("1 + 2 * tables").is_constant && !facts("row").is_constant && !facts("key").is_constant);
}

#[test]
fn what_can_leave_its_type_is_refused() {
    let refused = |text: &str, message: &str| {
        let mut scope = scope();
        add(&mut scope, "t", "1000", &[("x", text)]);
        let errors = scope.compile().err().unwrap_or_else(|| panic!("{text} passes"));
        assert!(errors[0].message.contains(message), "{text}: {}", errors[0].message);
    };
    refused("row * 10000000000000000", "`*` can reach 9990000000000000000, which is beyond 64 bits");
    refused("hash(row) + 1", "`+` can reach 9223372036854775808");
    refused("date('9999-12-31') + row", "beyond the years 1 to 9999");
    refused("timestamp('2024-01-01') + days(10000 * row)", "beyond the years 1 to 9999");
    refused("decimal(row, 18) + 10", "beyond 64 bits");
    refused("ascii(1048577)", "0 to 1048576 is possible");
    refused("concat(ascii(1000000), ascii(1000000))", "a cell has at most 1048576");
    refused("list(1000000, uniform(1, 9))", "a cell has at most 1048576");
    refused("list(1000, length(list(1000, row)))", "takes a text");
    refused("list(1000, length(ascii(100000)))", "steps for one value");
}

#[test]
fn lets_and_columns_that_multiply_are_refused() {
    let mut wide = scope();
    wide.set_let("l0", expression("uniform(1, 2)"));
    for at in 1..20 {
        let before = format!("l{}", at - 1);
        wide.set_let(&format!("l{at}"), expression(&format!("least({})", vec![before; 4].join(", "))));
    }
    add(&mut wide, "t", "10", &[("x", "l19")]);
    assert!(wide.compile().err().expect("errors")[0].message.contains("more than 10000 parts"));
    let mut wide = scope();
    let names: Vec<String> = (0..40).map(|at| format!("c{at}")).collect();
    let texts: Vec<String> = (0..40)
        .map(|at: usize| match at.checked_sub(1) {
            None => "row".to_string(),
            Some(before) => format!("least(t.c{before}[row], t.c{before}[row % 7])"),
        })
        .collect();
    let columns: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
    add(&mut wide, "t", "10", &columns);
    assert!(
        wide.compile()
            .err()
            .expect("errors")
            .iter()
            .any(|error| error.message.contains("steps for one value"))
    );
    // In the same row, each is made once.
    let texts: Vec<String> = (0..15)
        .map(|at: usize| {
            at.checked_sub(1)
                .map_or("1 % 2 + row".to_string(), |before| format!("least(c{before}, c{before} + 1)"))
        })
        .collect();
    let columns: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
    let mut narrow = scope();
    let table = add(&mut narrow, "t", "10", &columns);
    let generator = compiled(narrow);
    assert!(generator.table(table).iter().all(|value| value.steps < 20));
    assert!(row(&mut generator.rows(table), 3).ends_with("\t4"));
}

#[test]
fn long_chains_are_refused_without_using_the_stack() {
    let names: Vec<String> = (0..3000).map(|at| format!("c{at}")).collect();
    let texts: Vec<String> = (0..3000).map(|at| format!("c{}", at + 1)).chain(["row".to_string()]).collect();
    let mut columns: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
    columns.push(("c3000", "row"));
    let mut long = scope();
    add(&mut long, "t", "10", &columns);
    assert!(long.compile().is_err());
}
