//! Parameters: the same expressions with the stream of a client.

use super::*;
use std::collections::BTreeSet;

fn made(columns: &[(&str, &str)]) -> ParameterMaker {
    let mut scope = scope();
    add(&mut scope, "t", "100", &[("k", "concat('user', fnv64(row))"), ("n", "row + 1")]);
    let set = scope.add_parameters(&["hits", "wanted"], values(columns));
    compiled(scope).parameters_maker(set)
}

fn text(maker: &ParameterMaker, value: usize) -> Option<String> {
    let mut out = Vec::new();
    maker.write(value, &mut out).then(|| String::from_utf8(out).expect("UTF-8"))
}

#[test]
fn keys_of_parameters_are_those_of_the_rows() {
    let mut maker =
        made(&[("key", "t.k[i]"), ("i", "zipf(rows(t), 0.99)"), ("d", "decimal(uniform(0, 9), 1)")]);
    let mut stream = ClientStream::new(5, 0, 1);
    for _ in 0..100 {
        maker.draw(&mut stream).expect("values");
        let row = maker.int(1).expect("an int");
        assert_eq!(text(&maker, 0), Some(format!("user{}", crate::random::ycsb_fnv64(row))));
        assert!((0.0..1.0).contains(&maker.float(2).expect("a number")));
        assert_eq!(maker.int(0), None);
    }
}

#[test]
fn clients_have_streams_of_their_own_that_repeat() {
    let drawn = |client: u64| {
        let mut maker = made(&[("a", "uniform(1, 1000000)"), ("b", "uniform(1, 1000000)")]);
        let mut stream = ClientStream::new(5, client, 4);
        let values = (0..20).map(|_| {
            maker.draw(&mut stream).expect("values");
            [maker.int(0), maker.int(1)]
        });
        values.collect::<Vec<_>>()
    };
    assert_eq!(drawn(0), drawn(0));
    assert_ne!(drawn(0), drawn(1));
    let all: BTreeSet<i64> = drawn(2).into_iter().flatten().flatten().collect();
    assert!(all.len() > 35, "draws do not repeat within a transaction or from one to the next");
}

#[test]
fn fresh_rows_are_nobody_elses_and_named_once() {
    let mut names = BTreeSet::new();
    for client in 0..3 {
        let mut maker = made(&[("a", "fresh(t)"), ("b", "fresh(t)"), ("k", "t.k[a]"), ("n", "t.n[b]")]);
        let mut stream = ClientStream::new(5, client, 3);
        for transaction in 0..10 {
            stream.begin();
            maker.draw(&mut stream).expect("values");
            let (a, b) = (maker.int(0).expect("an int"), maker.int(1).expect("an int"));
            assert_eq!((a - 100) % 3, client as i64);
            assert_eq!(b, a + 3);
            assert_eq!(maker.int(3), Some(b + 1));
            assert_eq!(text(&maker, 2), Some(format!("user{}", crate::random::ycsb_fnv64(a))));
            // Every second one fails, perhaps after a statement that was committed alone.
            assert!(names.insert(a) && names.insert(b));
            if transaction % 2 == 0 {
                stream.committed();
            }
        }
    }
    assert_eq!(names.len(), 60);
    assert_eq!(names.first(), Some(&100));
    assert_eq!(names.last(), Some(&159));
}

#[test]
fn latest_names_rows_that_exist_and_mostly_the_newest() {
    let mut inserts = made(&[("a", "fresh(t)")]);
    let mut reads = made(&[("i", "latest(t, 0.99)"), ("k", "t.n[i]")]);
    let mut stream = ClientStream::new(5, 1, 4);
    let mut own = BTreeSet::new();
    for n in 0..50 {
        stream.begin();
        inserts.draw(&mut stream).expect("values");
        // Some are not committed.
        if n % 7 != 3 {
            stream.committed();
            own.insert(inserts.int(0).expect("an int"));
        }
        for _ in 0..20 {
            reads.draw(&mut stream).expect("values");
            let row = reads.int(0).expect("an int");
            assert!((0..100).contains(&row) || own.contains(&row), "{row}");
            assert_eq!(reads.int(1), Some(row + 1));
        }
    }
    let newest = *own.last().expect("rows");
    let mut n_newest = 0;
    for _ in 0..1000 {
        reads.draw(&mut stream).expect("values");
        n_newest += usize::from(reads.int(0) == Some(newest));
    }
    assert!(n_newest > 100, "{n_newest}");
}

#[test]
fn only_so_many_rows_that_do_not_exist_are_remembered() {
    let mut inserts = made(&[("a", "fresh(t)")]);
    let mut reads = made(&[("i", "latest(t, 1.0)")]);
    let mut stream = ClientStream::new(5, 0, 1);
    let mut own = BTreeSet::new();
    for n in 0..20_000 {
        stream.begin();
        inserts.draw(&mut stream).expect("values");
        if n % 2 == 0 {
            stream.committed();
            own.insert(inserts.int(0).expect("an int"));
        }
    }
    stream.begin();
    for _ in 0..10_000 {
        reads.draw(&mut stream).expect("values");
        let row = reads.int(0).expect("an int");
        assert!((0..100).contains(&row) || own.contains(&row), "{row}");
    }
}

#[test]
fn facts_use_variables_of_a_script() {
    let mut maker =
        made(&[("empty", "int(hits == 0)"), ("missing", "wanted - hits"), ("share", "float(hits) / wanted")]);
    let mut stream = ClientStream::new(1, 0, 1);
    maker.set_input(0, Some(8));
    maker.set_input(1, Some(10));
    maker.draw(&mut stream).expect("values");
    assert_eq!((maker.int(0), maker.int(1), maker.float(2)), (Some(0), Some(2), Some(0.8)));
    maker.set_input(0, None);
    maker.draw(&mut stream).expect("values");
    assert_eq!((maker.int(0), maker.int(1), maker.float(2)), (None, None, None));
    assert_eq!(text(&maker, 1), None);
    maker.set_input(0, Some(i64::MIN));
    let fault = maker.draw(&mut stream).expect_err("it is beyond 64 bits");
    assert_eq!(fault.to_string(), "`missing`: 10 - -9223372036854775808 is beyond 64 bits");
}

#[test]
fn a_parameter_of_a_lets_name_is_that_let() {
    let mut maker = made(&[("key", "key"), ("a", "a + 1"), ("b", "a")]);
    maker.draw(&mut ClientStream::new(1, 0, 1)).expect("values");
    assert!((1..=10).contains(&maker.int(0).expect("an int")));
    assert_eq!((maker.int(1), maker.int(2)), (Some(101), Some(101)));
}
