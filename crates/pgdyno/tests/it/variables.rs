//! Scripts with variables that have no value: nothing of them reaches a user's table. What can be known before the load is
//! refused before it, by each command; the rest ends its client.

use std::sync::Arc;

use testbed::Pg;

use crate::tool::{PACE, Place, expect_found, expect_identity};

const LENGTH: [&str; 10] =
    ["-c", "2", "--measure", "2s", "--ramp-up", "0s", "--repeats", "1", "--set", "prepare.settle=false"];

/// `quantity` is mistyped, or forgotten.
const FORGOTTEN: &str = "\
\\set id random(1, 1000)
SELECT qty AS q FROM stock WHERE id = :id \\gset
UPDATE stock SET qty = qty - :quantity WHERE id = :id;
";

/// Scripts that use a variable before it is set, and where. The procedure `give` has one column.
const UNSET: &[(&str, &str)] = &[
    (
        "SELECT qty, 1 AS id FROM stock WHERE id = 1 \\gset s_\nUPDATE stock SET qty = :qty;\n",
        ":2:24: nothing sets",
    ),
    ("SELECT 1 AS a \\gset s_\nUPDATE stock SET qty = :s_b;\n", ":2:24: nothing sets the variable `s_b`"),
    (
        "SELECT * FROM stock WHERE id = 1 \\aset s_\nUPDATE stock SET qty = :s_quantity;\n",
        ":2:24: nothing sets",
    ),
    ("UPDATE stock SET qty = 1 WHERE id = 0 \\gset\nUPDATE stock SET qty = :qty;\n", ":2:24: nothing sets"),
    (
        "\\if :client_id < 0\nSELECT 5 AS n \\gset\n\\endif\nUPDATE stock SET qty = :n;\n",
        ":4:24: the variable `n` is not set on every way to here: line 2 might not have run",
    ),
    ("UPDATE stock SET qty = :n;\nSELECT 5 AS n \\gset\n", ":1:24: the variable `n` is not set on every way"),
    (
        "SELECT 5 AS n \\gset\n\\set m :n + :o\nUPDATE stock SET qty = :m;\n",
        ":2:13: nothing sets the variable `o`",
    ),
    (
        "SELECT 5 AS n \\gset\n\\if :o\nUPDATE stock SET qty = 0;\n\\endif\n",
        ":2:5: nothing sets the variable `o`",
    ),
    ("SELECT 5 AS n \\gset\n\\sleep :o us\n", ":2:8: nothing sets"),
    ("SELECT 5 AS n \\gset\n\\shell true :o\n", ":2:13: nothing sets"),
    ("SELECT 5 AS n \\gset\nCOPY stock (qty) FROM STDIN;\n\\copydata\n:o\n\\.\n", ":4:1: nothing sets"),
    ("CALL give(NULL) \\gset\nUPDATE stock SET qty = :m;\n", ":2:24: nothing sets the variable `m`"),
];

/// A user's own table of 1,000 rows.
struct Shop {
    place: Place,
    pg: Arc<Pg>,
    database: String,
    server: String,
}

impl Shop {
    fn new() -> Shop {
        let (place, pg) = (Place::new(), Pg::shared());
        let database = pg.database();
        let table = "create table stock (id int primary key, qty int, note text, ref int);
                     insert into stock select i, 100, 'n', null from generate_series(1, 1000) i";
        pg.admin(&database).execute(table).unwrap();
        let server = pg.admin_target(&database);
        Shop { place, pg, database, server }
    }

    /// Rows that nobody may write: without a quantity, or with another note.
    fn expect_rows(&self, what: &str, expected: &str) {
        let sql = "select concat_ws('|', count(*) filter (where qty is null), count(*) filter (where note is distinct from 'n'), \
                   count(*) filter (where ref is not null), count(*)) from stock";
        assert_eq!(self.pg.ask(&self.database, sql), expected, "{what}");
    }

