//! Values of operators and functions.

use super::*;

#[test]
fn constants_and_operators_have_their_values() {
    for (text, expected) in [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("-7 / 2", "-4"),
        ("7 / -2", "-4"),
        ("-7 % 5", "3"),
        ("7 % -5", "-3"),
        ("- 3 - -4", "1"),
        ("1 / 2.0", "0.5"),
        ("2.5 * 2", "5.0"),
        ("1e3 + half", "1000.5"),
        ("7.5 % 2", "1.5"),
        ("1 < 2 and 2 < 3", "t"),
        ("not 1 == 1 or false", "f"),
        ("'a' < 'b'", "t"),
        ("'it''s'", "it's"),
        ("scale * tables", "4"),
        ("kind == 'plain' and is_on", "t"),
        ("decimal(150, 2)", "1.50"),
        ("decimal(-5, 2)", "-0.05"),
        ("decimal(150, 2) + 1", "2.50"),
        ("decimal(150, 2) * decimal(2, 1)", "0.300"),
        ("decimal(150, 2) - decimal(5, 1)", "1.00"),
        ("decimal(150, 2) > 1", "t"),
        ("date('2024-02-28') + 2", "2024-03-01"),
        ("date('2024-03-01') - date('2024-02-01')", "29"),
        ("date(1900, 2, 28) + 1", "1900-03-01"),
        ("timestamp('2024-01-01 10:00') + seconds(1.5)", "2024-01-01 10:00:01.500000+00"),
        ("timestamp('2024-01-01') - days(1)", "2023-12-31 00:00:00+00"),
        ("date('2024-01-31') + days(1) == timestamp('2024-02-01')", "t"),
        ("year(date('1999-12-31')) + year(timestamp('2000-01-01'))", "3999"),
        ("date(timestamp('1969-12-31 23:59:59'))", "1969-12-31"),
        ("seconds(2) - seconds(1)", "1000000 microseconds"),
    ] {
        assert_eq!(cell(text, 0), expected, "{text}");
    }
}

