//! Captured rows as their author and their user see them: files in, parameters of executions or problems with their places out.

use std::collections::BTreeMap;
use std::sync::Arc;

use generator::{Choice, Clock, Directory, DrawsContents, Instance, Type, draws_reference, draws_sha256};

const MANIFEST: &str = r#"format = 1
name = "shop"
title = "A shop"
data = "existing"
[source]
server = "15.4"
system_identifier = "7301234567890123456"
rate = 123.4
clients = 20
[[transaction]]
name = "pay"
draws = "pay"
[transaction.params]
key = "draw.k"
other = "choose(chance(0.25), near(draw.k, 1, 1000), draw.k)"
name = "draw.name"
price = "draw.price"
later = "now() + seconds(draw.dt)"
rounds = "draw.items_rounds"
[transaction.each.items]
item = "draw.item"
of = "draw.k"
[[transaction]]
name = "drop"
draws = "drop"
draws_order = "once"
params = {gone = "draw.k"}
[variants]
source = {weights = {pay = 100.5, drop = 22.9}}
"#;
const PAY: &str = "k:int\tname:text\tprice:decimal\tdt:float\titems_rounds:int\n\
                   10\tann\t1.50\t0.5\t2\n\
                   20\tb\\tob\t2.25\t1.5\t0\n\
                   30\t\\N\t3\t-2\t3\n";
const ITEMS: &str = "row:int\titem:int\n0\t7\n0\t8\n2\t1\n2\t2\n2\t3\n";
const DROP: &str = "k:int\n1\n2\n3\n4\n5\n";

struct Files {
    texts: BTreeMap<String, String>,
    contents: DrawsContents,
}

impl Files {
    fn new(manifest: &str, draws: &[(&str, &str)]) -> Files {
        let texts = [
            ("workload.toml", manifest),
            (
                "transactions/pay.sql",
                "-- pgdyno: extended\nselect :key, :other, :name, :price, :later;\n\\repeat items :rounds\nselect :item, :of;\n\\endrepeat\n",
            ),
            ("transactions/drop.sql", "select :gone;\n"),
        ];
        let texts = texts.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let mut files = Files { texts: texts.into(), contents: DrawsContents::new() };
        for (name, text) in draws {
            files.add(name, format!("pgdyno draws 1\n{text}").as_bytes());
        }
        files
    }

    fn add(&mut self, name: &str, text: &[u8]) {
        let packed = zstd::encode_all(text, 3).unwrap();
        self.texts.insert(format!("draws/{name}.zst"), draws_reference(&packed));
        self.contents.insert(draws_sha256(&packed), packed.into());
    }

