//! Asks a session, when the load is over, for the settings it has worked with. The server's own record does not have
//! them: scripts, functions that they call and triggers may SET, and a server reports only some changes by itself.

use std::sync::atomic::Ordering;
use std::time::Duration;

use model::load::sessions::{SessionSetting, SessionSettings};
use wire::scan::row_values;
use wire::{Flow, Link, Reply, Scanner, message};

use super::Worker;
use crate::thread::connect::blocking::{ConnectWait, receive, send_all};
use crate::thread::stop;

/// How long the answer may take. Less than a parent waits for a silent driver.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// The most that the answer may contain.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Sources that belong to a session or its role; all others are the same for all sessions of a server. The session has the
/// search path of the load: functions and operators are named with their schema.
const SQL: &str = "select name, pg_catalog.current_setting(name), source from pg_catalog.pg_settings \
                   where source operator(pg_catalog.=) any \
                   ('{session,client,user,database,database user}'::pg_catalog.text[])";

impl Worker<'_> {
    /// The client whose session is asked: the first one that has worked, is connected, and is in no transaction.
    pub(super) fn to_be_asked(&self) -> Option<usize> {
        let Self { setup, .. } = self;
        if !setup.load.ask_settings || setup.controls.stop.load(Ordering::Relaxed) >= stop::AT_ONCE {
            return None;
        }
        setup.clients.iter().position(|client| {
            client.session.link.is_some()
                && client.record.n_ended > 0
                && !(client.in_flight() || client.in_block() || client.outgoing.waits_to_write)
        })
    }

    /// Asks the client's session, and ends it.
    pub(super) fn ask_settings(&mut self, index: usize) -> SessionSettings {
        let client = &mut self.setup.clients[index];
        self.setup.poller.forget(client, index);
        let answer = client.session.link.as_mut().map_or(Ok(Vec::new()), ask);
        client.disconnect();
        match answer {
            Ok(settings) => SessionSettings { n_answered: 1, silent: None, settings },
            Err(reason) => SessionSettings { silent: Some(reason), ..SessionSettings::default() },
        }
    }
}

fn ask(link: &mut Link) -> Result<Vec<SessionSetting>, String> {
    let patience = ConnectWait::new(ANSWER_MAX, "asking for settings", "report the settings of a session");
    let mut question = Vec::new();
    message::query(&mut question, SQL);
    send_all(link, &question, patience)?;
    let mut scanner = Scanner::with_limit(ANSWER_BYTES_MAX as u32);
    scanner.want_rows(true);
    let (mut settings, mut error, mut n_bytes) = (SessionSettings::default(), None, 0);
    receive(link, &mut scanner, Vec::new(), patience, |reply| {
        match reply {
            Reply::DataRow(body) => {
                n_bytes += body.len();
                settings.add(one(body));
            }
            Reply::Error(body) => {
                error.get_or_insert_with(|| wire::parse_error(body).to_string());
            }
            _ => {}
        }
        let is_over = matches!(reply, Reply::ReadyForQuery(_)) || n_bytes > ANSWER_BYTES_MAX;
        if is_over { Flow::Stop } else { Flow::Continue }
    })?;
    match error {
        Some(error) => Err(format!("the server says {error}")),
        None if n_bytes > ANSWER_BYTES_MAX => Err("a session has too many settings".to_string()),
        None => Ok(settings.settings),
    }
}

fn one(row: &[u8]) -> SessionSettings {
    let mut words =
        row_values(row).map(|value| String::from_utf8_lossy(value.unwrap_or_default()).into_owned());
    let mut word = || words.next().unwrap_or_default();
    let setting = SessionSetting { name: word(), value: word(), source: word(), n: 1 };
    SessionSettings { settings: vec![setting], ..SessionSettings::default() }
}
