//! pgbench's built-in scripts.

use capture::privacy::Privacy;

use crate::{ALL, Source, is_within_binomial, keep, rows, text};

const TPCB: &str = "\
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
";

#[test]
fn tpcb_is_one_template_with_its_roles_by_every_protocol() {
    let source = Source::start();
    for protocol in ["simple", "extended", "prepared"] {
        let made = source.captured(ALL, &["-c", "3", "-t", "200", "-M", protocol], Privacy::Hashed);
        keep(&made, &format!("tpcb-{protocol}"));
        let summary = &made.summary;
        // pgbench asks for the size of the tables first.
        let template = summary.templates.iter().find(|one| one.name.starts_with("update")).unwrap();
        assert_eq!(template.n, 600, "{protocol}");
        assert_eq!(text(&made, &format!("transactions/{}.sql", template.name)), TPCB, "{protocol}");
        let roles: Vec<(&str, &str)> =
            template.variables.iter().map(|one| (one.name.as_str(), one.role)).collect();
        assert_eq!(roles, [("delta", "value"), ("aid", "key"), ("tid", "key"), ("bid", "key")], "{protocol}");
        assert_eq!(summary.protocol, protocol);
        assert_eq!(summary.balance.difference(), (0, 0));
        assert!(summary.balance.coverage() > 0.95, "{protocol}: {:?}", summary.balance);
        let rows = rows(&made, &format!("draws/{}.zst", template.name));
        assert_eq!(rows.len(), 602);
        assert_eq!(rows[..2], ["pgdyno draws 1", "delta:int\taid:int\ttid:int\tbid:int"]);
        let aid: i64 = rows[2].split('\t').nth(1).unwrap().parse().unwrap();
        assert!((1..=1_000_000).contains(&aid));
    }
}

#[test]
fn a_sample_of_transactions_has_whole_ones_at_its_rate() {
    let source = Source::start();
    let made =
        source.captured("log_transaction_sample_rate=0.2", &["-c", "4", "-t", "1000"], Privacy::Values);
    let template = made.summary.templates.iter().find(|one| one.name.starts_with("update")).unwrap();
    assert!(is_within_binomial(template.n, 4000, 0.2), "{} of 4000", template.n);
    assert_eq!(text(&made, &format!("transactions/{}.sql", template.name)), TPCB);
    assert_eq!(made.summary.balance.difference(), (0, 0));
}

#[test]
fn mixed_scripts_are_templates_with_their_weights() {
    let source = Source::start();
    let options = [
        "-c",
        "3",
        "-t",
        "1000",
        "-M",
        "prepared",
        "-b",
        "tpcb-like@2",
        "-b",
        "simple-update@1",
        "-b",
        "select-only@3",
    ];
    let made = source.captured(ALL, &options, Privacy::Values);
    keep(&made, "mixed");
    let with = |n_statements: usize| {
        let found = made.summary.templates.iter().filter(|one| one.statements.len() == n_statements);
        found.map(|one| one.n).max().unwrap_or(0)
    };
    let (tpcb, simple, select) = (with(7), with(5), with(1));
    assert_eq!(tpcb + simple + select, 3000, "{:?}", made.summary.templates);
    for (n, share) in [(tpcb, 2.0 / 6.0), (simple, 1.0 / 6.0), (select, 3.0 / 6.0)] {
        assert!(is_within_binomial(n, 3000, share), "{n} for {share}");
    }
}