#[test]
fn functions_without_draws_have_their_values() {
    for (text, expected) in [
        ("int(2.9)", "2"),
        ("int(-2.9)", "-2"),
        ("int(1500000 * 0.01)", "15000"),
        ("round(2.5)", "2.0"),
        ("round(decimal(25, 1))", "3"),
        ("round(decimal(-25, 1))", "-3"),
        ("round(decimal(12345, 4), 2)", "1.23"),
        ("round(decimal(12355, 4), 2)", "1.24"),
        ("round(1.005, 1)", "1.0"),
        ("round(3, 2)", "3.00"),
        ("floor(-2.5)", "-3.0"),
        ("floor(decimal(-25, 1))", "-3"),
        ("abs(-3) + abs(3)", "6"),
        ("float(decimal(25, 1)) / 2", "1.25"),
        ("least(3, 1, 2)", "1"),
        ("greatest(1, 2.5)", "2.5"),
        ("least(nullable(1, 3), 4)", "4"),
        ("choose(1 == 1, 'a', 'b')", "a"),
        ("choose(kind == 'other', 1, 2)", "2"),
        ("choose(row > 5, 'a', null)", "\\N"),
        ("choose(row > 5, null, 'a')", "a"),
        ("choose(kind == 'plain', null, date('2024-01-01'))", "\\N"),
        ("least(null, 2.5, 3)", "2.5"),
        ("'\\ab\tc\\'", "\\\\ab\\tc\\\\"),
        ("zeros(1, 1)", "1"),
        ("zeros(0, 0)", ""),
        ("100 * 1", "100"),
        ("json('a', list(2, json('b', list(1, item))))", r#"{"a":[{"b":[0]},{"b":[0]}]}"#),
        ("list(1, json('a', 'b'))", r#"{"{\\"a\\":\\"b\\"}"}"#),
        ("concat('a', 1, decimal(5, 1), true, nullable(1, 'x'), date('2024-01-02'))", "a10.5t2024-01-02"),
        ("zeros(42, 5)", "00042"),
        ("zeros(123456, 3)", "123456"),
        ("zeros(-4, 3)", "-004"),
        ("zeros(7, 25)", "0000000000000000000000007"),
        ("substr('hello', 2, 3)", "ell"),
        ("substr('hello', -1, 3)", "h"),
        ("substr('hello', 5, 9)", "o"),
        ("substr('hello', 9, 2)", ""),
        ("substr('äöü', 2, 1)", "ö"),
        ("upper('straße 7')", "STRAßE 7"),
        ("length('äöü')", "3"),
        ("bytes('AZ')", "\\\\x415a"),
        ("line_of('lists/words.txt', 2)", "three"),
        (
            "json('a', 1, 'b', 'x\"y', 'c', nullable(1, 1), 'd', true, 'e', 1.5)",
            r#"{"a":1,"b":"x\\"y","c":null,"d":true,"e":1.5}"#,
        ),
        ("json('l', list(3, item * 2), 'd', date('2024-01-02'))", r#"{"l":[0,2,4],"d":"2024-01-02"}"#),
        ("list(2, item + 1)", "{1,2}"),
        ("list(2, 'a\"b')", r#"{"a\\"b","a\\"b"}"#),
        ("list(0, 1)", "{}"),
        ("hash(0)", "0"),
        ("hash(1)", "6238072747940578789"),
        ("fnv64(0)", "6284781860667377211"),
        ("permute(3, 10, 7) == permute(13, 10, 7)", "t"),
        ("nullable(1, 5)", "\\N"),
        ("nullable(1, 5) + 1", "\\N"),
        ("nullable(1, true) or true", "t"),
        ("nullable(1, true) and false", "f"),
        ("'tab\tline'", "tab\\tline"),
        ("uniform(5, 5)", "5"),
        ("rows - row", "1000"),
        ("rows(t)", "1000"),
    ] {
        assert_eq!(cell(text, 0), expected, "{text}");
    }
}

#[test]
fn draws_have_golden_values() {
    // Of the first, an implementation in another language has these values.
    let drawn: Vec<String> = (0..5).map(|at| named("a", "uniform(1, 1000000)", at)).collect();
    assert_eq!(drawn, ["154263", "532361", "873953", "673305", "867910"]);
    assert_eq!(named("b", "ascii(20)", 0), "<nl^O=1^[+iVFeR;[;iU");
    assert_eq!(named("c", "letters(20)", 7), "vsmwkhhkaxademduknad");
    assert_eq!(named("d", "list(3, uniform(0, 6))", 3), "{0,1,4}");
    assert_eq!(named("p", "pattern('##-??#')", 0), "58-yp6");
}

/// A value of a column of this name in table `t`.
fn named(column: &str, text: &str, at: u64) -> String {
    let mut scope = scope();
    let table = add(&mut scope, "t", "1000", &[(column, text)]);
    row(&mut compiled(scope).rows(table), at)
}

#[test]
fn random_texts_have_their_form() {
    for at in 0..200 {
        let text = cell("ascii(3, 9)", at).replace("\\\\", "\\");
        assert!(
            (3..=9).contains(&text.len()) && text.bytes().all(|byte| (33..=126).contains(&byte)),
            "{text}"
        );
        let text = cell("alnum(8)", at);
        assert!(text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{text}");
        let text = cell("prose('lists/words.txt', 5, 12)", at);
        assert!((5..=12).contains(&text.len()), "{text}");
        let text = cell("prose('lists/umlauts.txt', 4, 4)", at);
        assert_eq!(text.chars().count(), 4, "{text}");
        let text = cell("words('lists/words.txt', 2, 3)", at);
        assert!((2..=3).contains(&text.split(' ').count()), "{text}");
        let text = cell("compressible(100, 4)", at);
        assert_eq!((text.len(), &text[..25]), (100, &text[25..50]));
        let text = cell("uuid()", at);
        assert!(text.len() == 36 && &text[14..15] == "4" && "89ab".contains(&text[19..20]), "{text}");
        let text = cell("uuid7(timestamp('2024-01-01'))", at);
        assert!(text.starts_with("018cc251-f400-7"), "{text}");
    }
}

#[test]
fn vectors_have_length_one_and_neighbours() {
    let parsed = |at: u64, text: &str| -> Vec<f64> {
        let text = cell(text, at);
        let numbers = text.trim_matches(['[', ']']).split(',');
        numbers.map(|number| number.parse().expect("a number")).collect()
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let text = "vector(17, 3, 0.1)";
    let vectors: Vec<Vec<f64>> = (0..12).map(|at| parsed(at, text)).collect();
    for vector in &vectors {
        assert_eq!(vector.len(), 17);
        assert!((dot(vector, vector) - 1.0).abs() < 1e-5);
        let nearest = vectors.iter().filter(|other| *other != vector).map(|other| dot(vector, other));
        assert!(nearest.fold(-1.0, f64::max) > 0.9);
    }
}

#[test]
fn shares_of_choices_are_those_that_were_asked_for() {
    let mut scope = scope();
    let columns = [
        ("w", "pick_weighted('a', 70, 'b', 25, 'c', 5)"),
        ("p", "pick(1, 2, 3, 4)"),
        ("n", "nullable(0.25, 7)"),
        ("c", "chance(0.1)"),
        ("h", "hot(1000, 0.1, 0.9) < 100"),
    ];
    let table = add(&mut scope, "t", "20000", &columns);
    let mut maker = compiled(scope).rows(table);
    let rows: Vec<Vec<String>> =
        (0..20_000).map(|at| row(&mut maker, at).split('\t').map(str::to_string).collect()).collect();
    let share =
        |column: usize, value: &str| rows.iter().filter(|row| row[column] == value).count() as f64 / 20_000.0;
    for (column, value, expected) in [
        (0, "a", 0.7),
        (0, "b", 0.25),
        (0, "c", 0.05),
        (1, "1", 0.25),
        (1, "4", 0.25),
        (2, "\\N", 0.25),
        (3, "t", 0.1),
        (4, "t", 0.9),
    ] {
        let share = share(column, value);
        assert!((share - expected).abs() < 0.012, "{}: {value}: {share}", columns[column].0);
    }
}
