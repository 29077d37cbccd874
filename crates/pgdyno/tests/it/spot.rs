//! Notices that a machine will be taken away: of this one, of the database's host, and of a driver's machine.

use std::io::{Read, Write};
use std::net::TcpListener;

use model::experiment::plan::RunState;
use model::telemetry::event::EventKind;
use testbed::Pg;

use crate::tool::{PACE, Place};

const PROGRAM: &str = env!("CARGO_BIN_EXE_pgdyno");
const QUIET: &str = "HTTP/1.1 404 Not Found\r\n\r\n";
const NOTICE: &str = "HTTP/1.1 200 OK\r\n\r\n{\"action\":\t\"stop\"}";

/// A cloud of one machine, which gives these answers, the last one again and again.
fn cloud(answers: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/spot", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut left = answers.iter();
        let mut answer = "";
        for stream in listener.incoming() {
            let (mut stream, mut head) = (stream.unwrap(), [0; 512]);
            let n = stream.read(&mut head).unwrap();
            assert!(head[..n].starts_with(b"GET /spot HTTP/1.0\r\n"));
            answer = left.next().unwrap_or(&answer);
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    url
}

#[test]
fn a_notice_on_another_machine_stops_the_run_as_one_here_does() {
    let (pg, place) = (Pg::shared(), Place::new());
    let server = pg.admin_target(&pg.database());
    let here = cloud(&[QUIET]);
    let via = |cloud: &str| ["env", &format!("PGDYNO_SPOT_NOTICE={cloud}"), "sh", "-c"].map(str::to_string);
    let host = format!(
        "[server]\nhost = {{name = \"db1\", via = {:?}, program = \"{PROGRAM}\"}}\n",
        via(&cloud(&[NOTICE]))
    );
    // Neither that of a cloud, nor one that the driver's machine names: it is not asked.
    let plain = format!("[[driver]]\nname = \"one\"\nvia = [\"sh\", \"-c\"]\nprogram = \"{PROGRAM}\"\n");
    let driver =
        format!("[[driver]]\nname = \"one\"\nvia = {:?}\nprogram = \"{PROGRAM}\"\n", via(&cloud(&[NOTICE])));
    for (far, who, not_asked) in [(format!("{host}{plain}"), "db1", true), (driver, "one", false)] {
        let file = place.write("spot.toml", &format!("[experiment]\nname = \"spot\"\n{far}"));
        let fixed =
            "-c 2 --scale 1 --ramp-up 0s --measure 60s --repeats 1 --set prepare.settle=false -o out --yes";
        let words = ["run", file.to_str().unwrap(), "--server", &server, "--spot-notice", &here, PACE];
        let ended = place.run(&words.into_iter().chain(fixed.split(' ')).collect::<Vec<_>>()).expect(2);
        let said = format!("`{who}` will be taken away ({{\"action\": \"stop\"}}): stopping");
        assert_eq!(ended.stderr.matches(&said).count(), 1, "{}", ended.stderr);
        let note = "on `one`: `127.0.0.1:";
        assert_eq!(ended.stderr.contains(note), not_asked, "{}", ended.stderr);
        assert!(!ended.stderr.contains("this machine will be taken away"), "{}", ended.stderr);
        assert!(ended.stderr.contains("continue with: pgdyno run --resume out"), "{}", ended.stderr);
        let run = place.first_run("out");
        assert_eq!(run.record.state, RunState::Partial, "{}", run.record.reason);
        assert!(run.events.iter().any(|event| event.kind == EventKind::SpotNotice), "{:?}", run.events);
        std::fs::remove_dir_all(place.path("out")).unwrap();
    }
    place.expect_clean();
}
