//! Pipelines: how they are sent, and what is known of one whose answers do not come.

use model::load::{LoadSpec, Protocol};
use testbed::hostile::{done, ready};

use super::bench::{Bench, MS, says};
use super::{once, outcomes};

/// One transaction, which is the pipeline of these statements.
fn pipeline(statements: &str) -> LoadSpec {
    let source = format!("\\startpipeline\n{statements}\n\\endpipeline");
    LoadSpec { protocol: Protocol::Extended, ..once(&source) }
}

#[test]
fn a_long_pipeline_is_sent_in_pieces() {
    let text = "x".repeat(1000);
    let load = pipeline(&format!("SELECT '{text}';\n").repeat(200));
    let run = Bench::new(load).run(move |sent| {
        assert!(sent.n < 4 && sent.bytes.len() < 67_000, "{} bytes in message {}", sent.bytes.len(), sent.n);
        Ok(match sent.n {
            // Three pieces of 64 KiB, and the rest.
            3 => vec![says(MS, [done().repeat(200), ready()].concat())],
            _ => Vec::new(),
        })
    });
    assert_eq!(outcomes(&run), (1, 0, 0, 0));
}

#[test]
fn a_pipeline_without_an_answer_waits_since_its_end() {
    let load = pipeline("SELECT 1;\n\\sleep 500 ms\nSELECT 2;");
    let run = Bench::new(load).run(move |_| Ok(Vec::new()));
    assert_eq!((outcomes(&run), run.finished.unanswered), ((0, 0, 1, 0), 1));
    assert_eq!(run.finished.unanswered_ns, 3500 * MS, "of four seconds");
}
