//! TPC-C from the command line: loading, running with its own keys, checking, and what is refused.

use testbed::Pg;

use crate::tool::Place;

const RUN: &str = "run -w tpcc -s 1 -c 2 --measure 3s --ramp-up 0s --repeats 1 --json --set prepare.restore=false \
                   --set prepare.prewarm=false --set prepare.analyze=false --set prepare.settle=false --set workload.calls=functions";

#[test]
fn tpcc_is_loaded_run_and_checked() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    let check = |code: i32| place.run(&["check", "-w", "tpcc", "--server", &server]).expect(code);
    assert!(check(1).stderr.contains("no TPC-C tables; load them with pgdyno init"));

    place.run(&["init", "-w", "tpcc", "-s", "1", "--server", &server]).expect(0);
    let fresh = check(0).stdout;
    assert!(fresh.contains("3.3.2.12") && fresh.contains("4.3.3.1-values"), "{fresh}");

    let mut run: Vec<&str> = RUN.split_whitespace().collect();
    run.extend(["--server", &server, "-o", "out"]);
    let study: serde_json::Value = serde_json::from_str(&place.run(&run).expect(0).stdout).unwrap();
    let tpcc = &study["cases"][0]["tpcc"];
    assert!(tpcc["nopm"].as_f64().unwrap() > 0.0, "{tpcc}");
    assert_eq!(tpcc["profiles"].as_array().unwrap().len(), 5);
    assert!(tpcc["unmet"].to_string().contains("terminals neither key nor think"), "{tpcc}");
    let found = study["runs"][0]["findings"].to_string();
    assert!(!found.contains("history-differs") && !found.contains("tpcc-inputs"), "{found}");
    let note = study["cases"][0]["findings"].to_string();
    assert!(note.contains("tpcc-like"), "{note}");

    let run = place.first_run("out");
    let (before, after) = (&run.record.rows_before, &run.record.rows_after);
    let script = |name: &str| {
        let load = run.record.load.as_ref().unwrap();
        load.scripts.iter().position(|script| script.name == name).unwrap() as u32
    };
    let committed = |name: &str| -> u64 {
        let of = run.intervals.iter().filter(|interval| interval.script == script(name));
        of.map(|interval| interval.counts.committed).sum()
    };
    assert_eq!(after["history"] - before["history"], committed("payment"));
    assert!(committed("new-order") >= after["orders"] - before["orders"]);
    let ran = check(0).stdout;
    assert!(!ran.contains("4.3.3.1"), "the population is changed: {ran}");

    pg.admin(&database).execute("delete from order_line where ol_o_id = 7 and ol_d_id = 7").unwrap();
    let damaged = check(1).stdout;
    assert!(damaged.contains("VIOLATED  3.3.2.6"), "{damaged}");
    for page in ["report.html", "report.md"] {
        let text = std::fs::read_to_string(place.path(&format!("out/{page}"))).unwrap();
        assert!(text.contains("TPC-C-like") && text.contains("NOPM"), "{page}");
    }

    // What clean says removes all that a load has made, routines too.
    let clean = || place.run(&["clean", "--server", &server]).expect(0).stderr;
    let said = clean();
    let (_, sql) = said.split_once("this removes them: ").unwrap_or_else(|| panic!("{said}"));
    assert!(sql.contains("DROP FUNCTION public.tpcc_"), "{said}");
    pg.admin(&database).execute(sql).unwrap();
    let left =
        "select count(*) from pg_proc p join pg_namespace n on n.oid = pronamespace where nspname = 'public'";
    assert_eq!(pg.admin(&database).query(left).unwrap().scalar(), Some("0"));
    let said = clean();
    assert!(!said.contains("stay"), "{said}");
    place.expect_clean();
}

#[test]
fn tables_of_others_and_keys_of_other_workloads_are_refused() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    pg.admin(&database).execute("create table customer (name text)").unwrap();
    let init = place.run(&["init", "-w", "tpcc", "-s", "1", "--server", &server]).expect(1);
    assert!(
        init.stderr.contains(
            "objects with the workload's names that pgdyno did not create, or that somebody changed: table `public.customer`"
        ),
        "{}",
        init.stderr
    );
    // Whoever pastes it keeps --server.
    assert!(init.stderr.contains("; add --no-restore to a run, which measures"), "{}", init.stderr);
    assert_eq!(pg.ask(&database, "select count(*) from customer"), "0", "it is still there");

    let refused = |args: &[&str], expected: &str| {
        let mut all = vec!["plan", "--server", &server];
        all.extend(args);
        let stderr = place.run(&all).expect(1).stderr;
        assert!(stderr.contains(expected), "{stderr}\nexpected: {expected}");
    };
    refused(
        &["--set", "workload.calls=functions"],
        "workload.calls is for workload.kind = \"tpcc\" or \"tproc-c\" alone",
    );
    refused(
        &["-w", "tproc-c", "--set", "workload.calls=statements"],
        "HammerDB calls functions or procedures",
    );
    refused(
        &["-w", "tpcc", "--set", "workload.calls=letters"],
        "is none of `statements`, `functions`, `procedures`",
    );
    refused(
        &["-w", "tpcc", "-s", "1", "--pace", "10/s", "--set", "workload.think=spec"],
        "terminals have their own pace",
    );
    refused(
        &["-w", "tpcc", "--set", "workload.isolation=chaos"],
        "is none of `read committed`, `repeatable read`, `serializable`",
    );
}
