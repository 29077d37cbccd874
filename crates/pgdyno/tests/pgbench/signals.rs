//! Signals: pgbench dies of one without results, so that shells and parsers know that there are none.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigHandler, Signal, kill};
use nix::unistd::Pid;

use crate::cluster::{Cluster, Who, database};

/// Longer than any of these loads runs before its signal.
const LOAD: &str = "-S -n -T 60 -P 1";

/// Signals that end pgbench.
const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// A load that is signalled once it makes progress: the signal that it died of, its output and its messages.
fn signalled(cluster: &Cluster, who: Who, arguments: &str, signal: Signal) -> (Option<i32>, String, String) {
    let (out, err) = (cluster.dir().join("out"), cluster.dir().join("err"));
    let mut command = cluster.command(who, arguments);
    let file = |path| Stdio::from(File::create(path).expect("a new file"));
    command.stdin(Stdio::null()).stdout(file(&out)).stderr(file(&err));
    // Whoever runs the tests may ignore signals (nohup), which children inherit.
    let defaults = || {
        for signal in SIGNALS {
            // SAFETY: the default action runs no code of this program.
            unsafe { nix::sys::signal::signal(signal, SigHandler::SigDfl) }?;
        }
        Ok(())
    };
    // SAFETY: only sigaction is called between fork and exec.
    unsafe { command.pre_exec(defaults) };
    let mut child = command.spawn().expect("both programs start");
    let began = Instant::now();
    while !read(&err).contains("progress: ") {
        assert!(began.elapsed() < Duration::from_secs(30), "{}", read(&err));
        std::thread::sleep(Duration::from_millis(50));
    }
    kill(Pid::from_raw(child.id() as i32), signal).expect("the child lives");
    let status = child.wait().expect("a child");
    (status.signal(), read(&out), read(&err))
}

fn read(path: &std::path::Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

pub(crate) fn signals_kill(cluster: &Cluster) {
    for signal in SIGNALS {
        for who in [Who::Genuine, Who::Ours] {
            let (died_of, stdout, stderr) = signalled(cluster, who, LOAD, signal);
            assert_eq!(died_of, Some(signal as i32), "{who:?}: {stderr}");
            assert!(!stdout.contains("tps"), "{who:?}: {stdout}");
            if who == Who::Ours {
                assert!(
                    stderr.contains("Run was interrupted; the results below are incomplete."),
                    "{stderr}"
                );
                assert!(stderr.contains("tps = "), "{stderr}");
            }
        }
    }
    // Whatever its clients wait for.
    for (name, script) in [("wait.sql", "SELECT pg_sleep(60);\n"), ("sleep.sql", "\\sleep 60 s\n")] {
        let file = cluster.dir().join(name);
        std::fs::write(&file, script).expect("a new file");
        let arguments = format!("-n -T 60 -P 1 -c 2 -f {}", file.display());
        let began = Instant::now();
        let (died_of, _, stderr) = signalled(cluster, Who::Ours, &arguments, Signal::SIGTERM);
        assert_eq!(died_of, Some(Signal::SIGTERM as i32), "{name}: {stderr}");
        assert!(began.elapsed() < Duration::from_secs(30), "{name}: {:?}", began.elapsed());
    }
    let (_, stdout, stderr) = signalled(cluster, Who::Ours, &format!("{LOAD} --json=-"), Signal::SIGTERM);
    assert_eq!(stdout, "");
    assert!(stderr.contains("\"is_complete\":false"), "{stderr}");
}

/// The loop of a shell script continues after a program that handled SIGINT, and ends with one that died of it.
pub(crate) fn ctrl_c_ends_the_loop_of_a_shell(cluster: &Cluster) {
    for who in [Who::Genuine, Who::Ours] {
        let program = cluster.command(who, LOAD);
        let (path, err) = (program.get_program().to_string_lossy(), cluster.dir().join("err"));
        let script = format!("for i in 1 2; do '{path}' {LOAD} 2>'{}'; done; echo went on", err.display());
        // `timeout` sends Ctrl-C's signal to its whole process group, as a terminal does.
        let mut command = Command::new("timeout");
        command.args(["-s", "INT", "3", "bash", "-c", &script]);
        cluster.surround(&mut command);
        command.env("PGDATABASE", database(who));
        let said = cluster.finish(command);
        assert_eq!(said.code, Some(124), "{who:?}: {said:?}");
        assert!(!said.stdout.contains("went on"), "{who:?}: {said:?}");
        assert!(!said.stdout.contains("tps"), "{who:?}: {said:?}");
    }
}
