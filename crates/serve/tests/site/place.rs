//! A directory of results, and a server over it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use model::experiment::case::{Case, ServerSource, ServerSpec, WorkloadKind, WorkloadSpec};
use model::experiment::plan::{Plan, RunSpec};
use model::load::Window;
use report::site::{self, Page};
use serve::{Again, ConnectionBounds, ConsentQuestion, Makers, MeasureConsent, ServeOptions, Serving};
use store::ExperimentDir;

/// Results, kept as long as this is.
pub(crate) struct Place {
    pub(crate) dir: tempfile::TempDir,
}

/// Pages that say what was asked for: how results are drawn is not tested here.
pub(crate) const MAKERS: Makers = Makers {
    result: |dir, links| Ok(says(&format!("report of {}", name(dir)), links)),
    comparison: |[a, b], links| Ok(says(&format!("{} against {}", name(b), name(a)), links)),
    several: |dirs, links| {
        Ok(says(&dirs.iter().map(|dir| name(dir)).collect::<Vec<String>>().join(" and "), links))
    },
    history: |experiment, dirs, links| Ok(says(&format!("history of {experiment}: {}", dirs.len()), links)),
    stop: |_| anyhow::bail!("stopped by the test"),
    again: |_, _, consents| match consents {
        [] => Ok(Again::Asks(ConsentQuestion {
            consent: MeasureConsent::Commands("1a2b".to_string()),
            text: "It would do this:\nhooks: rm <b>x</b>".to_string(),
        })),
        _ => anyhow::bail!("begun by the test"),
    },
};

fn says(words: &str, links: &[site::BarLink]) -> Page {
    site::notice("Asked", words, links, "0")
}

fn name(dir: &Path) -> String {
    dir.file_name().unwrap().to_string_lossy().into_owned()
}

pub(crate) fn plan(name: &str, n_runs: u32, window: (u32, u32)) -> Plan {
    let window = Window { ramp_up_s: window.0, measure_s: window.1, grace_s: 1 };
    let server = ServerSpec::new(ServerSource::Version("15".parse().unwrap()));
    let workload = WorkloadSpec { n_clients: 8, ..WorkloadSpec::new(WorkloadKind::Tpcb, 1) };
    Plan {
        format: model::FORMAT,
        name: name.to_string(),
        title: format!("Title of {name}"),
        made_unix_ns: 1_700_000_000_000_000_000,
        cases: vec![Case::new(server, workload, window)],
        runs: (1..=n_runs).map(|run| RunSpec { run, block: run, case: 1, seed: 1 }).collect(),
        ..Plan::default()
    }
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Makes a result that nobody writes to any more.
    pub(crate) fn add(&self, name: &str, plan: &Plan, answer: &str) -> PathBuf {
        let path = self.path().join(name);
        drop(ExperimentDir::create(&path, plan, "").unwrap());
        std::fs::write(path.join("answer.json"), answer).unwrap();
        path
    }

    pub(crate) fn options(&self) -> ServeOptions {
        ServeOptions {
            root: self.path().to_path_buf(),
            listen: "127.0.0.1:0".parse().unwrap(),
            wants_token: false,
            names: Vec::new(),
            companion: None,
            may_move: false,
            may_control: false,
            machine: String::new(),
            tool_version: "0",
            patience: ConnectionBounds::default(),
        }
    }

    pub(crate) fn serve(&self) -> Serving {
        serve::start(self.options(), MAKERS).unwrap()
    }
}

/// Sends a request as it is, and returns the whole answer.
pub(crate) fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// The answer to a GET by the server's own address, with more headers.
pub(crate) fn get(address: SocketAddr, path: &str, more: &str) -> String {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{more}\r\n"))
}

/// The status of an answer.
pub(crate) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}
