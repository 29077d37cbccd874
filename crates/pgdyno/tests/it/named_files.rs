//! Files that the user names: pipes are read, no wait for them outlasts a signal, and nothing is read without end.

use std::path::Path;

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use testbed::{PASSWORD, Pg};

use crate::tool::{PACE, Place, wait_until};

const WITH_DATA: &str = "\
[experiment]
name = \"x\"
[workload]
kind = \"scripts\"
scripts = [\"builtin:select-only\"]
data = {files = [\"pipe\"]}
";

#[test]
fn the_wait_for_a_pipe_without_a_writer_ends_with_a_signal() {
    let place = Place::new();
    nix::unistd::mkfifo(&place.path("pipe"), Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink(place.path("pipe"), place.path("pipe.toml")).unwrap();
    place.write("data.toml", WITH_DATA);
    for line in ["run -w scripts -f pipe", "run pipe.toml", "run data.toml", "plan data.toml"] {
        let words: Vec<&str> = line.split(' ').collect();
        let running = place.start(place.command(&words));
        wait_until("signals to be handled", || running.handles(Signal::SIGTERM));
        running.signal(Signal::SIGTERM);
        let ended = running.wait();
        assert!(ended.code() == Some(1) && ended.stderr.contains("stopped on request"), "{line}: {ended:?}");
    }
}

#[test]
fn an_endless_file_is_refused_by_name() {
    let place = Place::new();
    place.write("data.toml", &WITH_DATA.replace("pipe", "/dev/zero"));
    for (line, bound) in [
        ("run -w scripts -f /dev/zero", 64 << 20),
        ("run /dev/zero", 64 << 20),
        ("run data.toml", 1 << 30),
        ("pgbench -n -f /dev/zero", 64 << 20),
    ] {
        let ended = place.run(&line.split(' ').collect::<Vec<_>>()).expect(1);
        let expected = format!("it is longer than {bound} bytes");
        assert!(ended.stderr.contains(&expected) && ended.stderr.contains("/dev/zero"), "{line}: {ended:?}");
    }
}

#[test]
fn a_pipe_from_a_shell_is_read_even_if_a_password_is_removed_from_the_arguments() {
    let (place, pg) = (Place::new(), Pg::shared());
    let program = env!("CARGO_BIN_EXE_pgdyno");
    let server = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/{}", pg.port, pg.database());
    for command in [
        format!("{program} pgbench -n -t 1 -f <(sleep 0.5; echo 'select 1;') {server}"),
        format!(
            "{program} run -w scripts -f <(sleep 0.5; echo 'select 1;') --server {server} --ramp-up 0s --measure 2s --repeats 1 {PACE} \
             --set prepare.settle=false -o out"
        ),
    ] {
        let shell = place.command_of(Path::new("bash"), &["-c", &command]);
        place.start(shell).wait().expect(0);
    }
}
