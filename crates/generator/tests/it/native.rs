//! Data of a library: the rows that TPC-H's dbgen makes, in any cut, and what is wrong with a manifest that names it.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use generator::{Instance, ServerColumn, Table};

use super::{builtin, choice, instance, problems, words};

/// Scale factors 1 and 0.01; kept, because the text that comments are cut from is made once for all that there are at a time.
static ONE: LazyLock<Arc<Instance>> = LazyLock::new(|| instance(&builtin("tpch-like"), &choice(100)));
static HUNDREDTH: LazyLock<Arc<Instance>> = LazyLock::new(|| instance(&builtin("tpch-like"), &choice(1)));

/// Keeps the text for the tests of other modules, too.
pub(super) fn keep_text() {
    LazyLock::force(&HUNDREDTH);
}

fn table<'a>(instance: &'a Instance, name: &str) -> &'a Table {
    instance.tables().iter().find(|table| table.name == name).unwrap()
}

fn rows(table: &Table, range: std::ops::Range<u64>) -> String {
    let mut rows = table.rows(range);
    let mut text = Vec::new();
    while rows.fill(&mut text, 1 << 16) > 0 {}
    String::from_utf8(text).unwrap()
}

#[test]
fn rows_are_those_of_dbgen() {
    // Published everywhere: the first rows of dbgen -s 1.
    let check = |name: &str, expected: &str| {
        let found = rows(table(&ONE, name), 0..1);
        let first = found.lines().next().unwrap().replace('\t', "|");
        assert_eq!(first, expected);
    };
    check(
        "region",
        "0|AFRICA|lar deposits. blithely final packages cajole. regular waters are final requests. regular accounts are according to ",
    );
    check("nation", "0|ALGERIA|0| haggle. carefully final deposits detect slyly agai");
    check(
        "supplier",
        "1|Supplier#000000001| N kD4on9OM Ipw3,gf0JBoQDd7tgrzrddZ|17|27-918-335-1736|5755.94|each slyly above the careful",
    );
    check(
        "customer",
        "1|Customer#000000001|IVhzIApeRb ot,c,E|15|25-989-741-2988|711.56|BUILDING|to the even, regular platelets. regular, ironic epitaphs nag e",
    );
    check(
        "part",
        "1|goldenrod lavender spring chocolate lace|Manufacturer#1|Brand#13|PROMO BURNISHED COPPER|7|JUMBO PKG|901.00|ly. slyly ironi",
    );
    check(
        "orders",
        "1|36901|O|173665.47|1996-01-02|5-LOW|Clerk#000000951|0|nstructions sleep furiously among ",
    );
    check(
        "lineitem",
        "1|155190|7706|1|17|21168.23|0.04|0.02|N|O|1996-03-13|1996-02-12|1996-03-22|DELIVER IN PERSON|TRUCK|egular courts above the",
    );
}

#[test]
fn tables_have_as_many_rows_as_those_of_dbgen() {
    let check = |instance: &Instance, name: &str, expected: u64| {
        assert_eq!(table(instance, name).n_rows, expected, "{name}");
    };
    check(&ONE, "supplier", 10_000);
    check(&ONE, "customer", 150_000);
    check(&ONE, "part", 200_000);
    check(&ONE, "partsupp", 200_000);
    check(&ONE, "orders", 1_500_000);
    check(&HUNDREDTH, "nation", 25);
    check(&HUNDREDTH, "orders", 15_000);
    let counted = |name: &str| rows(table(&HUNDREDTH, name), 0..u64::MAX).lines().count();
    assert_eq!((counted("partsupp"), counted("lineitem")), (8_000, 60_175));
    let lineitem = table(&ONE, "lineitem");
    let off = lineitem.estimated_rows() as f64 / 6_001_215.0;
    assert!((0.99..1.01).contains(&off), "{off}");
}

