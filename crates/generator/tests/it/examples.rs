//! Complete directories: every variant compiles at several scales, and makes the rows and parameters that it says.

use generator::{Table, Think, Type};

use super::{builtin, builtins, choice, instance, native, of_variant, shop};

/// The rows of a table, made in one piece.
fn rows(table: &Table, range: std::ops::Range<u64>, max_bytes: usize) -> String {
    let mut made = table.rows(range);
    let mut text = Vec::new();
    let mut n_rows = 0;
    loop {
        let before = text.len();
        let n = made.fill(&mut text, max_bytes);
        assert!(n <= 1 || text.len() - before <= max_bytes);
        if n == 0 {
            break;
        }
        n_rows += n;
    }
    assert_eq!(made.fault(), None);
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.lines().count(), n_rows);
    text
}

#[test]
fn every_variant_compiles_at_several_scales() {
    native::keep_text();
    for name in &builtins() {
        let files = builtin(name);
        let first = instance(&files, &choice(1));
        assert_eq!(first.warnings().iter().map(|one| one.to_string()).collect::<Vec<_>>(), [""; 0], "{name}");
        for variant in &first.manifest().variants {
            for scale in [1, 7, 1000] {
                let other = instance(&files, &of_variant(&variant.name, scale));
                assert_eq!(other.tables().len(), first.tables().len());
                assert!(other.transactions().iter().any(|one| one.weight > 0), "{name} {}", variant.name);
                for table in other.tables().iter().filter(|table| table.n_rows > 0) {
                    let text = rows(table, table.n_rows - 1..table.n_rows, 1 << 16);
                    let n_columns = table.copy_columns().len();
                    assert!(text.lines().all(|line| line.split('\t').count() == n_columns), "{text}");
                }
            }
        }
    }
}

#[test]
fn rows_are_the_same_for_any_cut() {
    native::keep_text();
    for name in &builtins() {
        for table in instance(&builtin(name), &choice(1)).tables() {
            let n = table.n_rows.min(300);
            let whole = rows(table, 0..n, 1 << 20);
            for cut in [1, n / 3, n / 2] {
                let cut = cut.min(n);
                let parts = rows(table, 0..cut, 100) + &rows(table, cut..n, 5000);
                assert!(parts == whole, "{name} {} {cut}", table.name);
            }
            assert_eq!(rows(table, table.n_rows..u64::MAX, 10), "");
        }
    }
}

#[test]
fn lines_belong_to_their_parents() {
    native::keep_text();
    let tpch = instance(&builtin("tpch-like"), &choice(100));
    let tables = tpch.tables();
    let [orders, lineitem] =
        ["orders", "lineitem"].map(|name| tables.iter().find(|one| one.name == name).unwrap());
    assert_eq!((lineitem.parent.as_deref(), lineitem.n_rows), (Some("orders"), 1_500_000));
    let key = |line: &str| line.split('\t').next().unwrap().to_string();
    let keys: Vec<String> = rows(orders, 1000..1100, 1 << 20).lines().map(key).collect();
    let mut of_lines: Vec<String> = rows(lineitem, 1000..1100, 1 << 20).lines().map(key).collect();
    of_lines.dedup();
    // Each order has a line, and the lines of one follow each other.
    assert_eq!(keys, of_lines);
    let estimated = lineitem.estimated_rows() as f64 / 1_500_000.0;
    assert!((3.0..5.0).contains(&estimated), "{estimated}");
    let bytes = lineitem.estimated_row_bytes();
    assert!((110.0..200.0).contains(&bytes), "{bytes}");
}

#[test]
fn braces_stand_for_tables_columns_and_parameters() {
    let mut chosen = choice(20);
    chosen.options.insert("tables".to_string(), "3".to_string());
    let sysbench = instance(&builtin("oltp"), &chosen);
    let names: Vec<&str> = sysbench.tables().iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["sbtest1", "sbtest2", "sbtest3"]);
    assert_eq!(sysbench.tables()[0].n_rows, 200_000);
    assert_eq!(sysbench.schema_sql().len(), 3);
    assert_eq!(sysbench.schema_sql()[2].table.as_deref(), Some("sbtest3"));
    assert!(sysbench.after_sql()[3].text.starts_with("create index k_1 on sbtest1"));
    assert_eq!(sysbench.checks().len(), 3);
    assert!(sysbench.checks()[1].sql.contains("select 'sbtest2'"));
    let write = &sysbench.transactions()[0];
    let range = |name: &str| write.parameters.iter().find(|one| one.name == name).unwrap().range;
    assert_eq!((range("t8"), range("p10")), (Some((1, 3)), Some((1, 200_000))));
    assert_eq!((write.weight, sysbench.transactions()[1].weight), (1, 0));
    let ycsb = instance(&builtin("ycsb"), &choice(1));
    let columns = ycsb.tables()[0].copy_columns();
    assert_eq!((columns.len(), columns[0], columns[10]), (11, "ycsb_key", "field9"));
}

