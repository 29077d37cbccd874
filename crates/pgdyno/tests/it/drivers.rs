//! Drivers behind commands that lead a pipe to them: several share a load, and bad ones end the run with their name.
//!
//! The machine elsewhere is this one. A driver that sees another boot id takes its clock for another one.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use model::experiment::plan::RunState;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use testbed::{ClusterOptions, Pg, Sshd, TestServer};

use crate::tool::{Ended, PACE, Place, Running, tell, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_pgdyno");
const RUN: &str = "-c 4 --scale 1 --ramp-up 0s --repeats 1 --set prepare.settle=false \
                   --set run.repeat_disturbed=0 -o out";

/// An experiment file's `[[driver]]`.
fn driver(name: &str, via: &[&str], program: &str) -> String {
    format!("[[driver]]\nname = \"{name}\"\nvia = {via:?}\nprogram = \"{program}\"\n")
}

/// Starts a run with these drivers against a server by URL.
fn start(place: &Place, server: &str, drivers: &[String], more: &[&str]) -> Running {
    let text = format!("[experiment]\nname = \"drivers\"\n{}", drivers.concat());
    let file = place.write("drivers.toml", &text).display().to_string();
    let fixed = ["run", file.as_str()].into_iter().chain(RUN.split_whitespace()).chain(["--server", server]);
    let mut command = place.command(&fixed.chain(more.iter().copied()).collect::<Vec<_>>());
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", place.path("bin").display()));
    place.start(command)
}

fn run(place: &Place, server: &str, drivers: &[String]) -> Ended {
    start(place, server, drivers, &["--measure", "3s", PACE]).wait()
}

/// A shell that its death signal does not reach, as one on another machine.
const FAR: [&str; 4] = ["setsid", "--wait", "sh", "-c"];

#[test]
fn drivers_share_a_load_and_stay_visible() {
    let (pg, place) = (Pg::shared(), Place::new());
    // What login scripts print comes before the hello.
    let login = "echo Welcome; echo '{\"hello\":1}'; shift; eval \"$1\"\n";
    let login = place.write("login.sh", login).display().to_string();
    // A stand-in for kubectl, which finds one pod.
    let pod = r#"{"items":[{"metadata":{"name":"b"},"status":{"phase":"Running","containerStatuses":[{"ready":true}]}}]}"#;
    let kubectl = format!("#!/bin/sh\ncase $1 in get) echo '{pod}'; exit ;; esac\nshift 4; exec \"$@\"\n");
    std::fs::create_dir(place.path("bin")).unwrap();
    let kubectl = place.write("bin/kubectl", &kubectl);
    std::fs::set_permissions(kubectl, PermissionsExt::from_mode(0o755)).unwrap();
    let pods = format!("[[driver]]\nkubernetes = {{selector = \"app=d\"}}\nprogram = \"{PROGRAM}\"\n");
    let drivers = [driver("a", &["sh", &login, "-c"], PROGRAM), pods];
    let database = pg.database();
    run(&place, &pg.admin_target(&database), &drivers).expect(0);
    let run = place.first_run("out");
    let record = &run.record;
    assert_eq!(record.state, RunState::Completed, "{}", record.reason);
    let names: Vec<&str> = record.drivers.iter().map(|driver| driver.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let done = record.done.as_ref().unwrap();
    let of_each = record.drivers.iter().map(|driver| driver.counts.committed);
    assert!(of_each.clone().all(|n| n > 0));
    assert_eq!(of_each.sum::<u64>(), done.counts.committed);
    assert_eq!(done.measured_by_client.len(), 4);
    assert!(done.measured_by_client.iter().all(|&n| n > 0), "{:?}", done.measured_by_client);
    crate::tool::expect_sound(&run);
    assert!(record.drivers.iter().all(|driver| driver.is_here && driver.clock_before.is_none()));
    place.expect_clean();
}

#[test]
fn a_driver_with_another_clock_is_compared_before_and_after() {
    if !geteuid().is_root() {
        return tell("skipped: only root can give a process another boot id");
    }
    let (pg, place) = (Pg::shared(), Place::new());
    let boot_id = place.write("boot_id", "another\n");
    let login =
        format!("mount --bind {} /proc/sys/kernel/random/boot_id; shift; eval \"$1\"\n", boot_id.display());
    let login = place.write("login.sh", &login).display().to_string();
    let far = driver("far", &["unshare", "--mount", "sh", &login, "-c"], PROGRAM);
    let refused = run(&place, &pg.admin_target(&pg.database()), std::slice::from_ref(&far)).expect(1);
    assert!(
        refused.stderr.contains("driver `far` is on another machine and cannot reach"),
        "{}",
        refused.stderr
    );
    assert!(!refused.stderr.contains("loading scale"), "{}", refused.stderr);
    let server = TestServer::start(&ClusterOptions { has_tcp: true, ..ClusterOptions::default() });
    let target = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", server.port);
    let cut_off = ["unshare", "--net", "--mount", "sh", &login, "-c"];
    for upload in [false, true] {
        let cut_off = format!("{}upload = {upload}\n", driver("cut", &cut_off, PROGRAM));
        let refused = run(&place, &target, &[far.clone(), cut_off]).expect(1);
        let is_tried = refused.stderr.contains("tried before anything is loaded: driver `cut`");
        assert!(is_tried && !refused.stderr.contains("loading scale"), "{}", refused.stderr);
        assert!(!place.path("out").exists());
    }
    run(&place, &target, &[far]).expect(0);
    let record = place.first_run("out").record;
    let driver = &record.drivers[0];
    assert!(!driver.is_here && driver.hello.boot_id == "another");
    let (before, after) = (driver.clock_before.unwrap(), driver.clock_after.unwrap());
    // It is the same clock in truth.
    for clock in [before, after] {
        assert!(clock.n_pings > 10, "{clock:?}");
        assert!(clock.offset_ns.unsigned_abs() <= clock.bound_ns + 100_000, "{clock:?}");
        assert!(clock.bound_ns < 20_000_000, "{clock:?}");
    }
    place.expect_clean();
}

#[test]
fn drivers_that_cannot_begin_are_named_with_what_to_do() {
    let (pg, place) = (Pg::shared(), Place::new());
    let server = pg.admin_target(&pg.database());
    let other = place.another_build();
    for (bad, expected) in [
        (driver("bad", &["sh", "-c"], &other), "driver `bad` is another build of pgdyno"),
        (driver("bad", &["sh", "-c"], "/nonexistent/pgdyno"), "is pgdyno at `/nonexistent/pgdyno` there"),
        (driver("bad", &["sh", "-c"], "/bin/true"), "ended (exit status: 0) before pgdyno answered"),
        (driver("bad", &["/nonexistent/ssh"], PROGRAM), "cannot start `/nonexistent/ssh` for driver `bad`"),
        (driver("bad", &["sh", "-c"], "/bin/sh; rm"), "may contain letters, digits and `_./+-` only"),
        (driver("a", &["sh", "-c"], PROGRAM), "two drivers have the name `a`"),
    ] {
        let ended = run(&place, &server, &[driver("a", &["sh", "-c"], PROGRAM), bad]);
        assert_ne!(ended.code(), Some(0));
        assert!(ended.stderr.contains(expected) || ended.stdout.contains(expected), "{expected}: {ended:?}");
        assert!(!ended.stderr.contains("loading scale"), "before data is loaded: {ended:?}");
        std::fs::remove_dir_all(place.path("out")).ok();
    }
    place.expect_clean();
}

#[test]
fn a_driver_that_is_killed_voids_the_run_and_the_others_end() {
    let (pg, place) = (Pg::shared(), Place::new());
    let drivers = [driver("a", &FAR, PROGRAM), driver("b", &FAR, PROGRAM)];
    let server = pg.admin_target(&pg.database());
    let running = start(&place, &server, &drivers, &["--measure", "30s", PACE]);
    place.wait_for_load("out", 1);
    let victim = place.pids_of("drive")[0];
    kill(Pid::from_raw(victim), Signal::SIGKILL).unwrap();
    running.wait();
    let record = place.first_run("out").record;
    assert_eq!(record.state, RunState::Failed, "{}", record.reason);
    assert!(
        record.reason.contains("driver `a`") || record.reason.contains("driver `b`"),
        "{}",
        record.reason
    );
    wait_until("the end of the other driver", || place.pids_of("drive").is_empty());
    place.expect_clean();
}

#[test]
fn a_driver_that_is_slower_than_the_other_is_found() {
    let (pg, place) = (Pg::shared(), Place::new());
    let drivers = [driver("a", &["sh", "-c"], PROGRAM), driver("b", &["sh", "-c"], PROGRAM)];
    let server = pg.admin_target(&pg.database());
    // Nobody waits for the other one's locks.
    let running = start(&place, &server, &drivers, &["--measure", "4s", "-w", "tpcb-select"]);
    place.wait_for_load("out", 1);
    let slow = Pid::from_raw(*place.pids_of("drive").last().unwrap());
    // Until it has ended. It runs for a moment between two standstills: on a busy machine that moment becomes longer, and a driver that
    // stands still for half of the time catches up, because the other one leaves it the processors then.
    while kill(slow, Signal::SIGSTOP).is_ok() {
        std::thread::sleep(Duration::from_millis(50));
        kill(slow, Signal::SIGCONT).ok();
        std::thread::sleep(Duration::from_millis(2));
    }
    running.wait().expect(0);
    let study = analysis::study(&place.results("out"));
    let found = study.runs[0].findings.iter().find(|finding| finding.id == "drivers-differ");
    let evidence = &found.expect("the slow driver is found").evidence;
    assert!(
        evidence.contains("ms on driver `b` and") || evidence.contains("ms on driver `a` and"),
        "{evidence}"
    );
    place.expect_clean();
}

#[test]
fn drivers_end_when_nobody_is_there_to_hear_them_and_cancel_what_they_asked_for() {
    let (pg, place) = (Pg::shared(), Place::new());
    let server = pg.admin_target(&pg.database());
    let script = place.write("slow.sql", "select pg_sleep(100) /* of a driver */;\n").display().to_string();
    for signal in [Signal::SIGKILL, Signal::SIGSTOP] {
        std::fs::remove_dir_all(place.path("out")).ok();
        let more = ["--measure", "30s", "-w", "scripts", "-f", &script];
        let running = start(&place, &server, &[driver("far", &FAR, PROGRAM)], &more);
        let asked = || {
            let sql = "select count(*) from pg_stat_activity where query like '%of a driver%' \
                       and state = 'active' and pid <> pg_backend_pid()";
            pg.ask("postgres", sql)
        };
        wait_until("the load", || asked() == "4");
        running.signal(signal);
        let begun = Instant::now();
        wait_until("the end of the driver", || place.pids_of("drive").is_empty());
        assert!(begun.elapsed() < Duration::from_secs(12), "{:?} after {signal}", begun.elapsed());
        wait_until("the end of its statements", || asked() == "0");
        running.signal(Signal::SIGKILL);
        running.wait();
    }
    place.run(&["clean"]).expect(0);
}

#[test]
fn a_copy_that_ssh_brought_drives_and_ends_with_ssh() {
    let Some(sshd) = Sshd::start("") else { return tell("skipped: no sshd (Debian: openssh-server)") };
    let (pg, place) = (Pg::shared(), Place::new());
    let via: Vec<String> = sshd.via();
    let via: Vec<&str> = via.iter().map(String::as_str).collect();
    let far = driver("far", &via, "/nonexistent/pgdyno") + "upload = true\n";
    let server = pg.admin_target(&pg.database());
    let running = start(&place, &server, &[far], &["--measure", "30s", PACE]);
    place.wait_for_load("out", 1);
    let copies = sshd.cache().join("pgdyno/drivers").display().to_string();
    assert_eq!(with(&copies).len(), 1, "the copy runs");
    let ours = testbed::children_of(running.pid());
    let ssh: Vec<i32> = with("ssh\0").into_iter().filter(|pid| ours.contains(pid)).collect();
    assert_eq!(ssh.len(), 1);
    kill(Pid::from_raw(ssh[0]), Signal::SIGKILL).unwrap();
    running.wait();
    let record = place.first_run("out").record;
    assert_eq!(record.state, RunState::Failed, "{}", record.reason);
    assert!(record.reason.contains("driver `far` was killed"), "{}", record.reason);
    let begun = Instant::now();
    wait_until("the end of the copy", || with(&copies).is_empty());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    place.expect_clean();
}

/// Processes whose command line begins like this.
fn with(start: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let words = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    pids.filter(|pid| words(pid).starts_with(start)).collect()
}

/// A network namespace with a cable to this one, which goes with it.
pub(crate) struct Namespace {
    pub(crate) name: String,
    /// The address of this end of the cable, and of that of the namespace.
    pub(crate) addresses: [String; 2],
}

impl Namespace {
    /// A namespace whose cable is the network 10.231.`number`.0/30.
    pub(crate) fn make(number: u8) -> Namespace {
        let namespace = Namespace {
            name: format!("pgd{}n{number}", std::process::id()),
            addresses: [1, 2].map(|end| format!("10.231.{number}.{end}")),
        };
        let [here, there] = &namespace.addresses;
        let name = &namespace.name;
        for line in [
            format!("ip netns add {name}"),
            format!("ip link add {name} type veth peer name eth0 netns {name}"),
            format!("ip address add {here}/30 dev {name}"),
            format!("ip link set {name} up"),
            format!("ip -n {name} address add {there}/30 dev eth0"),
            format!("ip -n {name} link set eth0 up"),
        ] {
            run_line(&line);
        }
        namespace
    }

    /// From now on, each packet is dropped at both ends: none fits the bucket.
    fn fall_silent(&self) {
        let name = &self.name;
        let drops = "root tbf rate 8bit burst 1 limit 1";
        run_line(&format!("tc -n {name} qdisc add dev eth0 {drops}"));
        run_line(&format!("tc qdisc add dev {name} {drops}"));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let name = &self.name;
        for line in [format!("ip link del {name}"), format!("ip netns del {name}")] {
            let mut words = line.split(' ');
            std::process::Command::new(words.next().unwrap()).args(words).status().ok();
        }
    }
}

fn run_line(line: &str) {
    let mut words = line.split(' ');
    testbed::run(std::process::Command::new(words.next().unwrap()).args(words));
}

#[test]
#[ignore = "takes 24 s, and makes a network namespace"]
fn a_network_that_drops_all_packets_ends_the_run_here_and_the_driver_there() {
    if !geteuid().is_root() {
        return tell("skipped: only root can make a network namespace");
    }
    let namespace = Namespace::make(77);
    let [here, _] = &namespace.addresses;
    let Some(sshd) = Sshd::start(&format!("ListenAddress {here}")) else {
        return tell("skipped: no sshd (Debian: openssh-server)");
    };
    let (pg, place) = (Pg::shared(), Place::new());
    let mut via = ["ip", "netns", "exec", &namespace.name].map(str::to_string).to_vec();
    via.extend(sshd.via().iter().map(|word| word.replace("@127.0.0.1", &format!("@{here}"))));
    let at = via.iter().position(|word| word == "--").unwrap();
    via.insert(at, format!("-oHostKeyAlias=[127.0.0.1]:{}", sshd.port));
    let via: Vec<&str> = via.iter().map(String::as_str).collect();
    let far = driver("far", &via, "/nonexistent/pgdyno") + "upload = true\n";
    let database = pg.database();
    let running = start(&place, &pg.admin_target(&database), &[far], &["--measure", "60s"]);
    place.wait_for_load("out", 1);
    let copies = sshd.cache().join("pgdyno/drivers").display().to_string();
    assert_eq!(with(&copies).len(), 1, "the copy runs");
    namespace.fall_silent();
    let begun = Instant::now();
    wait_until("the end of the copy", || with(&copies).is_empty());
    running.wait();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let left = format!(
        "select count(*) from pg_stat_activity where datname = '{database}' and pid <> pg_backend_pid()"
    );
    wait_until("the end of its sessions", || pg.ask("postgres", &left) == "0");
    let record = place.first_run("out").record;
    assert_eq!(record.state, RunState::Failed, "{}", record.reason);
    assert!(record.reason.contains("driver `far` has been silent for"), "{}", record.reason);
    place.expect_clean();
}

/// Names of files below `dir` that contain `text`.
pub(crate) fn files_with(dir: &Path, text: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let (kind, path) = (entry.file_type().unwrap(), entry.path());
        if kind.is_dir() {
            files_with(&path, text, found);
        } else if kind.is_file()
            && String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).contains(text)
        {
            found.push(path.display().to_string());
        }
    }
}

