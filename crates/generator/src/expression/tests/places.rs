//! Rows alone, rows in order, other rows, and the lines of a row.

use super::*;

/// Orders and their lines, as in a shop.
fn shop() -> (Arc<Generator>, usize, usize) {
    let mut scope = scope();
    add(
        &mut scope,
        "part",
        "200",
        &[("price", "decimal(90000 + row / 10, 2)"), ("name", "words('lists/words.txt', 1, 2)")],
    );
    let orders = [
        ("id", "row + 1"),
        ("day", "date('1992-01-01') + uniform(0, 2405)"),
        ("status", "choose(_open == 0, 'F', choose(_open == lines(line_of_order), 'O', 'P'))"),
        ("total", "sum(line_of_order._charge)"),
        ("first", "min(line_of_order.shipped)"),
        ("note", "prose('lists/words.txt', 5, 20)"),
        ("_open", "count(line_of_order._is_open)"),
    ];
    let orders = add(&mut scope, "orders", "100", &orders);
    let lines = [
        ("order_id", "orders.id[parent]"),
        ("number", "line + 1"),
        ("part", "uniform(1, 200)"),
        ("price", "part.price[part - 1] * _quantity"),
        ("shipped", "orders.day[parent] + uniform(1, 121)"),
        ("state", "choose(shipped > date('1995-06-17'), 'O', 'F')"),
        ("part_name", "part.name[part - 1]"),
        ("_quantity", "uniform(1, 50)"),
        ("_discount", "decimal(uniform(0, 10), 2)"),
        ("_is_open", "state == 'O'"),
        ("_charge", "round(price * (1 - _discount), 2)"),
    ];
    let lines = add_lines(&mut scope, "line_of_order", "orders", "uniform(1, 7)", &lines);
    (compiled(scope), orders, lines)
}

fn line(maker: &mut RowMaker, parent: u64, line: u64) -> String {
    let mut out = Vec::new();
    maker.write_line(parent, line, &mut out).unwrap_or_else(|fault| panic!("{fault}"));
    String::from_utf8(out).expect("UTF-8").trim_end_matches('\n').to_string()
}

#[test]
fn a_row_alone_is_the_row_in_order() {
    let (generator, orders, lines) = shop();
    let mut in_order = generator.rows(orders);
    let rows: Vec<String> = (0..100).map(|at| row(&mut in_order, at)).collect();
    for at in [99, 0, 50, 51, 50, 7] {
        assert_eq!(row(&mut generator.rows(orders), at), rows[at as usize]);
        assert_eq!(row(&mut in_order, at), rows[at as usize]);
    }
    let mut in_order = generator.rows(lines);
    let all: Vec<Vec<String>> = (0..100)
        .map(|parent| {
            let n = in_order.n_lines(parent).expect("a number");
            (0..n).map(|at| line(&mut in_order, parent, at)).collect()
        })
        .collect();
    for parent in [99usize, 3, 50, 0] {
        let last = all[parent].len() - 1;
        assert_eq!(line(&mut generator.rows(lines), parent as u64, last as u64), all[parent][last]);
        assert_eq!(generator.rows(lines).n_lines(parent as u64), Ok(all[parent].len() as u64));
    }
    assert_eq!(generator.lines_reach(lines), Some((1, 7)));
    assert_eq!(generator.lines_reach(orders), None);
}

#[test]
fn a_parent_agrees_with_its_lines() {
    let (generator, orders, lines) = shop();
    let mut of_orders = generator.rows(orders);
    let mut of_lines = generator.rows(lines);
    let cents = |text: &str| text.replace('.', "").parse::<i64>().expect("a decimal");
    let mut states = [0; 3];
    for parent in 0..100 {
        let order: Vec<String> = row(&mut of_orders, parent).split('\t').map(str::to_string).collect();
        let n = of_lines.n_lines(parent).expect("a number");
        assert!((1..=7).contains(&n));
        let mut total = 0;
        let mut n_open = 0;
        let mut first = "9".to_string();
        for at in 0..n {
            let found: Vec<String> =
                line(&mut of_lines, parent, at).split('\t').map(str::to_string).collect();
            assert_eq!(found[0], order[0]);
            assert_eq!(found[1], (at + 1).to_string());
            let mut charge = Vec::new();
            assert_eq!(of_lines.write_value(parent, Some(at), 10, &mut charge), Ok(true));
            total += cents(std::str::from_utf8(&charge).expect("UTF-8"));
            n_open += u64::from(found[5] == "O");
            first = first.min(found[4].clone());
        }
        assert_eq!((cents(&order[3]), &order[4]), (total, &first));
        let status = if n_open == 0 {
            0
        } else if n_open == n {
            1
        } else {
            2
        };
        assert_eq!(order[2], ["F", "O", "P"][status]);
        states[status] += 1;
    }
    assert!(states.iter().all(|n| *n > 0), "{states:?}");
    let facts = &generator.table(orders)[3];
    assert_eq!(facts.kind, Type::Decimal(2));
    assert!(!generator.table(orders)[4].is_nullable);
}