#[test]
fn parameters_stay_until_the_next_transaction_begins() {
    let ycsb = instance(&builtin("ycsb"), &of_variant("a", 1));
    let read = |client: &generator::ClientParameters| {
        let mut text = Vec::new();
        assert!(client.write(0, &mut text));
        String::from_utf8(text).unwrap()
    };
    let mut client = ycsb.client(1, 4, 7);
    let mut again = ycsb.client(1, 4, 7);
    let mut other = ycsb.client(2, 4, 7);
    let mut keys = Vec::new();
    let mut of_other = Vec::new();
    for _ in 0..50 {
        client.begin(0);
        again.begin(0);
        other.begin(0);
        let key = read(&client);
        client.rewind();
        assert_eq!((read(&client), read(&again)), (key.clone(), key.clone()));
        assert!(key.starts_with("user"), "{key}");
        assert_eq!((client.fault(), client.int(0)), (None, None));
        client.committed();
        keys.push(key);
        of_other.push(read(&other));
    }
    keys.sort();
    keys.dedup();
    assert!(keys.len() > 5);
    assert!(keys.iter().any(|key| !of_other.contains(key)));
    let insert = ycsb.transactions().iter().position(|one| one.name == "insert").unwrap();
    client.begin(insert);
    let first = read(&client);
    client.rewind();
    assert_eq!(read(&client), first, "another try names the same row");
    // Not committed, as far as is known: the next one names another row all the same.
    client.begin(insert);
    let second = read(&client);
    assert_ne!(second, first);
    client.committed();
    client.begin(insert);
    assert!(![first, second].contains(&read(&client)));
    let update = &ycsb.transactions()[1];
    assert_eq!((update.parameters[1].kind.clone(), update.parameters[1].range), (Type::Int, Some((0, 9))));
}

#[test]
fn all_that_a_manifest_says_arrives() {
    let mut files = shop();
    files.insert("README.md".to_string(), "A shop.".to_string());
    let shop = instance(&files, &of_variant("skewed", 10));
    let read = &shop.transactions()[0];
    assert_eq!((read.expected.as_slice(), read.retry.len()), (&["23505".to_string()][..], 2));
    assert_eq!(read.timeout.map(|time| time.as_secs()), Some(5));
    assert!(matches!(read.think, Some(Think::Exponential(mean)) if mean.as_millis() == 10));
    assert_eq!(read.limit, Some((99.0, 100.0)));
    assert_eq!(read.facts.len(), 2);
    let [readers, others] = shop.sessions() else { panic!("{:?}", shop.sessions()) };
    assert_eq!((readers.share, readers.clients, readers.weights.as_slice()), (Some(0.5), None, &[1][..]));
    assert_eq!(readers.settings[1], ("shop.most".to_string(), "3".to_string()));
    assert_eq!(
        (others.clients, others.weights.as_slice(), others.pace_per_s),
        (Some(3), &[2][..], Some(100.0))
    );
    assert!(others.reconnect);
    let manifest = shop.manifest();
    assert_eq!((manifest.needs.server.as_deref(), manifest.needs.extensions.len()), (Some("13"), 1));
    assert_eq!(
        (manifest.measures[0].numerator.as_str(), manifest.measures[0].title.as_str()),
        ("hits", "recall")
    );
    assert_eq!(manifest.defaults.statement_timeout.map(|time| time.as_secs()), Some(60));
    assert_eq!(shop.options()["share"], "0.5");
    assert_eq!((shop.data_seed(), shop.variant().map(|one| one.name.as_str())), (1, Some("skewed")));
    let checks = shop.checks();
    assert_eq!((checks.len(), checks[0].on_load, checks[0].on_run), (1, true, false));
    assert_eq!(shop.warnings(), []);
    let off = instance(&files, &choice(3));
    assert_eq!(
        super::words(off.warnings()),
        "workload.toml: warning: scale 3 is not among those that the workload names: 1, 10"
    );
}

#[test]
fn rounds_of_a_loop_draw_again_and_a_retry_draws_the_same() {
    let mut files = shop();
    let text = files.get_mut("workload.toml").unwrap();
    *text = text.replace(
        "facts = {",
        "each.item = {n = \"uniform(1, 1000000)\", name = \"letters(5, 5)\"}\nfacts = {",
    );
    let script = "-- pgdyno: extended\n\\repeat item 2\nselect :id, :n, :name;\n\\endrepeat\n";
    files.insert("transactions/read.sql".to_string(), script.to_string());
    let shop = instance(&files, &choice(1));
    let item = &shop.transactions()[0].each[0];
    assert_eq!((item.name.as_str(), item.parameters[0].range), ("item", Some((1, 1_000_000))));
    let mut client = shop.client(0, 1, 3);
    let rounds = |client: &mut generator::ClientParameters| {
        let round = |client: &mut generator::ClientParameters| {
            client.begin_round(0);
            let mut name = Vec::new();
            assert!(client.write_of_round(0, 1, &mut name));
            (client.int_of_round(0, 0).unwrap(), name)
        };
        [round(client), round(client)]
    };
    client.begin(0);
    let (id, first) = (client.int(0), rounds(&mut client));
    assert_ne!(first[0], first[1]);
    client.rewind();
    assert_eq!((client.int(0), rounds(&mut client)), (id, first.clone()));
    client.begin(0);
    assert_ne!(rounds(&mut client), first);
}
