//! Loads against the look-alike of a server, `pgdyno null`, whose driver says what it does line by line.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use model::load::drive::{Done, DriveCommand, DriveOrder, DriverLine};
use model::load::{LoadSpec, ScriptSpec};
use nix::sys::signal::Signal;

use crate::tool::{Place, wait_until};

/// Drives a load with the script `one`, `SELECT 1`, against a look-alike with these options. `hear` gets each line of the driver when it
/// comes. Returns when the load began, nanoseconds since 1970, and the driver's last word.
pub(crate) fn drive(
    place: &Place,
    options: &[&str],
    load: LoadSpec,
    hear: impl FnMut(&DriverLine),
) -> (u64, Done) {
    let socket_dir = place.path("tmp");
    let mut command = place.command(&[&["null"][..], options].concat());
    command.arg("--socket-dir").arg(&socket_dir);
    let look_alike = place.start(command);
    wait_until("the look-alike's socket", || socket_dir.join(".s.PGSQL.5431").exists());
    let socket_dir = socket_dir.display().to_string();
    let target = [("host", socket_dir.as_str()), ("port", "5431"), ("user", "u"), ("dbname", "d")];
    let load = LoadSpec {
        target: target.map(|(key, value)| (key.to_string(), value.to_string())).into(),
        scripts: vec![ScriptSpec {
            name: "one".to_string(),
            tag: "one".to_string(),
            weight: 1,
            source: "SELECT 1;\n".to_string(),
        }],
        ..load
    };
    let driven = order(place, load, hear);
    look_alike.signal(Signal::SIGINT);
    look_alike.wait();
    driven
}

fn order(place: &Place, load: LoadSpec, mut hear: impl FnMut(&DriverLine)) -> (u64, Done) {
    let mut command = place.command(&["drive"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut orders = child.stdin.take().unwrap();
    writeln!(orders, "{}", serde_json::to_string(&DriveOrder::new(load, None)).unwrap()).unwrap();
    let (mut go, mut done) = (None, None);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line: DriverLine = serde_json::from_str(&line.unwrap()).unwrap();
        hear(&line);
        match line {
            DriverLine::Ready(_) => {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
                let begin = (now + Duration::from_millis(50)).as_nanos() as u64;
                writeln!(orders, "{}", serde_json::to_string(&DriveCommand::Go(begin)).unwrap()).unwrap();
                go = Some(begin);
            }
            DriverLine::Done(word) => done = Some(*word),
            DriverLine::Failed { message } => panic!("{message}"),
            _ => {}
        }
    }
    drop(orders);
    assert!(child.wait().unwrap().success());
    (go.unwrap(), done.unwrap())
}