#[test]
fn numbers_of_lines_have_golden_values() {
    let mut scope = scope();
    add(&mut scope, "o", "10", &[("k", "row")]);
    let lines = add_lines(&mut scope, "l", "o", "uniform(1, 7)", &[("x", "parent * 10 + line")]);
    let mut maker = compiled(scope).rows(lines);
    let n: Vec<u64> = (0..6).map(|parent| maker.n_lines(parent).expect("a number")).collect();
    assert_eq!(n, [3, 3, 6, 4, 4, 1]);
    assert_eq!(line(&mut maker, 4, 2), "42");
}

#[test]
fn a_value_that_two_read_is_one_value() {
    let mut scope = scope();
    let columns = [
        ("a", "uniform(1, 1000000)"),
        ("b", "a"),
        ("c", "a + 0"),
        ("_t", "letters(8)"),
        ("d", "concat(_t, _t)"),
    ];
    let table = add(&mut scope, "t", "100", &columns);
    let mut maker = compiled(scope).rows(table);
    for at in 0..100 {
        let found = row(&mut maker, at);
        let found: Vec<&str> = found.split('\t').collect();
        assert!(found[0] == found[1] && found[1] == found[2] && found[3][..8] == found[3][8..], "{found:?}");
    }
}

#[test]
fn a_new_column_changes_no_other() {
    let made = |columns: &[(&str, &str)]| {
        let mut scope = scope();
        let table = add(&mut scope, "t", "10", columns);
        row(&mut compiled(scope).rows(table), 5)
    };
    let alone = made(&[("a", "letters(9)")]);
    assert_eq!(made(&[("b", "uniform(1, 9)"), ("a", "letters(9)")]).split('\t').nth(1), Some(alone.as_str()));
}

#[test]
fn a_row_that_does_not_exist_is_a_fault_with_its_place() {
    let mut scope = scope();
    add(&mut scope, "p", "10", &[("k", "row")]);
    let table = add(&mut scope, "t", "100", &[("y", "'a'"), ("x", "p.k[row]")]);
    let mut maker = compiled(scope).rows(table);
    assert_eq!(row(&mut maker, 9), "a\t9");
    let mut out = b"before".to_vec();
    let fault = maker.write_row(10, &mut out).expect_err("there is no row 10");
    assert_eq!(fault.to_string(), "`t.x`, row 10: row 10 of `p`: it has 10 rows, from 0");
    assert_eq!(out, b"before");
    assert_eq!(row(&mut maker, 3), "a\t3");
}

#[test]
fn lines_of_lines_and_of_unknown_parents_are_refused() {
    let mut scope = scope();
    add(&mut scope, "o", "10", &[("k", "row")]);
    add_lines(&mut scope, "l", "o", "2", &[("x", "line")]);
    let refused = |scope: &mut Scope, parent: &str| {
        let each = Some((parent.to_string(), expression("1")));
        let table = TableSource { name: "z".to_string(), rows: None, each, values: Vec::new() };
        scope.add_table(table).expect_err("it is refused").message
    };
    assert!(refused(&mut scope, "l").contains("cannot have lines"));
    assert!(refused(&mut scope, "nobody").contains("no table before this one"));
    add_lines(&mut scope, "m", "o", "uniform(0, 2000)", &[("x", "row"), ("y", "l.x[0]")]);
    let messages: Vec<String> =
        scope.compile().err().expect("errors").into_iter().map(|error| error.message).collect();
    assert!(messages.iter().any(|message| message.contains("0 to 2000 lines; a row has from 0 to 1000")));
    assert!(messages.iter().any(|message| message.contains("it has `parent` and `line`")));
    assert!(messages.iter().any(|message| message.contains("read them with `sum`")));
}

#[test]
fn what_was_used_is_known() {
    let mut scope = scope();
    let table = add(&mut scope, "t", "tables * 10", &[("x", "key + length(line_of('lists/words.txt', 0))")]);
    scope.add_parameters(&[], values(&[("p", "t.x[zipf(rows(t), theta)]"), ("_q", "p + 1")]));
    assert_eq!(scope.n_rows(table), 40);
    let generator = compiled(scope);
    assert_eq!(generator.used_lets().iter().collect::<Vec<_>>(), ["key"]);
    assert_eq!(generator.used_lists().iter().collect::<Vec<_>>(), ["lists/words.txt"]);
    assert_eq!(generator.used_options().iter().collect::<Vec<_>>(), ["tables", "theta"]);
    assert_eq!(generator.options_of_tables().iter().collect::<Vec<_>>(), ["tables"]);
    assert_eq!(generator.parameters(0)[1].uses, [0]);
    assert_eq!(generator.parameters(0)[0].tables.iter().collect::<Vec<_>>(), [&table]);
}
