//! `--spot-notice`: who polls for the notice that a machine will be taken away, and what happens when it comes: the same as
//! when somebody asks for a stop.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use experiment::spot::{CloudReply, Spot};

use crate::spot::{PERIOD, Polled, parse, poll};
use crate::{say, signals};

/// Polls `url` as long as this process lives; a notice asks for a stop, as a signal would.
///
/// # Errors
/// When `url` is not a plain HTTP address.
pub(crate) fn watch(url: &str) -> Result<()> {
    poll(parse(url)?, |found| match found {
        Polled::Notice(text) => {
            say(&format!("this machine will be taken away ({text}): stopping"));
            signals::ask_to_stop();
        }
        Polled::Error(text) => {
            say(&format!("note: --spot-notice: {text}; trying again every {} s", PERIOD.as_secs()));
        }
    });
    Ok(())
}

/// What the eyes and drivers of an experiment poll on their machines.
pub(crate) fn elsewhere(url: &str) -> Spot {
    Spot { url: url.to_string(), report }
}

/// Says what the cloud of `host` said, once, and stops if the host will be taken away.
fn report(host: &str, reply: CloudReply) {
    static HOSTS: Mutex<BTreeSet<(String, bool)>> = Mutex::new(BTreeSet::new());
    let is_notice = matches!(reply, CloudReply::Notice(_));
    if HOSTS.lock().unwrap_or_else(PoisonError::into_inner).insert((host.to_string(), is_notice)) {
        match reply {
            CloudReply::Notice(text) => say(&format!("`{host}` will be taken away ({text}): stopping")),
            CloudReply::Unread(text) => say(&format!("note: --spot-notice: on `{host}`: {text}")),
        }
    }
    if is_notice {
        signals::ask_to_stop();
    }
}
