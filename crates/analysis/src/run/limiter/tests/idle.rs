//! Sessions that seem idle, and clients that have none.

use model::telemetry::wait;

use super::*;

/// Four clients of a server that used 1.2 processors and waited for 1.1 more; pg_stat_activity showed 0.2 of them at work.
fn half_awake() -> MeasurementFacts {
    MeasurementFacts {
        is_sure: true,
        sessions: vec![(wait::CPU.to_string(), 0.2), (wait::IDLE.to_string(), 3.8)],
        cpu: Some(0.98),
        n_cpus: Some(2.0),
        server_cpu: Some(1.2),
        server_delay: Some(1.1),
        is_local: true,
        n_clients: 4.0,
        tps: Some(8_000.0),
        ..MeasurementFacts::default()
    }
}

#[test]
fn what_waits_for_a_processor_does_not_wait_for_its_client() {
    let facts = half_awake();
    assert!(
        (facts.runnable() - 2.3).abs() < 1e-9,
        "never fewer than the processors in use: {}",
        facts.runnable()
    );
    assert!((facts.waiting() - 1.7).abs() < 1e-9, "{}", facts.waiting());
    let found = judge(&facts);
    assert_eq!(found.name, Bottleneck::ServerCpu);
    assert!(found.evidence.contains("2.3 sessions ran or waited to run"), "{}", found.evidence);
}

#[test]
fn no_part_of_a_transaction_is_longer_than_all_of_it() {
    let facts = MeasurementFacts {
        sessions: vec![(wait::IDLE.to_string(), 10.0)],
        cpu: Some(0.2),
        n_clients: 10.0,
        driver_threads: 0.1,
        tps: Some(2.0),
        ..MeasurementFacts::default()
    };
    assert!(
        judge(&facts).evidence.starts_with("4950.0 ms of each transaction passed"),
        "{:?}",
        judge(&facts)
    );
    let timed = MeasurementFacts { service_s: Some(0.027), ..facts };
    assert!(!judge(&timed).evidence.contains(" ms of each transaction"), "{:?}", judge(&timed));
}

#[test]
fn few_sessions_for_many_clients_are_a_queue_in_between() {
    let facts = MeasurementFacts {
        sessions: vec![(wait::CPU.to_string(), 0.4), (wait::IDLE.to_string(), 3.6)],
        cpu: Some(0.3),
        n_clients: 64.0,
        is_local: true,
        ..MeasurementFacts::default()
    };
    let found = judge(&facts);
    assert_eq!(found.name, Bottleneck::Network);
    assert!(found.evidence.starts_with("64 clients had 4.0 sessions at the server"), "{}", found.evidence);
}

#[test]
fn sessions_that_wait_for_locks_are_not_short_of_clients() {
    let facts = MeasurementFacts {
        sessions: vec![
            ("LWLock:BufferContent".to_string(), 0.9),
            ("LWLock:LockManager".to_string(), 0.9),
            ("Lock:transactionid".to_string(), 0.9),
            (wait::CPU.to_string(), 2.0),
            (wait::IDLE.to_string(), 6.0),
        ],
        cpu: Some(0.5),
        n_clients: 10.7,
        is_local: true,
        ..MeasurementFacts::default()
    };
    assert_eq!(judge(&facts).name, Bottleneck::Unknown, "{:?}", judge(&facts));
}

#[test]
fn what_all_threads_of_the_driver_work_on_is_not_on_the_way() {
    let judged = |busy: f64| {
        let threads = (0..8).map(|thread| (format!("driver.thread_cpu[{thread}]"), busy));
        let rest = [
            ("waits.samples", 30.0),
            ("waits.processes[client/idle]", 360.0),
            ("waits.processes[client/CPU]", 120.0),
            ("server.transactions", 5000.0),
        ];
        let values = threads.chain(rest.map(|(key, value)| (key.to_string(), value))).collect();
        let tick = Tick { source: TickSource::Host, end_unix_ns: 1, length_ns: 1_000_000_000, values };
        let placed = vec![Placed { from_s: 0.0, to_s: 1.0, tick: &tick }];
        let usage = Usage::new(placed, Parties { server: true, driver: true, pgdyno: true });
        let conditions = Conditions {
            n_clients: 16,
            met_its_rate: false,
            is_local: true,
            has_pauses: false,
            tps: Some(5000.0),
            service_s: None,
            connecting: None,
        };
        let facts = MeasurementFacts::from_usage(&usage, 0.0, 1.0).unwrap();
        judge(&facts.with(&usage, 0.0, 1.0, &ResourceUsage::default(), &conditions))
    };
    let idle = judged(0.01);
    assert_eq!(idle.name, Bottleneck::Network, "{idle:?}");
    let busy = judged(0.7);
    assert_ne!(busy.name, Bottleneck::Network, "{busy:?}");
}

#[test]
fn clients_that_pause_miss_no_processor_that_others_use() {
    // Figures as measured: eight clients that pause for 20 ms, next to other work on the machine.
    let pausing = facts(&[("CPU", 0.1), ("idle", 7.9)], &[], &[], 1.0);
    let pausing = MeasurementFacts {
        foreign: Some(0.97),
        server_cpu: Some(0.05),
        server_delay: Some(0.25),
        driver_threads: 0.1,
        has_pauses: true,
        ..pausing
    };
    let found = judge(&pausing);
    assert_eq!(found.name, Bottleneck::OfferedLoad, "{found:?}");
    assert_eq!(judge(&MeasurementFacts { has_pauses: false, ..pausing }).name, Bottleneck::ForeignCpu);
    // Figures as measured: a row is held over a way of 3 ms each way, on a machine that others use.
    let far = facts(
        &[
            ("Lock:transactionid", 1.0),
            ("Lock:tuple", 5.0),
            ("idle in transaction", 1.0),
            ("idle", 0.9),
            ("CPU", 0.1),
        ],
        &[(WaitStage::Lock, 1.0)],
        &[("idle in transaction", 1.0)],
        1.0,
    );
    let far = MeasurementFacts {
        foreign: Some(0.96),
        server_cpu: Some(0.05),
        server_delay: Some(0.1),
        driver: Some(0.02),
        driver_delay: Some(0.02),
        driver_threads: 0.04,
        tps: Some(60.0),
        ..far
    };
    let found = judge(&far);
    assert_eq!(found.name, Bottleneck::ClientHeldLock, "{found:?}");
    assert_eq!(found.runner_up.unwrap().0, Bottleneck::Network);
}

#[test]
fn clients_that_wait_to_be_connected_are_not_hidden_and_wait_for_nothing_in_between() {
    // Figures as measured: 64 clients that connect for each transaction, of which pg_stat_activity shows four.
    let shown = facts(&[("CPU", 0.6), ("idle", 3.3)], &[], &[], 0.99);
    let connecting = Some(ConnectTime { connect_s: 0.177, latency_s: 0.184 });
    let few = MeasurementFacts { hidden: 0.1, n_clients: 64.0, cpu: Some(0.99), connecting, ..shown };
    let found = judge(&few);
    assert_eq!((found.name, found.confidence), (Bottleneck::ServerCpu, Confidence::Low), "{found:?}");
    assert!(
        found.evidence.starts_with("most clients wait to be connected; on average 0.6 sessions"),
        "{found:?}"
    );
    let quiet = judge(&MeasurementFacts { cpu: Some(0.3), ..few });
    assert_eq!(quiet.name, Bottleneck::Unknown, "{quiet:?}");
}
