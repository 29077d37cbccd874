//! Clients of a trace: pace, gates, counts and values; and what is no trace.

use super::*;

const TEXT: &str = concat!(
    r#"{"format":1,"n_clients":2,"n_sessions":2,"n_forms":2,"n_transactions":2,"n_statements":3,"length_us":9000,"n_each_max":1}"#,
    "\n",
    r#"{"text":"update t set a = :v1 where k = :v2","values":"qn"}"#,
    "\n",
    r#"{"text":"end","values":""}"#,
    "\n",
    r#"{"c":0,"t":1000,"s":[{"f":0,"v":["it's","-7"],"e":"23505"}]}"#,
    "\n",
    r#"{"c":1,"t":2000,"s":[{"f":0,"v":[null,"7"],"g":[0]},{"f":1,"a":6000,"p":5000}]}"#,
    "\n",
);

fn clients(has_gates: bool) -> (Bundle, [TracedClient; 2]) {
    let trace = Trace::read(TEXT).unwrap();
    let source = script_of(&trace);
    let bundle = Bundle::of_trace(&[(TRACE_SCRIPT, &source, 1)]).unwrap();
    let load = TracedLoad { has_gates, ..TracedLoad::new(trace, 2.0, &bundle.variables) };
    let load = Arc::new(load);
    (bundle, [0, 1].map(|client| TracedClient::new(&load, client)))
}

/// Begins a client's transaction at this time.
fn begin(client: &mut TracedClient, now_ns: u64) -> Action {
    client.next_transaction(now_ns);
    client.rewind();
    client.see(now_ns);
    client.step()
}

#[test]
fn transactions_are_due_at_the_pace_of_the_source() {
    let (_, [mut first, mut second]) = clients(true);
    assert_eq!(first.next_transaction(5_000).due_ns, 5_000 + 500_000);
    // Both began then.
    assert_eq!(second.next_transaction(7_000).due_ns, 5_000 + 1_000_000);
    assert_eq!(second.next_transaction(9_000_000).due_ns, 9_000_000, "lag is no latency");
}

#[test]
fn a_writer_waits_for_the_end_of_the_one_before_it_and_not_for_ever() {
    let (_, [mut first, mut second]) = clients(true);
    first.next_transaction(0);
    assert_eq!(begin(&mut second, 1_500_000), Action::Sleep { ns: LOOK_NS });
    assert_eq!(begin(&mut first, 1_600_000), Action::Send { statement: 0 });
    second.see(1_700_000);
    assert_eq!(second.step(), Action::Sleep { ns: LOOK_NS });
    first.ended();
    assert!(first.is_finished());
    second.see(1_900_000);
    assert_eq!(second.step(), Action::Send { statement: 0 });
    assert_eq!((second.take_waited_ns(), second.take_waited_ns()), (400_000, 0));
    // Its client thought for 5 ms, at twice the speed.
    assert_eq!(second.step(), Action::Sleep { ns: 2_500_000 });
    second.see(4_400_000);
    assert_eq!(second.step(), Action::Send { statement: 1 });
    assert_eq!(second.step(), Action::End);
    second.ended();
    let figures = second.take_figures();
    assert_eq!(
        (figures.lags_us, figures.counted.n_waits, figures.counted.n_transactions),
        (vec![900, 400], 1, 1)
    );

    let (_, [mut first, mut second]) = clients(true);
    first.next_transaction(0);
    begin(&mut second, 1_000_000);
    second.see(1_000_000 + WAIT_NS_MAX);
    assert_eq!(second.step(), Action::Send { statement: 0 });
    assert_eq!(second.take_figures().counted.n_waits_given_up, 1);
}

#[test]
fn without_gates_the_later_writer_of_a_key_can_be_first() {
    let (_, [mut first, mut second]) = clients(false);
    first.next_transaction(0);
    assert_eq!(begin(&mut second, 1_000_000), Action::Send { statement: 0 });
    assert_eq!(begin(&mut first, 1_100_000), Action::Send { statement: 0 });
}

