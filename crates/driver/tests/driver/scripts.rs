//! Script features: rows to variables, shells, pipelines, and the messages when they fail.

use driver::SenderTrust;
use model::load::drive::DriveOrder;
use model::load::{LoadSpec, OnError, Protocol, TransactionLog};
use model::telemetry::event::EventKind;

use crate::cluster::Cluster;
use crate::driven::{drive, load};

const ALL: [Protocol; 3] = [Protocol::Simple, Protocol::Extended, Protocol::Prepared];

#[test]
fn scripts_run_and_debug_shows_their_variables() {
    let cluster = Cluster::shared();
    let check = |source: &str, protocols: &[Protocol], wanted: &[&str]| {
        for &protocol in protocols {
            let mut load = load(&cluster.conninfo(), &[source], 2);
            load.protocol = protocol;
            let driven = drive(load);
            assert_eq!(driven.texts(EventKind::ClientAborted), [""; 0], "{source}");
            let lines: Vec<String> = wanted.iter().chain(wanted).map(|line| (*line).to_string()).collect();
            assert_eq!(driven.texts(EventKind::ScriptDebug), lines, "{source} {protocol:?}");
            assert_eq!(driven.done.counts.committed, 2, "{source}");
        }
    };
    check(
        "SELECT 1 AS i, 'x' AS t, NULL AS n \\gset p_\n\\set a debug(:p_i + 1)\nSELECT :p_i;",
        &ALL,
        &["debug(script=0,command=2): int 2"],
    );
    check(
        "SELECT 1 AS i \\; SELECT 2 AS i, 5 AS k \\gset\n\\set a debug(:i)\n\\set b debug(:k)",
        &ALL[..1],
        &["debug(script=0,command=2): int 2", "debug(script=0,command=3): int 5"],
    );
    check(
        "SELECT g AS a FROM generate_series(1,3) g \\; SELECT 7 AS b WHERE false \\; BEGIN \\; \
         SELECT 2 AS c \\; END \\aset\n\\set x debug(:a)\n\\set y debug(:c)",
        &ALL[..1],
        &["debug(script=0,command=2): int 3", "debug(script=0,command=3): int 2"],
    );
    check(
        "SELECT 7 AS z WHERE false \\aset\nSELECT 3 AS z \\aset\n\\set y debug(:z)",
        &ALL,
        &["debug(script=0,command=3): int 3"],
    );
    check(
        "\\set v 3\n\\setshell n expr 4 + :v\n\\set y debug(:n)\n\\shell true",
        &ALL,
        &["debug(script=0,command=3): int 7"],
    );
    check(
        "\\set y debug(NULL)\n\\set y debug(1.5)\n;\nSELECT 1;",
        &ALL,
        &["debug(script=0,command=1): null", "debug(script=0,command=2): double 1.5"],
    );
}

#[test]
fn a_shell_s_output_is_reported() {
    let cluster = Cluster::shared();
    let driven = drive(load(&cluster.conninfo(), &["\\set x 5\n\\shell echo a :x ::b"], 1));
    assert_eq!(driven.texts(EventKind::ShellOutput), ["a 5 :b\n"]);
    // A second ends while a command runs, and is reported.
    let driven = drive(load(&cluster.conninfo(), &["\\shell sleep 1.3"], 1));
    assert_eq!((driven.intervals.len(), driven.done.counts.committed), (2, 1));
}

