//! Pipelines: how they are sent, and what is known of one whose answers do not come.

use model::load::{LoadSpec, Protocol};
use testbed::hostile::{done, message, ready};

use super::bench::{Bench, MS, closes, says};
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

#[test]
fn a_lost_pipeline_is_unknown_if_its_end_may_have_committed_it() {
    let block = "BEGIN;\nSELECT 1;\n\\syncpipeline\nSELECT 2;\nEND;";
    // All statements are answered, but not the Sync, which commits them; in the block, the commit is what was not answered.
    for (statements, answers, expected) in [
        ("SELECT 1;", done(), (0, 0, 1, 0)),
        (block, [done().repeat(2), message(b'Z', b"T"), done()].concat(), (0, 0, 1, 0)),
        (
            &*block.replace("END;", "SELECT 3;"),
            [done().repeat(2), message(b'Z', b"T")].concat(),
            (0, 1, 0, 0),
        ),
    ] {
        let run = Bench::new(pipeline(statements))
            .run(move |_| Ok(vec![says(MS, answers.clone()), closes(2 * MS)]));
        assert_eq!(outcomes(&run), expected, "{statements}");
    }
}