#[test]
fn what_ends_otherwise_than_at_the_source_is_counted() {
    let (_, [mut first, mut second]) = clients(false);
    begin(&mut first, 500_000);
    assert!(first.failed("23505", false) && first.has_foreseen());
    assert_eq!(first.figures.counted.n_same_errors, 1);
    begin(&mut first, 600_000);
    assert_eq!(first.step(), Action::End);
    assert_eq!(first.figures.counted.n_missing_errors, 1);
    begin(&mut first, 700_000);
    assert!(!first.failed("40001", false));
    assert_eq!((first.figures.counted.n_other_errors, first.figures.counted.new_errors["40001"]), (1, 1));
    begin(&mut second, 800_000);
    assert!(!second.failed("42P01", false));
    // The end that follows is no loss.
    assert_eq!((second.figures.counted.n_new_errors, second.figures.counted.n_lost()), (1, 0));
}

/// The counts of the second client, after this was done with it.
fn counted(act: impl FnOnce(&mut TracedClient)) -> ReplayedTrace {
    let (_, [_, mut second]) = clients(false);
    act(&mut second);
    let counted = second.take_figures().counted;
    assert!(counted.n_in_trace == 2 && counted.identity_holds(), "{counted:?}");
    assert_eq!(second.take_figures().counted, ReplayedTrace::default(), "once");
    counted
}

#[test]
fn each_statement_is_sent_refused_or_cut_off_and_counted_once() {
    let counts = |of: &ReplayedTrace| (of.n_statements, of.n_refused, of.n_cut_off, of.n_spared);
    let all = counted(|client| {
        begin(client, 0);
        // It thinks before the end.
        assert!(matches!(client.step(), Action::Sleep { .. }));
        assert_eq!(client.step(), Action::Send { statement: 1 });
        assert_eq!(client.step(), Action::End);
        client.ended();
    });
    assert_eq!(counts(&all), (2, 0, 0, 0));
    let refused = counted(|client| {
        begin(client, 0);
        assert!(!client.failed("25006", true));
        client.ended();
    });
    assert_eq!((counts(&refused), refused.n_diverged(), refused.new_errors.len()), ((0, 2, 0, 0), 0, 0));
    let failed = counted(|client| {
        begin(client, 0);
        client.failed("42P01", false);
        client.ended();
    });
    assert_eq!((counts(&failed), failed.n_diverged()), ((1, 0, 1, 1), 1), "the end that follows is no loss");
    // Its connection was lost before the end, and it goes on, or it does not.
    for goes_on in [true, false] {
        let lost = counted(|client| {
            begin(client, 0);
            if goes_on {
                client.ended();
            } else {
                client.leave();
            }
        });
        assert_eq!((counts(&lost), lost.n_diverged()), ((1, 0, 1, 0), 1));
    }
    // The load was over before it began.
    let none = counted(|_| {});
    assert_eq!((counts(&none), none.n_diverged()), ((0, 0, 2, 0), 2));
    // Begun again, it is the same statement.
    let again = counted(|client| {
        begin(client, 0);
        begin(client, 1_000);
    });
    assert_eq!(counts(&again), (1, 0, 1, 0));
}

#[test]
fn nobody_waits_for_a_client_that_is_gone() {
    let (_, [mut first, mut second]) = clients(true);
    first.next_transaction(0);
    assert_eq!(begin(&mut second, 1_500_000), Action::Sleep { ns: LOOK_NS });
    first.leave();
    second.see(1_600_000);
    assert_eq!(second.step(), Action::Send { statement: 0 });
    assert_eq!(second.take_figures().counted.n_waits_given_up, 0);
}

