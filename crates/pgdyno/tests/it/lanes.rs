//! Targets of two hosts that are measured side by side.
//!
//! The other host is this machine in disguise: a server in namespaces of its own for network and processes, and a driver that
//! sees another boot id.

use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};
use testbed::{ClusterOptions, Pg, TestServer, bin_dir, children_of};
use wire::{Conninfo, Session};

use crate::drivers::Namespace;
use crate::tool::{Place, tell, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_pgdyno");
/// Long enough that two lanes overlap on a busy machine, too.
const RUN: &str = "--yes --pace=100/s --measure 5s --ramp-up 0s --repeats 1 -c 2 --scale 1 --set prepare.settle=false -o out";

/// A server whose address and process ids are not of this machine, as far as anybody can tell.
struct Elsewhere {
    /// Has its data.
    _server: TestServer,
    namespace: Namespace,
    process: Child,
}

impl Elsewhere {
    fn start() -> Elsewhere {
        let namespace = Namespace::make(78);
        let options = ClusterOptions {
            hba: Some("local all all trust\nhost all all 10.231.78.0/30 trust\n"),
            ..ClusterOptions::default()
        };
        let server = TestServer::start(&options);
        server.stop(Signal::SIGINT);
        let user = User::from_name("postgres").unwrap().unwrap();
        let (user, group) = (format!("--reuid={}", user.uid), format!("--regid={}", user.gid));
        let [_, there] = &namespace.addresses;
        let (data, address) = (server.path("data"), format!("listen_addresses={there}"));
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &namespace.name, "unshare", "--pid", "--fork", "--mount-proc", "setpriv"])
            .args([&user, &group, "--clear-groups", "--pdeathsig=QUIT"])
            .arg(bin_dir().join("postgres"))
            .args(["-c", &address, "-c", "unix_socket_directories=", "-c", "fsync=off", "-D"])
            .arg(data)
            .current_dir("/")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command.spawn().unwrap();
        let elsewhere = Elsewhere { _server: server, namespace, process };
        wait_until("the server in the namespaces", || elsewhere.session().is_some());
        elsewhere
    }

    fn session(&self) -> Option<Session> {
        Session::connect(&Conninfo::resolve(&self.url("postgres")).unwrap()).ok()
    }

    fn url(&self, database: &str) -> String {
        format!("host={} user=postgres dbname={database}", self.namespace.addresses[1])
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        // In order: a server that is killed leaves its shared memory behind. `unshare` ends with it.
        for pid in children_of(self.process.id() as i32) {
            kill(Pid::from_raw(pid), Signal::SIGQUIT).ok();
        }
        self.process.wait().ok();
    }
}

#[test]
fn targets_of_two_hosts_are_measured_at_the_same_time_and_each_run_says_so() {
    if !geteuid().is_root() || User::from_name("postgres").unwrap().is_none() {
        return tell("skipped: only root can make namespaces, for a server of the user `postgres`");
    }
    if !Command::new("ip").args(["netns", "list"]).output().is_ok_and(|output| output.status.success()) {
        return tell("skipped: no `ip netns` (Debian: iproute2)");
    }
    let (pg, elsewhere, place) = (Pg::shared(), Elsewhere::start(), Place::new());
    let boot_id = place.write("boot_id", "another\n");
    let login =
        format!("mount --bind {} /proc/sys/kernel/random/boot_id; shift; eval \"$1\"\n", boot_id.display());
    let login = place.write("login.sh", &login).display().to_string();
    let file = |driver: &str| {
        let text = format!(
            "[experiment]\nname = \"lanes\"\n[run]\nparallel_targets = true\n\
             [[target]]\nname = \"here\"\nurl = \"{}\"\n[[target]]\nname = \"there\"\nurl = \"{}\"\n{driver}",
            pg.admin_target(&pg.database()),
            elsewhere.url("postgres")
        );
        place.write("lanes.toml", &text).display().to_string()
    };
    let command = |verb: &str, file: &str| {
        let all = [verb, file].into_iter().chain(RUN.split_whitespace()).collect::<Vec<_>>();
        place.run(&all)
    };
    let driver =
        |via: &[&str]| format!("[[target.driver]]\nname = \"far\"\nvia = {via:?}\nprogram = \"{PROGRAM}\"\n");
    let refused = command("run", &file(&driver(&["sh", "-c"]))).expect(1);
    let expected = "the server of `here` and driver `far` of target `there` are on one machine";
    assert!(refused.stderr.contains(expected) && !place.path("out").exists(), "{}", refused.stderr);

    let ended = command("run", &file(&driver(&["unshare", "--mount", "sh", &login, "-c"]))).expect(0);
    assert!(ended.stderr.contains("here: run ") && ended.stderr.contains("there: run "), "{}", ended.stderr);
    let data = place.results("out");
    let records: Vec<_> = data.runs.iter().map(|run| &run.record).collect();
    let [one, other] = &records[..] else { panic!("{} runs", records.len()) };
    assert_eq!(data.plan.lanes.iter().map(|lane| lane.addresses.len()).collect::<Vec<_>>(), [0, 1]);
    for (record, next_to_it) in [(one, other), (other, one)] {
        let target = &next_to_it.case.server.target.as_ref().unwrap().name;
        let found: Vec<_> = record.concurrent.iter().map(|run| (run.run, &run.target)).collect();
        assert_eq!(found, [(next_to_it.spec.run, target)]);
    }
    // From the first phase of one to the last of the other.
    let begun = |record: &model::run::RunRecord| record.phases[0].start_unix_ns;
    let drained = |record: &model::run::RunRecord| record.phases.last().unwrap().end_unix_ns;
    assert!(begun(one) < drained(other) && begun(other) < drained(one));
    let study = analysis::study(&data);
    for run in &study.runs {
        assert!(run.findings.iter().any(|finding| finding.id == "side-by-side"), "{:?}", run.findings);
    }
    place.expect_clean();
}