#[test]
fn a_server_of_our_own_listens_for_its_drivers_and_its_password_is_nowhere() {
    let place = Place::new();
    // What the driver is sent is kept: its order, with the password.
    let sent = place.path("sent");
    let login = format!("shift; tee {} | sh -c \"$1\"\n", sent.display());
    let login = place.write("login.sh", &login).display().to_string();
    let text = format!(
        "[experiment]\nname = \"own\"\n[server]\nbin_dir = \"{}\"\nlisten = \"127.0.0.1\"\ntls = \"on\"\n\
         settings.log_statement = \"all\"\n[workload]\nclients = 4\n{}{}",
        testbed::bin_dir().display(),
        driver("a", &["sh", &login, "-c"], PROGRAM),
        driver("b", &FAR, PROGRAM)
    );
    let file = place.write("own.toml", &text).display().to_string();
    let planned = place.run(&["plan", &file]).expect(0).stdout;
    assert!(planned.contains("listens a free port of 127.0.0.1"), "{planned}");
    assert!(planned.contains("from the addresses of a, b") && planned.contains("with TLS;"), "{planned}");
    let args: Vec<&str> = ["run", &file].into_iter().chain(RUN.split_whitespace()).collect();
    let running = place.start(place.command(&[&args[..], &["--measure", "2s"]].concat()));
    place.wait_for_load("out", 1);
    let order = std::fs::read_to_string(&sent).unwrap();
    let order: serde_json::Value = serde_json::from_str(order.lines().nth(1).unwrap()).unwrap();
    let password = order["password"].as_str().unwrap();
    assert_eq!(password.len(), 36);
    for pid in place.processes() {
        for file in ["cmdline", "environ"] {
            let words = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&words).contains(password), "{file} of {pid}");
        }
    }
    running.wait().expect(0);
    let run = place.first_run("out");
    crate::tool::expect_sound(&run);
    let record = &run.record;
    let [from] = &record.connections[..] else { panic!("{:?}", record.connections) };
    assert_eq!((from.client_address.as_str(), from.n_connections), ("127.0.0.1", 4));
    assert!(from.tls.as_ref().unwrap().starts_with("TLSv1.3 "), "{from:?}");
    assert_eq!(record.server.as_ref().unwrap().route.as_ref().unwrap().words(), "TCP");
    let target = &record.load.as_ref().unwrap().target;
    assert_eq!((target["user"].as_str(), target["sslmode"].as_str()), ("pgdyno_load", "verify-full"));
    std::fs::remove_file(&sent).unwrap();
    let mut found = Vec::new();
    files_with(&place.path("."), password, &mut found);
    assert_eq!(found, [""; 0], "of results, logs, data directory and cache");
    place.expect_clean();
}

