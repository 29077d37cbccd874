//! Clients of a trace: who is gone is waited for by nobody, and each statement is counted once.

use model::directory::trace::{TRACE_FILE, Trace};
use model::directory::{TraceReplay, WorkloadDirectory};
use model::load::replayed::ReplayedTrace;
use workload::emulator::traced::{TRACE_SCRIPT, script_of};

use super::*;
use crate::control::traced::outcome;

const MANIFEST: &str = "format = 1\nname = \"t\"\ntitle = \"T\"\nabout = \"tests\"\nsource = \"own\"\n\
                        licence = \"MIT OR Apache-2.0\"\nscale = \"nothing\"\n\
                        [[transaction]]\nname = \"one\"\n[variants]\nplain = {weights = {one = 1}}\n";

/// A text as zstd stores what it does not compress.
fn stored(text: &str) -> Vec<u8> {
    let n = u32::try_from(text.len()).unwrap();
    let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    bytes.extend(n.to_le_bytes());
    bytes.extend(&(n << 3 | 1).to_le_bytes()[..3]);
    bytes.extend(text.as_bytes());
    bytes
}

/// The load of a trace.
fn replay(text: &str) -> LoadSpec {
    let trace = Trace::read(text).unwrap();
    let mut directory = WorkloadDirectory { name: "t".to_string(), ..WorkloadDirectory::default() };
    let packed = stored(text);
    for (name, text) in [
        ("workload.toml", MANIFEST.to_string()),
        ("schema.sql", String::new()),
        ("transactions/one.sql", "select 1;\n".to_string()),
        (TRACE_FILE, reference(&packed)),
    ] {
        directory.texts.insert(name.to_string(), text);
    }
    directory.draws.add(packed);
    directory.replay = Some(TraceReplay {
        speed: 1.0,
        n_sessions: trace.head.n_sessions,
        n_transactions: trace.head.n_transactions.into(),
        n_statements: trace.head.n_statements,
        length_us: trace.head.length_us,
    });
    let mut load = load(&script_of(&trace));
    load.scripts[0].name = TRACE_SCRIPT.to_string();
    LoadSpec { n_clients: trace.head.n_clients, directory: Some(Box::new(directory)), ..load }
}

/// What stands for the trace among the texts.
fn reference(packed: &[u8]) -> String {
    let mut files = model::directory::drawn::DrawnFiles::default();
    files.add(packed.to_vec());
    files.0.keys().map(|hash| format!("sha256 {hash}\n")).collect()
}

fn replayed(run: &mut Run) -> ReplayedTrace {
    outcome(std::mem::take(&mut run.finished.traced)).unwrap()
}

#[test]
fn nobody_waits_for_the_transactions_of_a_client_that_is_gone() {
    // The second client's statement waits for the last transaction of the first one.
    let text = concat!(
        r#"{"format":1,"n_clients":2,"n_sessions":2,"n_forms":1,"n_transactions":3,"n_statements":3,"length_us":500000,"n_each_max":2}"#,
        "\n",
        r#"{"text":"update t set a = 1","values":""}"#,
        "\n",
        r#"{"c":0,"t":0,"s":[{"f":0}]}"#,
        "\n",
        r#"{"c":1,"t":1000,"s":[{"f":0,"g":[2]}]}"#,
        "\n",
        r#"{"c":0,"t":500000,"s":[{"f":0}]}"#,
        "\n",
    );
    let fails = || says(5 * MS, [error("22012"), ready()].concat());
    for (what, end) in [("aborted", fails()), ("lost", closes(5 * MS))] {
        let load = LoadSpec { on_error: OnError::EndClient, ..replay(text) };
        let mut end = Some(end);
        let mut run = Bench::new(load).run(move |sent| {
            let ends = if sent.client == 0 { end.take() } else { None };
            Ok(vec![ends.unwrap_or_else(|| says(MS, [done(), ready()].concat()))])
        });
        assert_eq!((run.finished.clients_lost, run.counts.committed), (1, 1), "{what}");
        let trace = replayed(&mut run);
        assert_eq!((trace.n_waits, trace.n_waits_given_up), (1, 0), "{what}: {trace:?}");
        assert!((3_000..10_000).contains(&trace.waits_us), "{what}: {trace:?}");
        assert!(trace.identity_holds(), "{what}: {trace:?}");
        assert_eq!((trace.n_in_trace, trace.n_statements, trace.n_cut_off), (3, 2, 1), "{what}: {trace:?}");
    }
}

#[test]
fn what_a_session_that_reads_refuses_is_counted_with_what_follows_it() {
    let text = concat!(
        r#"{"format":1,"n_clients":1,"n_sessions":1,"n_forms":4,"n_transactions":2,"n_statements":5,"length_us":9000,"n_each_max":2}"#,
        "\n",
        r#"{"text":"begin","values":""}"#,
        "\n",
        r#"{"text":"update t set a = 1","values":""}"#,
        "\n",
        r#"{"text":"end","values":""}"#,
        "\n",
        r#"{"text":"select 1","values":""}"#,
        "\n",
        r#"{"c":0,"t":0,"s":[{"f":0},{"f":1},{"f":1},{"f":2}]}"#,
        "\n",
        r#"{"c":0,"t":5000,"s":[{"f":3}]}"#,
        "\n",
    );
    let load = LoadSpec { only_reads: true, ..replay(text) };
    let mut run = Bench::new(load).run(move |sent| {
        let reply = match sent.n {
            0 => in_block(),
            1 => [error("25006"), message(b'Z', b"E")].concat(),
            _ => [done(), ready()].concat(),
        };
        Ok(vec![says(MS, reply)])
    });
    let trace = replayed(&mut run);
    assert!(trace.identity_holds(), "{trace:?}");
    assert_eq!((trace.n_in_trace, trace.n_statements, trace.n_refused, trace.n_cut_off), (5, 2, 3, 0));
    assert_eq!((trace.n_diverged(), trace.n_transactions), (0, 2), "{trace:?}");
}

#[test]
fn a_statement_without_parameters_is_a_simple_query_whatever_the_protocol() {
    let text = concat!(
        r#"{"format":1,"n_clients":1,"n_sessions":1,"n_forms":2,"n_transactions":2,"n_statements":2,"length_us":9000,"n_each_max":2}"#,
        "\n",
        r#"{"text":"select :v1 where a = :v2","values":"nq","is_text":true}"#,
        "\n",
        r#"{"text":"select :v1","values":"q"}"#,
        "\n",
        r#"{"c":0,"t":0,"s":[{"f":0,"v":["7","it's"]}]}"#,
        "\n",
        r#"{"c":0,"t":5000,"s":[{"f":1,"v":["7"]}]}"#,
        "\n",
    );
    for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
        let load = LoadSpec { protocol, ..replay(text) };
        let sent_bytes = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&sent_bytes);
        Bench::new(load).run(move |sent| {
            sink.lock().unwrap().push(sent.bytes.to_vec());
            Ok(vec![says(MS, [done(), ready()].concat())])
        });
        let sent = sent_bytes.lock().unwrap();
        assert_eq!(sent[0][0], b'Q', "{protocol:?}");
        assert_eq!(&sent[0][5..], b"select 7 where a = 'it''s';\0", "{protocol:?}");
        assert_eq!(sent[1][0] == b'Q', protocol == Protocol::Simple, "{protocol:?}");
    }
}