#[test]
fn a_driver_that_may_only_load_executes_nothing_and_writes_nothing() {
    let cluster = Cluster::shared();
    let said = |load: LoadSpec| {
        let order = serde_json::to_string(&DriveOrder::new(load, None)).unwrap();
        let mut output = Vec::new();
        driver::drive(
            std::io::Cursor::new(order.into_bytes()),
            &mut output,
            SenderTrust::LoadOnly,
            |_, _, _| (),
        )
        .unwrap();
        String::from_utf8(output).unwrap()
    };
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("made");
    for command in ["\\shell touch", "\\setshell x touch"] {
        let source = format!("SELECT 1;\n{command} {}", made.display());
        let said = said(load(&cluster.conninfo(), &[&source], 1));
        assert!(said.contains("failed") && said.contains("--allow-shell"), "{said}");
    }
    let mut logged = load(&cluster.conninfo(), &["SELECT 1;"], 1);
    logged.log = Some(TransactionLog {
        prefix: made.display().to_string(),
        sampling_rate: 1.0,
        aggregate_interval_s: 0,
        failures_detailed: false,
        pid: None,
    });
    assert!(said(logged).contains("--allow-shell"));
    // Nor does it use what its user is on this machine.
    let own = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    let mut peer = load(&cluster.conninfo(), &["SELECT 1;"], 1);
    peer.target.insert("host".to_string(), dir.path().display().to_string());
    peer.target.insert("user".to_string(), own);
    let refused = said(peer);
    assert!(refused.contains("by its unix socket as") && refused.contains("--allow-shell"), "{refused}");
    // What there is in place of a socket is not said, nor which files there are.
    for directory in ["/etc/passwd", "/root", "/etc", "/none"] {
        let mut elsewhere = load(&cluster.conninfo(), &["SELECT 1;"], 1);
        elsewhere.target.insert("host".to_string(), directory.to_string());
        let refused = said(elsewhere);
        assert!(
            refused.contains("no server that the agent's user can reach listens"),
            "{directory}: {refused}"
        );
    }
    for file in ["/etc/passwd", "/etc/none"] {
        let mut keyed = load(&cluster.conninfo(), &["SELECT 1;"], 1);
        keyed.target.insert("sslcert".to_string(), file.to_string());
        let accepted = said(keyed.clone());
        assert!(accepted.contains("ready") && !accepted.contains(file), "{file}: {accepted}");
        keyed.target.insert("sslcertmode".to_string(), "require".to_string());
        assert!(said(keyed).contains("demands a client certificate"), "{file}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn pipelines_run_and_count_each_statement() {
    let cluster = Cluster::shared();
    let source = "\\set v 7\n\\startpipeline\nBEGIN ISOLATION LEVEL SERIALIZABLE;\nSELECT :v;\n\\syncpipeline\n\
                  SELECT 2;\nEND;\n\\endpipeline\n\\startpipeline\nSELECT 3;\n\\endpipeline\nSELECT 4;";
    for (protocol, lazy_parse) in
        [(Protocol::Extended, true), (Protocol::Prepared, true), (Protocol::Prepared, false)]
    {
        let mut load = load(&cluster.conninfo(), &[source], 3);
        (load.protocol, load.lazy_parse, load.time_commands) = (protocol, lazy_parse, true);
        let driven = drive(load);
        assert_eq!(driven.texts(EventKind::ClientAborted), [""; 0]);
        assert_eq!(driven.done.counts.committed, 3);
        assert_eq!(driven.statements(), [3; 6]);
        let n: Vec<u64> = driven.commands(0).iter().map(|command| command.n).collect();
        assert_eq!(n, [3; 12]);
    }
    // More than any socket takes at once, in both directions.
    let many = "SELECT repeat('x', 5000), :v;\n".repeat(2000);
    let source = format!("\\set v 7\n\\startpipeline\n{many}\\endpipeline");
    let mut load = load(&cluster.conninfo(), &[&source], 2);
    load.protocol = Protocol::Extended;
    let driven = drive(load);
    let done = &driven.done;
    assert_eq!((done.counts.committed, driven.statements()[1999]), (2, 2), "{:?}", done.messages);
}

const SIMPLE: &[Protocol] = &[Protocol::Simple];
const WITH_PIPELINES: &[Protocol] = &[Protocol::Extended, Protocol::Prepared];

/// A script that ends its client, the protocols in which it does, and the message.
const ENDS: &[(&str, &[Protocol], &str)] = &[
    (
        "SELECT 1;\nSELECT 1/0;",
        &ALL,
        "client 0 script 0 aborted in command 1 query 0: ERROR:  division by zero",
    ),
    (
        "SELECT 1 \\; SELECT * FROM no_such_table;",
        SIMPLE,
        "client 0 script 0 aborted in command 0 query 1: ERROR:  relation \"no_such_table\" does not exist\n\
         LINE 1: SELECT 1 ; SELECT * FROM no_such_table;\n                                 ^",
    ),
    (
        "SELECT 1 \\; SELECT 1/:x;",
        SIMPLE,
        "client 0 script 0 aborted in command 0 query 0: ERROR:  syntax error at or near \":\"\n\
         LINE 1: SELECT 1 ; SELECT 1/:x;\n                            ^",
    ),
    (
        "SELECT 1 \\; SELECT 1/(:client_id);",
        SIMPLE,
        "client 0 script 0 aborted in command 0 query 1: ERROR:  division by zero",
    ),
    ("SELECT 1 WHERE false \\gset", &ALL, "client 0 script 0 command 0 query 0: expected one row, got 0"),
    (
        "SELECT generate_series(1,2) AS i \\gset",
        &ALL,
        "client 0 script 0 command 0 query 0: expected one row, got 2",
    ),
    ("BEGIN \\gset", &ALL, "client 0 script 0 command 0 query 0: expected one row, got 0"),
    (
        "SELECT 1 \\gset",
        &ALL,
        "gset: invalid variable name: \"?column?\" | \
         client 0 script 0 command 0 query 0: error storing into variable ?column?",
    ),
    (
        "SELECT 1;\n\\set x 1/0",
        &ALL,
        "division by zero | client 0 aborted in command 1 (set) of script 0; evaluation of meta-command failed",
    ),
    (
        "\\shell false",
        &ALL,
        "false: could not launch shell command | \
         client 0 aborted in command 0 (shell) of script 0; execution of meta-command failed",
    ),
    (
        "\\startpipeline\nSELECT 1;\n\\endpipeline",
        SIMPLE,
        "client 0 aborted in command 0 (startpipeline) of script 0; \
         cannot use pipeline mode with the simple query protocol",
    ),
    (
        "\\startpipeline\nSELECT 1;\n",
        WITH_PIPELINES,
        "client 0 aborted: end of script reached with pipeline open",
    ),
    (
        "\\startpipeline\n\\startpipeline\n",
        WITH_PIPELINES,
        "client 0 aborted in command 1 (startpipeline) of script 0; already in pipeline mode",
    ),
    (
        "SELECT 1;\n\\endpipeline\n",
        WITH_PIPELINES,
        "client 0 aborted in command 1 (endpipeline) of script 0; not in pipeline mode",
    ),
    (
        "\\startpipeline\nSELECT 1 AS a \\gset\n\\endpipeline",
        WITH_PIPELINES,
        "client 0 aborted in command 1 (gset) of script 0; \\gset is not allowed in pipeline mode",
    ),
    (
        "\\startpipeline\nSELECT 1;\nSELECT 1/0;\nSELECT 2;\n\\endpipeline",
        WITH_PIPELINES,
        "client 0 script 0 aborted in command 4 query 0: ERROR:  division by zero",
    ),
    (
        "BEGIN;\nSELECT 1;",
        &ALL,
        "client 0 aborted: end of script reached without completing the last transaction",
    ),
    ("COPY (SELECT 1) TO STDOUT;", &ALL, "COPY is not supported in pgbench, aborting"),
    ("CREATE TEMP TABLE t();\nCOPY t FROM STDIN;", &ALL, "COPY is not supported in pgbench, aborting"),
];

#[test]
fn clients_end_with_pgbench_s_words() {
    let cluster = Cluster::shared();
    for (source, protocols, wanted) in ENDS {
        for &protocol in *protocols {
            let mut load = load(&cluster.conninfo(), &[source], 2);
            (load.protocol, load.n_clients, load.time_commands) = (protocol, 1, true);
            load.values_as_pgbench = true;
            let driven = drive(load);
            assert_eq!(driven.texts(EventKind::ClientAborted), [*wanted], "{protocol:?} {source}");
            assert_eq!(driven.done.clients_lost, 1);
            assert!(
                driven.done.counts.failed + driven.done.counts.committed == 1,
                "{:?}",
                driven.done.counts
            );
        }
    }
}

#[test]
fn statements_that_cannot_be_parsed_are_reported_twice() {
    let cluster = Cluster::shared();
    let mut load = load(&cluster.conninfo(), &["SELECT 1;\nSELEKT 2;"], 2);
    load.protocol = Protocol::Prepared;
    let driven = drive(load.clone());
    let wanted = "ERROR:  syntax error at or near \"SELEKT\"\nLINE 1: SELEKT 2;\n        ^ | client 0 script 0 aborted in command 1 query 0: \
                  ERROR:  prepared statement \"P_1\" does not exist";
    assert_eq!(driven.texts(EventKind::ClientAborted), [wanted]);
    assert_eq!(driven.done.errors["42601"], 1);
    load.on_error = OnError::Continue;
    assert_eq!(drive(load.clone()).done.errors["42601"], 2);
    // Before the load, unless statements are parsed when they first run.
    load.lazy_parse = false;
    let error = crate::driven::try_drive(load).err().unwrap();
    assert!(error.starts_with("s0:2: server says ERROR 42601"), "{error}");
}

#[test]
fn each_step_is_reported_on_request() {
    let cluster = Cluster::shared();
    let mut load = load(&cluster.conninfo(), &["\\set a 1 + 1\n\\if :a > 1\nSELECT :a;\n\\endif"], 1);
    load.trace = true;
    let wanted = [
        "client 0 executing script \"s0\"",
        "client 0 executing \\set a",
        "client 0 executing \\if",
        "client 0 sending SELECT 2;",
        "client 0 receiving",
        "client 0 executing \\endif",
    ];
    assert_eq!(drive(load).texts(EventKind::ScriptTrace), wanted);
}

#[test]
fn an_error_ends_the_client_or_the_load_or_nothing() {
    let cluster = Cluster::shared();
    let source = "SELECT 1/(:client_id - 1);\n\\sleep 20 ms";
    let run = |on_error| {
        let mut load = load(&cluster.conninfo(), &[source], 30);
        (load.on_error, load.n_clients, load.n_threads) = (on_error, 4, 2);
        drive(load).done
    };
    let done = run(OnError::EndClient);
    assert_eq!((done.counts.committed, done.counts.failed, done.clients_lost), (90, 1, 1));
    assert_eq!(done.errors["22012"], 1);
    let done = run(OnError::Continue);
    assert_eq!((done.counts.committed, done.counts.failed, done.clients_lost), (90, 30, 0));
    let done = run(OnError::EndLoad);
    assert!(done.counts.committed < 30 && done.clients_lost == 1, "{:?}", done.counts);
}

#[test]
fn each_protocol_sends_what_genuine_pgbench_sends() {
    let cluster = Cluster::start();
    cluster
        .session()
        .execute("create table t (a int, b int); insert into t select g, g from generate_series(1, 100) g")
        .unwrap();
    let first = "\\set r random(1, 100)\n\\set z random_zipfian(1, 100, 1.3)\nBEGIN;\nSELECT a AS n FROM t WHERE a = :r \\gset\n\
                 UPDATE t SET b = b + :z WHERE a = :n;\nEND;";
    let second = "\\set r random_gaussian(1, 100, 2.5)\n\\set h hash(:r)\n\\set p permute(:r, 1000)\n\
                  SELECT :r, :h, :p, :client_id, :random_seed, :default_seed, :scale;\n";
    let pipeline =
        "\\set r random(1, 100)\n\\startpipeline\nBEGIN;\nSELECT :r;\nSELECT :r + 1;\nEND;\n\\endpipeline";
    let check = |protocol: Protocol, scripts: &[&str], n_clients: u32, default_seed: Option<&str>| {
        let files: Vec<String> =
            (0..scripts.len()).map(|i| cluster.file(&format!("s{i}"), scripts[i])).collect();
        let n = n_clients.to_string();
        let define = default_seed.map(|seed| format!("default_seed={seed}"));
        let mut args = vec!["-n", "-t", "20", "--random-seed=42", "-M", protocol.as_str(), "-c", &n];
        args.extend(files.iter().flat_map(|file| ["-f", file]));
        args.extend(define.iter().flat_map(|define| ["-D", define]));
        let mut genuine = statements(&cluster, "pgbench", || drop(cluster.pgbench(&args)));
        let mut conninfo = cluster.conninfo();
        conninfo.application_name = Some("ours".into());
        conninfo.options = Some("-c log_statement=all".into());
        let mut load = load(&conninfo, scripts, 20);
        (load.protocol, load.n_clients) = (protocol, n_clients);
        load.defines.extend(default_seed.map(|seed| ("default_seed".to_string(), seed.to_string())));
        load.scripts.iter_mut().zip(&files).for_each(|(script, file)| script.name.clone_from(file));
        let mut ours = statements(&cluster, "ours", || drop(drive(load)));
        assert!(genuine.len() > 20, "{genuine:?}");
        if n_clients > 1 {
            genuine.sort();
            ours.sort();
        }
        assert_eq!(ours, genuine, "{protocol:?} {n_clients} {default_seed:?}");
    };
    for protocol in ALL {
        let scripts = [first, second, pipeline];
        let scripts = if protocol == Protocol::Simple { &scripts[..2] } else { &scripts };
        check(protocol, scripts, 1, None);
        check(protocol, scripts, 1, Some("-5"));
        // Several clients only with a single script: the order of their turns decides who gets which of several.
        check(protocol, &[second], 3, None);
    }
}

/// What the session with this name sent while `run` ran: statements and their parameters, without the names of prepared
/// statements.
fn statements(cluster: &Cluster, application: &str, run: impl FnOnce()) -> Vec<String> {
    let before = cluster.log().len();
    run();
    let log = cluster.log();
    let mut statements = Vec::new();
    for line in log[before..].lines() {
        if line.starts_with('\t') {
            continue;
        }
        let is_ours = line.starts_with(&format!("{application}|"));
        let Some((_, text)) =
            line.rsplit_once("|LOG:  ").or(line.rsplit_once("|DETAIL:  ")).filter(|_| is_ours)
        else {
            continue;
        };
        if text.starts_with("statement: ") || text.starts_with("execute ") || text.starts_with("parameters: ")
        {
            let text = text.strip_prefix("execute ").map_or(text, |rest| rest.split_once(": ").unwrap().1);
            statements.push(text.to_string());
        }
    }
    statements
}

#[test]
fn scripts_copy_where_they_may() {
    let cluster = Cluster::shared();
    let mut session = cluster.session();
    session.execute("drop table if exists copied; create table copied (client int, n int)").unwrap();
    let source = "\\set n random(1, 100)\nCOPY copied FROM STDIN;\n\\copydata\n:client_id\t:n\n\
                  :client_id\t7\n\\.\nCOPY copied TO STDOUT;\nSELECT count(*) FROM copied;\n";
    for (i, &protocol) in ALL.iter().enumerate() {
        let mut load = load(&cluster.conninfo(), &[source], 5);
        (load.protocol, load.n_clients, load.copy) = (protocol, 3, true);
        let driven = drive(load.clone());
        assert_eq!(driven.done.counts.committed, 15, "{protocol:?} {:?}", driven.done.messages);
        assert_eq!(driven.statements(), [15; 3]);
        let counts = "select count(*) || ' of ' || count(distinct client) || ', ' || min(n) from copied where n = 7 \
                      or n between 1 and 100";
        let found = session.query(counts).unwrap().scalar().map(str::to_string).unwrap();
        assert!(found.starts_with(&format!("{} of 3, ", 30 * (i + 1))), "{found}");
        load.copy = false;
        assert_eq!(
            drive(load).texts(EventKind::ClientAborted),
            ["COPY is not supported in pgbench, aborting"; 3]
        );
    }
}

#[test]
fn a_copy_that_fails_is_a_statement_that_fails() {
    let cluster = Cluster::shared();
    cluster.session().execute("create table if not exists narrow (n int)").unwrap();
    for protocol in ALL {
        let check = |source: &str, wanted: &str| {
            let mut load = load(&cluster.conninfo(), &[source, "SELECT 1;"], 4);
            (load.protocol, load.copy, load.on_error) = (protocol, true, OnError::Continue);
            let driven = drive(load);
            let counts = &driven.done.counts;
            assert_eq!((counts.committed + counts.failed, driven.done.clients_lost), (4, 0));
            assert!(counts.failed > 0, "{counts:?}");
            let messages: Vec<&String> = driven.done.messages.values().collect();
            assert!(messages.iter().any(|message| message.contains(wanted)), "{messages:?}");
        };
        check("COPY narrow FROM STDIN;", "no \\copydata follows the statement");
        check("COPY narrow FROM STDIN;\n\\copydata\n1\nx\n\\.\n", "invalid input syntax for type integer");
        // More than a socket takes at once, with an error at its beginning.
        let rows = "123456789\n".repeat(500_000);
        check(&format!("COPY narrow FROM STDIN;\n\\copydata\nx\n{rows}\\.\n"), "invalid input syntax");
    }
}
