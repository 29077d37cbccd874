//! Pages that another machine makes, with its end in this process: what crosses is what crosses a pipe.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use model::load::pages::{AnswerPart, PIECE_BYTES_MAX, PIECES_MAX, PageRequest, PagesCommand, PagesLine};
use serve::{Answering, Elsewhere, ServeOptions, Serving};

use crate::place::{MAKERS, Place, ask, get, plan, status};

type Sink = Box<dyn FnMut(AnswerPart) -> bool + Send>;

/// A pipe of lines to the other end.
#[derive(Clone)]
struct Pipe {
    answering: Arc<Answering>,
    sinks: Arc<Mutex<HashMap<u64, Sink>>>,
    n_asked: Arc<AtomicU64>,
    is_lost: Arc<AtomicBool>,
}

impl std::fmt::Debug for Pipe {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("Pipe")
    }
}

impl Pipe {
    fn to(options: ServeOptions) -> Pipe {
        let sinks: Arc<Mutex<HashMap<u64, Sink>>> = Arc::default();
        let of_end = sinks.clone();
        let say = move |line: PagesLine| {
            let line: PagesLine = serde_json::from_str(&serde_json::to_string(&line).unwrap()).unwrap();
            let PagesLine::Part { id, part } = line else { return };
            let is_last = matches!(part, AnswerPart::End | AnswerPart::Lost(_));
            let mut sinks = of_end.lock().unwrap();
            let is_wanted = sinks.get_mut(&id).is_none_or(|sink| sink(part));
            assert!(is_wanted, "no more parts come than were taken");
            if is_last {
                sinks.remove(&id);
            }
        };
        let answering = Arc::new(Answering::start(options, MAKERS, Arc::new(say)).unwrap());
        Pipe { answering, sinks, n_asked: Arc::default(), is_lost: Arc::default() }
    }

    fn serve(&self, options: &ServeOptions) -> Serving {
        serve::start_relay(options, Box::new(self.clone())).unwrap()
    }
}

impl Elsewhere for Pipe {
    fn ask(&self, asked: PageRequest, mut sink: Sink) -> u64 {
        let id = self.n_asked.fetch_add(1, Ordering::Relaxed);
        if self.is_lost.load(Ordering::Relaxed) {
            sink(AnswerPart::Lost("the pipe to <b>db1</b> has ended".to_string()));
            return id;
        }
        self.sinks.lock().unwrap().insert(id, sink);
        self.answering.carry_out(PagesCommand::Ask(PageRequest { id, ..asked }));
        id
    }

    fn took(&self, id: u64) {
        self.answering.carry_out(PagesCommand::Took(id));
    }

    fn leave(&self, id: u64) {
        if self.sinks.lock().unwrap().remove(&id).is_some() {
            self.answering.carry_out(PagesCommand::Leave(id));
        }
    }
}

#[test]
fn pages_of_another_machine_are_as_those_of_this_one() {
    let place = Place::new();
    for i in 0..600 {
        place.add(&format!("one-{i:03}"), &plan("x", 1, (1, 2)), "{}");
    }
    let pipe = Pipe::to(ServeOptions { machine: "db1".to_string(), may_control: true, ..place.options() });
    let serving = pipe.serve(&ServeOptions { may_control: true, ..place.options() });
    let (at, token) = (serving.address, serving.token.clone().unwrap());
    assert_eq!(status(&get(at, "/", "")), "401", "the token is asked for here");
    let shown = format!("Authorization: Bearer {token}\r\n");

    let list = get(at, "/", &shown);
    assert!(list.contains(&format!("db1: {}", place.path().display())) && list.contains("one-599"));
    assert!(list.len() > PIECES_MAX * PIECE_BYTES_MAX && list.contains("</html>"), "{} bytes", list.len());
    assert!(list.contains("content-security-policy: default-src 'none'; script-src 'sha256-"));
    assert!(get(at, "/result/one-007", &shown).contains("report of one-007"));
    for (path, expected) in [("/nowhere", "404"), ("/compare", "400"), ("/live/none/events", "204")] {
        assert_eq!(status(&get(at, path, &shown)), expected, "{path}");
    }
    let post = |path: &str| {
        ask(at, &format!("POST {path} HTTP/1.1\r\nHost: {at}\r\n{shown}Origin: http://{at}\r\n\r\n"))
    };
    assert!(post("/again/one-001").contains("/again/one-001?accept=commands-1a2b"));
    assert!(post("/again/one-001?accept=commands-1a2b").contains("begun by the test"));
    pipe.is_lost.store(true, Ordering::Relaxed);
    let lost = get(at, "/", &shown);
    assert_eq!(status(&lost), "502");
    assert!(lost.contains("the pipe to &lt;b&gt;db1&lt;/b&gt; has ended"), "{lost}");
}

#[test]
fn a_stream_that_a_browser_leaves_ends_on_the_other_machine() {
    let place = Place::new();
    let mut run = crate::live::Run::begin(&place, 60);
    (0..3).for_each(|_| run.second(100));
    let pipe = Pipe::to(place.options());
    let serving = pipe.serve(&place.options());
    let at = serving.address;
    let mut stream = TcpStream::connect(at).unwrap();
    let request = format!("GET /live/now/events HTTP/1.1\r\nHost: {at}\r\n\r\n");
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream);
    let mut seen = String::new();
    while !seen.contains("event: whole") {
        assert!(lines.read_line(&mut seen).unwrap() > 0, "{seen}");
    }
    assert_eq!(pipe.sinks.lock().unwrap().len(), 1);
    drop(lines);
    // The next point cannot be written any more.
    run.second(200);
    let begun = std::time::Instant::now();
    while !pipe.sinks.lock().unwrap().is_empty() {
        assert!(begun.elapsed().as_secs() < 20, "nobody told the other machine");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