#[test]
fn queries_have_the_answers_that_others_have_found_in_these_rows() {
    // DuckDB's answers of queries 1, 6 and 18 at scale factor 0.01, with the specification's values for validation (clause 2.4).
    let lines = rows(table(&HUNDREDTH, "lineitem"), 0..u64::MAX);
    let mut by_flag: BTreeMap<(&str, &str), (u64, u64, u64)> = BTreeMap::new();
    let mut by_order: BTreeMap<&str, u64> = BTreeMap::new();
    let mut revenue = 0;
    for line in lines.lines() {
        let values: Vec<&str> = line.split('\t').collect();
        let [quantity, cents, discount] =
            [4, 5, 6].map(|at| values[at].replace('.', "").parse::<u64>().unwrap());
        let (flags, shipped) = ((values[8], values[9]), values[10]);
        if shipped <= "1998-09-02" {
            let sums = by_flag.entry(flags).or_default();
            *sums = (sums.0 + quantity, sums.1 + cents, sums.2 + 1);
        }
        if shipped.starts_with("1994") && (5..=7).contains(&discount) && quantity < 24 {
            revenue += cents * discount;
        }
        *by_order.entry(values[0]).or_default() += quantity;
    }
    let expected = [
        (("A", "F"), (380_456, 53_234_821_165, 14_876)),
        (("N", "F"), (8_971, 1_238_480_137, 348)),
        (("N", "O"), (742_802, 104_150_284_145, 29_181)),
        (("R", "F"), (381_449, 53_459_444_535, 14_902)),
    ];
    assert_eq!(by_flag.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(revenue, 11_930_532_253);
    let large: Vec<(&str, u64)> = by_order.into_iter().filter(|(_, quantity)| *quantity > 300).collect();
    assert_eq!(large, [("29158", 305), ("6882", 303)]);
    let orders = rows(table(&HUNDREDTH, "orders"), 0..u64::MAX);
    assert!(orders.contains("\n29158\t667\t") && orders.contains("\t439687.23\t1995-10-21\t"));
}

#[test]
fn any_part_of_a_table_is_what_it_is_in_the_whole() {
    for table in HUNDREDTH.tables() {
        let n = table.n_rows;
        let whole = rows(table, 0..n);
        for cut in [1, n / 7, n / 2, n - 1] {
            assert!(rows(table, 0..cut) + &rows(table, cut..n) == whole, "{} {cut}", table.name);
        }
    }
}

#[test]
fn rows_are_within_what_is_said_of_them_and_about_as_large() {
    for table in HUNDREDTH.tables() {
        let (mut n_rows, mut n_bytes) = (0, 0);
        for line in rows(table, 0..table.n_rows).lines() {
            assert!(!line.contains(['\\', '|']), "{line}");
            let values: Vec<&str> = line.split('\t').collect();
            assert_eq!(values.len(), table.columns.len());
            for (value, column) in values.iter().zip(&table.columns) {
                if let Some(longest) = column.longest {
                    assert!(value.chars().count() as u64 <= longest, "{}: {value}", column.name);
                }
                if let Some((least, most)) = column.reach {
                    let digits: i128 = value.replace('.', "").parse().unwrap();
                    assert!((least..=most).contains(&digits), "{}: {value}", column.name);
                }
            }
            n_rows += 1;
            n_bytes += line.len();
        }
        // Text and what is stored differ by headers, padding and the digits of numbers.
        let ratio = table.estimated_row_bytes() / (n_bytes as f64 / f64::from(n_rows));
        assert!((0.8..2.0).contains(&ratio), "{} {ratio}", table.name);
    }
}

#[test]
fn rows_of_a_trial_differ_in_comments_alone() {
    for table in HUNDREDTH.tables() {
        let (mut trial, mut text) = (table.trial_rows(3..5), Vec::new());
        while trial.fill(&mut text, 1 << 16) > 0 {}
        let (trial, exact) = (String::from_utf8(text).unwrap(), rows(table, 3..5));
        assert_eq!(trial.len(), exact.len(), "{}", table.name);
        assert_ne!(trial, exact);
        for (tried, line) in trial.lines().zip(exact.lines()) {
            let all_but_comment = |line: &str| line.rsplit_once('\t').unwrap().0.to_string();
            assert_eq!(all_but_comment(tried), all_but_comment(line));
        }
    }
}

#[test]
fn columns_of_the_server_are_proved() {
    let column = |name: &str, type_name: &str, type_length| ServerColumn {
        name: name.to_string(),
        type_name: type_name.to_string(),
        type_length,
        not_null: true,
        ..ServerColumn::default()
    };
    let region = table(&HUNDREDTH, "region");
    let fits = [
        column("r_regionkey", "integer", None),
        column("r_name", "character", Some(25)),
        column("r_comment", "character varying", Some(152)),
    ];
    assert_eq!(region.check_columns(&fits), []);
    let short = [fits[0].clone(), column("r_name", "character", Some(9)), fits[2].clone()];
    let found = words(&region.check_columns(&short));
    assert!(found.contains("r_name: up to 25 characters; the column has 9"), "{found}");
    assert!(found.contains("data = \"native:tpch\""), "{found}");
}

#[test]
fn what_cannot_be_is_named_with_its_place() {
    let check = |from: &str, to: &str, scale: u32, expected: &str| {
        let mut files = builtin("tpch-like");
        let manifest = files.get_mut("workload.toml").unwrap();
        assert!(manifest.contains(from), "{from}");
        *manifest = manifest.replace(from, to);
        let found = words(&problems(&files, &choice(scale)));
        assert!(found.contains(expected), "{found}");
    };
    let named = "data = \"native:tpch\"";
    check(
        named,
        "data = \"native:tpcds\"",
        1,
        "\"native:tpch\" (as dbgen makes them, by the library tpchgen)",
    );
    check(
        named,
        named,
        100_001,
        "scale 100001 is scale factor 1000.01; `native:tpch` makes at most 1000 (scale 100000)",
    );
    let with_table =
        "[[table]]\nname = \"extra\"\nrows = 1\n[table.columns]\na = 1\n\n[[transaction]]\nname = \"q1\"\n";
    check(
        "[[transaction]]\nname = \"q1\"\n",
        with_table,
        1,
        "`data = \"native:tpch\"` makes all tables; take [[table]] out",
    );
    let mut files = builtin("tpch-like");
    files.remove("schema.sql");
    assert!(words(&problems(&files, &choice(1))).contains("the file `schema.sql` is missing"));
}

#[test]
fn its_identity_depends_on_the_scale_and_on_no_seed() {
    let of = |scale: u32, data_seed: Option<u64>| {
        let chosen = generator::Choice { data_seed, ..choice(scale) };
        instance(&builtin("tpch-like"), &chosen).data_identity().to_string()
    };
    assert_eq!(of(1, None), of(1, Some(7)));
    assert_ne!(of(1, None), of(2, None));
}