#[test]
fn a_server_listens_at_private_addresses_alone_and_has_tls_only_there() {
    let place = Place::new();
    for (set, expected) in [
        ("server.listen=8.8.8.8", "server.listen: `8.8.8.8` is a public address"),
        ("server.listen=0.0.0.0", "`0.0.0.0` stands for all interfaces"),
        ("server.listen=10.255.255.254", "neither an address nor an interface of this machine"),
        ("server.tls=on", "server.tls needs server.listen"),
        ("server.settings.ssl=on", "server.tls decides"),
    ] {
        let bin_dir = testbed::bin_dir().display().to_string();
        let ended = place.run(&["plan", "--bin-dir", &bin_dir, "--scale", "1", "--set", set]);
        assert_ne!(ended.code(), Some(0), "{set}");
        assert!(ended.stdout.contains(expected) || ended.stderr.contains(expected), "{set}: {ended:?}");
    }
    if geteuid().is_root() {
        // A driver in a network of its own does not reach this machine, which is found out without a server.
        let cut = driver("cut", &["unshare", "--net", "sh", "-c"], PROGRAM);
        let file = format!(
            "[experiment]\nname = \"cut\"\n[server]\nlisten = \"127.0.0.1\"\nbin_dir = {:?}\n{cut}",
            testbed::bin_dir()
        );
        let file = place.write("cut.toml", &file).display().to_string();
        let ended = place.run(&["plan", &file, "--scale", "1"]).expect(1);
        assert!(ended.stdout.contains("problem driver `cut` has no route to 127.0.0.1,"), "{ended:?}");
    }
}