#[test]
fn values_stand_in_texts_as_literals_and_in_messages_as_they_are() {
    let (bundle, [mut first, mut second]) = clients(false);
    let statement = &bundle.programs[0].statements[0];
    let rendered = |client: &TracedClient| {
        let mut out = Vec::new();
        client.render(&statement.pieces, &mut out);
        String::from_utf8(out).unwrap()
    };
    begin(&mut first, 0);
    assert_eq!(rendered(&first), "update t set a = 'it''s' where k = (-7);");
    begin(&mut second, 0);
    assert_eq!(rendered(&second), "update t set a = null where k = 7;");
    let mut out = Vec::new();
    assert_eq!(first.parameter(statement.parameters[0], &mut out), BoundParameter::Text);
    assert_eq!(out, b"it's");
    assert_eq!(second.parameter(statement.parameters[0], &mut out), BoundParameter::Null);
}

#[test]
fn statements_that_had_no_parameters_are_sent_as_texts() {
    let text = TEXT.replacen("\"values\":\"qn\"", "\"values\":\"qn\",\"is_text\":true", 1);
    let trace = Trace::read(&text).unwrap();
    assert_eq!(trace.text().unwrap(), text);
    let (mut bundle, _) = clients(false);
    assert!(!bundle.is_simple_query(0));
    bundle.traced = Some(Arc::new(TracedLoad::new(trace, 1.0, &bundle.variables)));
    assert_eq!([0, 1, 2].map(|at| bundle.is_simple_query(at)), [true, false, false]);
}

/// A directory whose trace is in this file.
fn directory_with(packed: &[u8]) -> WorkloadDirectory {
    let mut directory = WorkloadDirectory::default();
    directory.texts.insert(TRACE_FILE.to_string(), generator::draws_reference(packed));
    directory.draws.add(packed.to_vec());
    directory
}

#[test]
fn a_plan_reads_a_trace_once() {
    let packed = zstd::encode_all(TEXT.replacen("9000", "9001", 1).as_bytes(), 1).unwrap();
    let mut directory = directory_with(&packed);
    let outline = outline_of(&directory).unwrap();
    assert_eq!((outline.head.length_us, outline.forms.len(), outline.transactions.len()), (9001, 2, 0));
    // Nobody unpacks the bytes of a file that is known.
    for bytes in directory.draws.0.values_mut() {
        *bytes = b"other".as_slice().into();
    }
    assert!(trace_of(&directory).is_err());
    assert!(Arc::ptr_eq(&outline, &outline_of(&directory).unwrap()));
    // It must be at hand all the same.
    directory.draws.0.clear();
    assert!(outline_of(&directory).unwrap_err().contains("not at hand"));
}

#[test]
fn an_outline_is_that_of_a_sound_trace() {
    let packed = zstd::encode_all(TEXT.replacen("\"g\":[0]", "\"g\":[7]", 1).as_bytes(), 1).unwrap();
    let directory = directory_with(&packed);
    for _ in 0..2 {
        let message = outline_of(&directory).unwrap_err();
        assert!(message.contains("trace.zst: line 5: there is no transaction 7"), "{message}");
    }
}

#[test]
fn a_trace_that_cannot_be_unpacked_is_called_one() {
    let packed = zstd::encode_all(TEXT.as_bytes(), 1).unwrap();
    assert_eq!(unpacked(&packed, TEXT.len() as u64).as_deref(), Ok(TEXT));
    let longer = unpacked(&packed, TEXT.len() as u64 - 1).unwrap_err();
    assert!(longer.starts_with("the trace has more than") && longer.contains("--window"), "{longer}");
    let broken = unpacked(b"no zstd", 100).unwrap_err();
    assert!(broken.starts_with("is no file of zstd") && broken.contains("capture it again"), "{broken}");
    assert!(!longer.contains("captured rows") && !broken.contains("captured rows"));
}

#[test]
fn a_trace_runs_nothing_but_sql() {
    for source in ["select 1;\n\\shell rm x\n", "\\set x 1\nselect :x;\n", "\\sleep 1 s\n"] {
        assert!(Bundle::of_trace(&[(TRACE_SCRIPT, source, 1)]).is_err(), "{source}");
    }
}