    fn instance(self) -> Result<Arc<Instance>, String> {
        let words = |problems: Vec<generator::Problem>| {
            problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        let directory = Directory::new(self.texts).and_then(|directory| directory.with_draws(&self.contents));
        let choice = Choice { scale: 1, ..Choice::default() };
        directory.and_then(|directory| Instance::new(&directory, &choice)).map(Arc::new).map_err(words)
    }
}

fn shop() -> Arc<Instance> {
    let draws = [("pay", PAY), ("pay.items", ITEMS), ("drop", DROP)];
    Files::new(MANIFEST, &draws).instance().unwrap_or_else(|problems| panic!("{problems}"))
}

fn text(client: &generator::ClientParameters, parameter: usize) -> Option<String> {
    let mut out = Vec::new();
    client.write(parameter, &mut out).then(|| String::from_utf8(out).unwrap())
}

#[test]
fn parameters_of_an_execution_are_of_one_row_and_all_rows_are_as_likely() {
    let shop = shop();
    let pay = &shop.transactions()[0];
    let kinds: Vec<&Type> = pay.parameters.iter().map(|parameter| &parameter.kind).collect();
    assert_eq!(kinds, [&Type::Int, &Type::Int, &Type::Text, &Type::Decimal(2), &Type::Timestamp, &Type::Int]);
    assert_eq!(pay.parameters[0].range, Some((10, 30)));
    let mut client = shop.client(3, 8, 42).with_clock(Clock(|| 1_700_000_000_000_000));
    let mut counts = BTreeMap::new();
    let n_drawn = 30_000u32;
    let mut n_near = 0;
    for _ in 0..n_drawn {
        client.begin(0);
        assert_eq!(client.fault(), None);
        let key = client.int(0).unwrap();
        let (name, price, later, rounds) = match key {
            10 => (Some("ann"), "1.50", "2023-11-14 22:13:20.500000+00", 2),
            20 => (Some("b\tob"), "2.25", "2023-11-14 22:13:21.500000+00", 0),
            30 => (None, "3.00", "2023-11-14 22:13:18+00", 3),
            other => panic!("{other} was never captured"),
        };
        assert_eq!((text(&client, 2).as_deref(), text(&client, 3).as_deref()), (name, Some(price)));
        assert_eq!((text(&client, 4).as_deref(), client.int(5)), (Some(later), Some(rounds)));
        let other = client.int(1).unwrap();
        if other != key {
            n_near += 1;
            assert!((1..=1000).contains(&other) && ![10, 20, 30].contains(&other), "{other}");
        }
        *counts.entry(key).or_insert(0u32) += 1;
    }
    // Four standard deviations of a binomial distribution.
    let within = |n: u32, p: f64| {
        let expected = f64::from(n_drawn) * p;
        (f64::from(n) - expected).abs() < 4.0 * (expected * (1.0 - p)).sqrt()
    };
    assert!(counts.len() == 3 && counts.values().all(|n| within(*n, 1.0 / 3.0)), "{counts:?}");
    assert!(within(n_near, 0.25), "{n_near}");
}

#[test]
fn rounds_of_a_loop_are_those_of_their_execution_also_when_it_is_tried_again() {
    let shop = shop();
    let mut client = shop.client(0, 1, 1);
    for _ in 0..100 {
        client.begin(0);
        let key = client.int(0).unwrap();
        let expected: &[i64] = match key {
            10 => &[7, 8],
            20 => &[],
            _ => &[1, 2, 3],
        };
        for _ in 0..2 {
            for item in expected {
                client.begin_round(0);
                assert_eq!((client.int_of_round(0, 0), client.int_of_round(0, 1)), (Some(*item), Some(key)));
            }
            client.rewind();
            assert_eq!(client.fault(), None);
        }
        (0..=expected.len()).for_each(|_| client.begin_round(0));
        let fault = client.fault().unwrap().to_string();
        assert!(fault.contains("rounds in `draws/pay.items.zst`, and the script asks for more"), "{fault}");
    }
}

#[test]
fn rows_that_are_dealt_once_go_to_one_client_each_and_reuse_is_counted() {
    let shop = shop();
    let drop = &shop.transactions()[1];
    assert_eq!(drop.facts, [("reused_draws".to_string(), "reused_draws".to_string())]);
    let mut dealt = Vec::new();
    let mut clients = [0, 1].map(|client| shop.client(client, 2, 9));
    for round in 0..3 {
        for (n, client) in clients.iter_mut().enumerate() {
            client.begin(1);
            let is_reused = 2 * round + n >= 5;
            assert_eq!(client.int(1), Some(is_reused.into()));
            if !is_reused {
                dealt.push(client.int(0).unwrap());
            }
        }
    }
    dealt.sort_unstable();
    assert_eq!(dealt, [1, 2, 3, 4, 5]);
}

#[test]
fn a_captured_directory_says_where_it_comes_from() {
    let shop = shop();
    let captured = shop.manifest().captured.as_ref().unwrap();
    assert_eq!((captured.rate_per_s, captured.n_clients), (Some(123.4), Some(20)));
    assert_eq!(shop.manifest().source, "captured from PostgreSQL 15.4");
    let weights: Vec<u32> = shop.transactions().iter().map(|one| one.weight).collect();
    assert_eq!(weights, [100_500, 22_900]);
}

#[test]
fn what_is_wrong_with_captured_rows_is_said_with_its_place() {
    let check = |manifest: &str, draws: &[(&str, &str)], expected: &str| {
        let found = Files::new(manifest, draws).instance().unwrap_err();
        assert!(found.contains(expected), "{found}\nexpected: {expected}");
    };
    let all = [("pay", PAY), ("pay.items", ITEMS), ("drop", DROP)];
    let changed = |from: &str, to: &str| {
        assert!(MANIFEST.contains(from), "{from}");
        MANIFEST.replace(from, to)
    };
    check(&changed("draw.price", "draw.pric"), &all, "has no column `pric`; did you mean `price`?");
    check(&changed("\"draw.k\"", "\"draw.k + draw.name\""), &all, "`+`");
    check(
        &changed("draws = \"pay\"\n", ""),
        &all,
        "have a meaning in parameters of a transaction with `draws` alone",
    );
    check(&changed("draws = \"drop\"\n", ""), &all, "`draws_order` is for a transaction with `draws`");
    check(&changed("\"once\"", "\"twice\""), &all, "`draws_order` is one of any, once");
    check(&changed("\"existing\"", "\"elsewhere\""), &all, "data `elsewhere` is not known");
    check(
        &changed("rate = 123.4", "rate = 0"),
        &all,
        "`rate` is a number of transactions per second, above 0",
    );
    check(MANIFEST, &all[..2], "the file `draws/drop.zst` is missing");
    check(
        MANIFEST,
        &[all[0], ("pay.items", "row:int\n3\n"), all[2]],
        "draws/pay.items.zst: line 3: `draws/pay.zst` has no row 3; it has 3, from 0",
    );
    check(
        MANIFEST,
        &[all[0], ("pay.items", "row:int\n2\n0\n"), all[2]],
        "line 4: the rows have to stand in the order of `row`",
    );
    check(
        MANIFEST,
        &[all[0], ("pay.items", "item:int\n2\n"), all[2]],
        "its first column has to be `row:int`",
    );
    check(MANIFEST, &[all[0], all[1], ("drop", "k:int\n")], "`draws/drop.zst` has no rows");
    let mut broken = Files::new(MANIFEST, &all);
    broken.contents.values_mut().for_each(|bytes| *bytes = Arc::from(&b"no zstd"[..]));
    let found = broken.instance().unwrap_err();
    assert!(found.contains("draws/drop.zst: is no file of zstd, or is broken"), "{found}");
    let mut bomb = Files::new(MANIFEST, &all[..2]);
    bomb.add("drop", &vec![b'a'; (64 << 20) + 1]);
    let found = bomb.instance().unwrap_err();
    assert!(found.contains("draws/drop.zst: has more than 67108864 bytes unpacked"), "{found}");
    let mut absent = Files::new(MANIFEST, &all);
    absent.contents.clear();
    let found = absent.instance().unwrap_err();
    assert!(found.contains("the captured rows of `draws/pay.zst` are not here"), "{found}");
}

#[test]
fn broken_rows_are_refused_or_read_and_never_end_the_program() {
    let mut state = 7u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..1500 {
        let mut files = Files::new(MANIFEST, &[]);
        for (name, text) in [("pay", PAY), ("pay.items", ITEMS), ("drop", DROP)] {
            let mut bytes = format!("pgdyno draws 1\n{text}").into_bytes();
            for _ in 0..next(3) {
                let at = next(bytes.len());
                bytes[at] = b"\t\n\\N0-.:9\xff"[next(10)];
            }
            files.add(name, &bytes);
        }
        let Ok(shop) = files.instance() else { continue };
        let mut client = shop.client(0, 1, 1);
        for transaction in [0, 1] {
            client.begin(transaction);
            (0..3).for_each(|_| {
                if transaction == 0 {
                    client.begin_round(0)
                }
            });
        }
    }
}

#[test]
fn an_archive_elsewhere_is_a_mistake_of_the_manifest() {
    for file in ["/srv/shop.dump", "../shop.dump", "data/../../shop.dump", ""] {
        let named = MANIFEST.replacen("\"existing\"", &format!("{{restore_from = \"{file}\"}}"), 1);
        let draws = [("pay", PAY), ("pay.items", ITEMS), ("drop", DROP)];
        let found = Files::new(&named, &draws).instance().unwrap_err();
        let expected = "workload.toml:4:24: `restore_from` is a path within the directory, without `..`";
        assert!(found.starts_with(expected), "{file}: {found}");
    }
}
