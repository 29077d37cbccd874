//! Pods behind a stand-in for kubectl: a script that lists the pods of a file, and runs what follows `--` in the place of a
//! pod. Its streams end early with status 0, or stand open and silent, as kubectl's do when a connection or a pod is lost.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use model::experiment::driver::DriverSpec;
use model::experiment::driver::inventory::PodsSection;

use super::stand_in;
use crate::pods::pods_by;
use crate::remote_command::run_there;

/// A pod of kubectl's list.
fn pod(name: &str, index: &str, phase: &str, is_ready: bool, more: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","labels":{{"app":"d","batch.kubernetes.io/job-completion-index":"{index}"}}{more}}},"status":{{"phase":"{phase}","containerStatuses":[{{"name":"c","ready":{is_ready}}}]}}}}"#
    )
}

/// A kubectl that lists these pods, and handles the streams of `exec` as `stream` says.
fn kubectl(dir: &Path, pods: &[String], stream: &str) -> String {
    let list = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#, pods.join(","));
    std::fs::write(dir.join("pods.json"), list).unwrap();
    let script = format!(
        "#!/bin/sh\necho \"$*\" >>{0}/asked\ncase \"$*\" in *get*pods*) exec cat {0}/pods.json ;; esac\n\
         while [ \"$1\" != -- ]; do shift; done; shift\n{stream}\n",
        dir.display()
    );
    stand_in::write(dir, "kubectl", &script).display().to_string()
}

fn found(kubectl: &str) -> anyhow::Result<Vec<DriverSpec>> {
    let section = PodsSection {
        selector: "app=d".to_string(),
        namespace: Some("bench".to_string()),
        ..PodsSection::default()
    };
    pods_by(kubectl, &section, &AtomicBool::new(false))
}

#[test]
fn pods_are_drivers_in_the_order_of_their_job_if_all_of_them_run() {
    let place = tempfile::tempdir().unwrap();
    let of = |name: &str, index: &str| pod(name, index, "Running", true, "");
    let all = [of("load-10-x", "10"), of("load-2-y", "2"), of("load-0-z", "0")];
    let drivers = found(&kubectl(place.path(), &all, "")).unwrap();
    let names: Vec<&str> = drivers.iter().map(|driver| driver.name.as_str()).collect();
    assert_eq!(names, ["load-0-z", "load-2-y", "load-10-x"]);
    assert_eq!(
        run_there(&drivers[0], "drive").join(" "),
        "kubectl --namespace=bench exec -i load-0-z -- pgdyno drive"
    );
    let asked = std::fs::read_to_string(place.path().join("asked")).unwrap();
    assert_eq!(asked, "--namespace=bench get pods --selector=app=d --output=json\n");
    for (bad, expected) in [
        (vec![], "kubectl finds no pods `app=d` in namespace `bench`"),
        (vec![of("a", "0"), pod("b", "1", "Pending", false, "")], "1 of 2 pods `app=d`"),
        (vec![pod("b", "1", "Pending", false, "")], "`b` is Pending"),
        (vec![pod("b", "1", "Running", false, "")], "`b` is running, but not ready"),
        (
            vec![pod("b", "1", "Running", true, r#","deletionTimestamp":"2026-01-01T00:00:00Z""#)],
            "being removed",
        ),
        (vec![pod("b", "1", "Failed", false, "")], "`b` is Failed"),
    ] {
        let error = found(&kubectl(place.path(), &bad, "")).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn what_kubectl_says_when_it_fails_is_passed_on() {
    let place = tempfile::tempdir().unwrap();
    let fails = "#!/bin/sh\necho 'error: pods is forbidden' >&2; exit 1\n";
    let fails = stand_in::write(place.path(), "kubectl", fails).display().to_string();
    let error = found(&fails).unwrap_err().to_string();
    assert!(error.contains("(exit status: 1): error: pods is forbidden"), "{error}");
    let error = found("/nonexistent/kubectl").unwrap_err().to_string();
    assert!(error.contains("cannot start `/nonexistent/kubectl`, which finds the pods"), "{error}");
    let odd = stand_in::write(place.path(), "odd", "#!/bin/sh\necho 'I0101 banner'\n").display().to_string();
    assert!(found(&odd).unwrap_err().to_string().contains("cannot parse the list of pods"));
}

#[test]
fn a_stream_that_ends_early_with_success_or_stands_open_is_a_lost_driver() {
    for (stream, expected) in [
        // Whatever the status of kubectl, the last line decides.
        ("timeout 1 \"$@\"; exit 0", "ended before the load did (exit status: 0)"),
        // The pod is gone, and nobody closes the stream.
        ("\"$@\" | { head -n 1; exec sleep 20; }", "nothing of driver `load-0` has arrived for 5 s"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let own = stand_in::program(place.path(), "pgdyno", "own");
        let kubectl = kubectl(place.path(), &[pod("load-0", "0", "Running", true, "")], stream);
        let mut specs = found(&kubectl).unwrap();
        specs[0].via[0] = kubectl;
        specs[0].program = own.display().to_string();
        let mut fleet = stand_in::greeted(&specs, &own).unwrap();
        let error = format!("{:#}", super::wait_ready(&mut fleet).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
}