    fn line<'a>(&'a self, words: &[&'a str]) -> Vec<&'a str> {
        [words, &["--server", &self.server]].concat()
    }

    fn refuse(&self, words: &[&str], expected: &[&str]) {
        let ended = self.place.run(&self.line(words)).expect(1);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        for part in expected {
            assert!(said.contains(part), "{words:?}\nexpected: {part}\n{said}");
        }
        assert!(!self.place.path("out").exists(), "{words:?}");
        self.expect_rows(&format!("{words:?}"), "0|0|0|1000");
    }
}

#[test]
fn a_variable_that_nothing_sets_is_refused_by_each_command_before_the_load() {
    let shop = Shop::new();
    let Shop { place, pg, database, .. } = &shop;
    place.write("forgotten.sql", FORGOTTEN);
    place.write("other.sql", "\\set quantity 1\nSELECT :quantity;\n");
    let at = "forgotten.sql:3:30: nothing sets the variable `quantity`";
    let run = [&["run", "-o", "out", "-f", "forgotten.sql"][..], &LENGTH].concat();
    for protocol in ["simple", "extended", "prepared"] {
        shop.refuse(&[&run[..], &["-M", protocol]].concat(), &[at]);
    }
    shop.refuse(&["plan", "-f", "forgotten.sql"], &["problem script", at]);
    let by_url = format!("server.url={}", shop.server);
    let compared =
        place.run(&["compare", "--aa", "-o", "out", "-f", "forgotten.sql", "--set", &by_url]).expect(1);
    assert!(compared.stderr.contains(at) && !place.path("out").exists(), "{}", compared.stderr);
    let only_other = "forgotten.sql:3:30: only another script sets the variable `quantity`, which a client might not have run before \
                      this one: other.sql:1";
    shop.refuse(&[&run[..], &["-f", "other.sql@9"]].concat(), &[only_other]);
    shop.refuse(&[&run[..], &["-D", "quantitiy=1"]].concat(), &[at]);
    let file = "[experiment]\nname = \"x\"\n[workload]\nkind = \"scripts\"\nscripts = [\"forgotten.sql\"]\ndata = \"none\"\n";
    place.write("x.toml", file);
    shop.refuse(&["run", "-o", "out", "x.toml"], &[at]);

    // Prefixes, combinations, branches, and what no gset could set, which is known without a server.
    for (script, expected) in UNSET {
        pg.admin(database)
            .execute("create or replace procedure give(inout n int) language sql as 'select 5'")
            .unwrap();
        place.write("forgotten.sql", script);
        shop.refuse(&run, &["forgotten.sql:", *expected]);
    }
    let combined =
        "SELECT 1 AS a \\; SELECT :client_id AS b, 2 AS c \\gset\nUPDATE stock SET qty = :a + :b + :c;\n";
    place.write("forgotten.sql", combined);
    shop.refuse(&[&run[..], &["-M", "simple"]].concat(), &[":2:24: nothing sets the variable `a`"]);
    place.write("forgotten.sql", "UPDATE stock SET note = ':nothing';\n");
    shop.refuse(&[&run[..], &["-M", "simple"]].concat(), &[":1:26: nothing sets the variable `nothing`"]);
    let ended = place.run(&["plan", "-f", "forgotten.sql"]).expect(1);
    assert!(ended.stderr.contains(":1:26: nothing sets the variable `nothing`"), "{}", ended.stderr);
    place.expect_clean();
}

#[test]
fn a_variable_without_a_value_during_the_load_ends_its_client_and_nothing_is_written() {
    let shop = Shop::new();
    let missing = "SELECT qty AS q FROM stock WHERE id < 0 \\aset\n";
    let change = "UPDATE stock SET qty = :q::int, note = :q::text;\n";
    // A half of the transaction is rolled back; a pipeline sends nothing.
    let block = format!("BEGIN;\nUPDATE stock SET note = 'half';\n{missing}{change}END;\n");
    let pipeline =
        format!("{missing}\\startpipeline\nUPDATE stock SET note = 'half';\n{change}\\endpipeline\n");
    let rows = format!("{missing}COPY stock (id, note) FROM STDIN;\n\\copydata\n9999\t:q\n\\.\n");
    // The columns of a table that the script makes are not known before; a branch that sets them is not taken.
    let branch = "CREATE TEMP TABLE IF NOT EXISTS mine AS SELECT 1 AS q;\n\\if :client_id < 0\nSELECT q FROM mine \\gset m_\n\\else\n\
                  SELECT 1 AS x FROM mine \\gset m_\n\\endif\n\
                  UPDATE stock SET qty = :m_q::int, note = :m_q::text;\n";
    let null = "SELECT ref AS q FROM stock WHERE id = 1 \\gset\nUPDATE stock SET note = ':q';\n";
    let shell = "\\set q null\n\\shell mkdir :q\n";
    let column = "SELECT ref AS q FROM stock WHERE id = 1 \\gset\n\\setshell n mkdir :q\n";
    let undefined = "undefined variable \"q\" in command \"SQL\"";
    for (script, protocols, expected) in [
        (
            &format!("{missing}{change}")[..],
            &["simple", "extended", "prepared"][..],
            &format!("u.sql:2: {undefined}")[..],
        ),
        (&block, &["simple", "prepared"], &format!("u.sql:4: {undefined}")),
        (&pipeline, &["extended", "prepared"], &format!("u.sql:4: {undefined}")),
        (&rows, &["simple", "prepared"], &format!("u.sql:2: {undefined}")),
        (branch, &["prepared"], "u.sql:7: undefined variable \"m_q\" in command \"SQL\""),
        (null, &["simple"], "u.sql:2: variable \"q\" is NULL, which has no place inside a text"),
        (shell, &["simple"], "variable \"q\" is NULL, which has no place inside a text"),
        (column, &["prepared"], "variable \"q\" is NULL, which has no place inside a text"),
    ] {
        for protocol in protocols {
            shop.expect_aborted(script, protocol, expected);
        }
    }
    assert!(!shop.place.path("NULL").exists(), "a command got the text");
    shop.place.expect_clean();
}

impl Shop {
    /// Every client is aborted by `script`, the run says why, and no row has changed.
    fn expect_aborted(&self, script: &str, protocol: &str, expected: &str) {
        self.place.write("u.sql", script);
        let name = format!("out-{protocol}");
        std::fs::remove_dir_all(self.place.path(&name)).ok();
        let words = [&["run", "-f", "u.sql", "-M", protocol, "-o", &name][..], &LENGTH].concat();
        let ended = self.place.run(&self.line(&words)).expect(1);
        assert!(ended.stdout.replace('\n', " ").contains("every client was aborted"), "{}", ended.stdout);
        let run = self.place.first_run(&name);
        expect_identity(&run);
        let done = run.record.done.as_ref().unwrap();
        let counts = done.counts;
        assert_eq!(
            (done.clients_lost, counts.started, counts.committed, counts.unknown, counts.failed),
            (2, 2, 0, 0, 2),
            "{script}"
        );
        let message = &done.messages["script"];
        assert!(message.contains(expected), "{message}\nexpected: {expected}");
        expect_found(&self.place, &name, &["connection-lost"]);
        self.expect_rows(script, "0|0|0|1000");
    }
}

#[test]
fn null_stays_null_and_columns_that_are_unknown_are_noted() {
    let shop = Shop::new();
    let script = "\\set n null\nSELECT ref AS q, 'text' AS t FROM stock WHERE id = 1 \\gset\n\\set m :q + 1\n\
                  UPDATE stock SET ref = :q WHERE id = 2 AND :q::int IS NULL;\nUPDATE stock SET note = :n WHERE id = 3 AND :m::int IS NULL;\n";
    shop.place.write("null.sql", script);
    for protocol in ["simple", "extended", "prepared"] {
        let words = [&["run", "-f", "null.sql", "-M", protocol, "-o", protocol, PACE][..], &LENGTH].concat();
        shop.place.run(&shop.line(&words)).expect(0);
        let run = shop.place.first_run(protocol);
        assert_eq!(run.record.survey.as_ref().unwrap().columns_unknown, Vec::<String>::new());
        // NULL, not an empty text, nor the text `NULL`.
        shop.expect_rows(protocol, "0|1|0|1000");
        assert_eq!(shop.pg.ask(&shop.database, "select note is null from stock where id = 3"), "t");
        shop.pg.admin(&shop.database).execute("update stock set note = 'n' where id = 3").unwrap();
    }

    let script = "CREATE TEMP TABLE IF NOT EXISTS mine AS SELECT 1 AS q;\nSELECT q FROM mine \\gset m_\n\
                  SELECT qty FROM stock WHERE id = 1 \\gset s_\nSELECT :m_q::int, :s_qty::int;\n";
    shop.place.write("mine.sql", script);
    let words = [&["run", "-f", "mine.sql", "-o", "mine", PACE][..], &LENGTH].concat();
    shop.place.run(&shop.line(&words)).expect(0);
    let run = shop.place.first_run("mine");
    let unknown = &run.record.survey.as_ref().unwrap().columns_unknown;
    assert!(
        matches!(&unknown[..], [one] if one.starts_with("mine.sql:2: relation \"mine\" does not exist")),
        "{unknown:?}"
    );
    expect_found(&shop.place, "mine", &["columns-unknown"]);
    // Other names are checked nevertheless.
    shop.place.write("mine.sql", &script.replace(":s_qty", ":s_quantity"));
    let words = [&["run", "-f", "mine.sql", "-o", "out"][..], &LENGTH].concat();
    shop.refuse(&words, &["mine.sql:4:19: nothing sets the variable `s_quantity`"]);
    shop.place.expect_clean();
}
