//! Who is there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use async_nats::Client;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::connect::{DROPPED, block_on};
use super::subject;
use crate::{AnsweringAgent, NatsServer, check_label};

/// How long answers are awaited. Presence over NATS takes milliseconds; this is for distant and busy machines.
pub(crate) const WAIT: Duration = Duration::from_secs(1);
/// Longest answer, in bytes, and most answers.
const ANSWER_BYTES_MAX: usize = 16 << 10;
const ANSWERS_MAX: usize = 10_000;
const TOO_MANY: &str = "more than 10,000 agents answered, so that some may be missing from the list";

/// What an agent says about itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Here {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) build: String,
    pub(crate) is_busy: bool,
}

/// Asks all agents to answer within a second; in order of their names.
///
/// # Errors
/// If the server cannot be reached, or more agents answer than can be listed.
pub fn find(server: &NatsServer) -> Result<Vec<AnsweringAgent>> {
    block_on(async {
        let are_dropped = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&are_dropped);
        let on_event = move |event: String| {
            seen.fetch_or(event == DROPPED, Ordering::Relaxed);
        };
        let client = server.connect("pgdyno agents", ANSWERS_MAX, on_event).await?;
        let found = find_through(&client, "*").await?;
        ensure!(!are_dropped.load(Ordering::Relaxed), "{TOO_MANY}");
        Ok(found)
    })
}

/// Asks the agents whose name is `name`; `*` means all.
pub(crate) async fn find_through(client: &Client, name: &str) -> Result<Vec<AnsweringAgent>> {
    let id = subject::unique()?;
    let mut answers = client.subscribe(subject::here(name, &id)).await?;
    client.publish(subject::FIND, id.into()).await?;
    client.flush().await?;
    let until = Instant::now() + WAIT;
    let mut all: BTreeMap<String, AnsweringAgent> = BTreeMap::new();
    let mut n_answers = 0;
    while let Ok(Some(answer)) = tokio::time::timeout_at(until, answers.next()).await {
        n_answers += 1;
        ensure!(n_answers <= ANSWERS_MAX, "{TOO_MANY}");
        let Some(name) = subject::agent_of(&answer.subject) else { continue };
        let Some(here) = read(&answer.payload) else { continue };
        let Here { labels, build, is_busy } = here;
        let found = AnsweringAgent { name: name.to_string(), labels, build, is_busy, n: 0 };
        all.entry(name.to_string()).or_insert(found).n += 1;
    }
    Ok(all.into_values().collect())
}

/// An answer that can be shown: what is no label is left out with all else that its sender says.
fn read(payload: &[u8]) -> Option<Here> {
    let here: Here = serde_json::from_slice(payload.get(..payload.len().min(ANSWER_BYTES_MAX))?).ok()?;
    let is_label = |(key, value): (&String, &String)| check_label(&format!("{key}={value}")).is_ok();
    let is_plain = here.build.len() <= 100 && here.build.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    (is_plain && here.labels.iter().all(is_label)).then_some(here)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    /// A NATS server that answers whoever looks for agents as `n` agents at once. Returns its URL.
    fn server_with(n: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"INFO {\"max_payload\":1048576,\"proto\":1}\r\n").unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let mut subscription = String::new();
            while let Some(Ok(line)) = lines.next() {
                match line.split(' ').collect::<Vec<_>>()[..] {
                    ["PING"] => stream.write_all(b"PONG\r\n").unwrap(),
                    ["SUB", _, sid] => subscription = sid.to_string(),
                    ["PUB", subject::FIND, _] => {
                        let id = lines.next().unwrap().unwrap();
                        let answer = r#"{"labels":{},"build":"pgdyno 1","is_busy":false}"#;
                        let message = |agent: usize| {
                            let subject = subject::here(&format!("a{agent}"), &id);
                            format!("MSG {subject} {subscription} {}\r\n{answer}\r\n", answer.len())
                        };
                        let _the_rest_is_too_much =
                            stream.write_all((0..n).map(message).collect::<String>().as_bytes());
                    }
                    _ => {}
                }
            }
        });
        url
    }

    #[test]
    fn agents_that_answer_at_once_are_all_listed_or_that_fails() {
        let find = |n| find(&NatsServer { url: server_with(n), ..NatsServer::default() });
        assert_eq!(find(ANSWERS_MAX / 5).unwrap().len(), ANSWERS_MAX / 5);
        assert_eq!(find(ANSWERS_MAX + 1).unwrap_err().to_string(), TOO_MANY);
    }

    #[test]
    fn an_answer_with_more_than_words_is_no_answer() {
        let answer = |labels: &str, build: &str| {
            read(format!(r#"{{"labels": {labels}, "build": "{build}", "is_busy": false}}"#).as_bytes())
        };
        assert_eq!(answer(r#"{"az": "a"}"#, "pgdyno 1").unwrap().labels["az"], "a");
        assert!(answer(r#"{"az": "\u001b[2J"}"#, "pgdyno 1").is_none());
        assert!(answer("{}", r"\u001b").is_none());
        assert!(read(b"\xff").is_none());
    }
}
