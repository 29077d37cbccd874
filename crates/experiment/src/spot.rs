//! The notice that a cloud takes a machine away, as eyes and drivers on other machines pass it on.

use model::load::drive::DriverLine;
use model::telemetry::event::{Event, EventKind};

/// What the far ends of a load poll, and who learns what they find.
#[derive(Debug, Clone)]
pub struct Spot {
    /// The address that each of them polls, on its own machine.
    pub url: String,
    /// Called with the name of a host and what its cloud said; it may be called again and again.
    pub report: fn(&str, CloudReply),
}

/// Words of a host's cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloudReply<'a> {
    /// The host will be taken away.
    Notice(&'a str),
    /// Nothing: why it cannot be asked.
    Unread(&'a str),
}

impl Spot {
    /// Passes on what an event of a host says of its cloud, if it does.
    pub(crate) fn hear(&self, host: &str, event: &Event) {
        match event.kind {
            EventKind::SpotNotice => (self.report)(host, CloudReply::Notice(&event.text)),
            EventKind::SpotUnread => (self.report)(host, CloudReply::Unread(&event.text)),
            _ => {}
        }
    }

    /// Passes on what a line of a driver says of the cloud of its machine, if it does.
    pub(crate) fn hear_driver(&self, line: &DriverLine) {
        if let DriverLine::Event(event) = line {
            self.hear(event.detail.get("driver").map_or("", String::as_str), event);
        }
    }
}
