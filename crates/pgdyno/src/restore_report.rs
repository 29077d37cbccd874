//! Reports whether values of the operating system, and settings of servers by URL, were restored.

use experiment::site::settings::{ServerSettings, Undoing};
use host::RestoredValue;

use crate::say;

/// Settings of servers by URL that this process has changed.
pub(crate) static SETTINGS: ServerSettings = ServerSettings::new();

/// Reports each value of the operating system that was, or was not, restored.
pub(crate) fn report_undone(undone: &[RestoredValue]) {
    for value in undone {
        let left = value.left.as_ref().map_or_else(String::new, |left| format!(", {left}"));
        match experiment::stage::os::problem(value) {
            Some(problem) => say(&format!("not put back: {problem}")),
            None if value.now == host::REMOVED => {
                say(&format!("removed the control group `{}`{left}", value.path))
            }
            None => {
                let remains =
                    value.remains.as_ref().map_or_else(String::new, |remains| format!("; {remains}"));
                say(&format!("put back `{}` to {}{left}{remains}", value.path, value.now));
            }
        }
    }
}

/// Reports each setting of a server by URL that was, or was not, put back.
pub(crate) fn report_settings(done: &[Undoing]) {
    done.iter().for_each(|undoing| say(&undoing.words));
}

/// Puts back settings that this process has changed on servers by URL, just before it ends.
pub(crate) fn put_back_settings() {
    let (done, is_busy) = SETTINGS.put_back_at_once();
    report_settings(&done);
    if is_busy {
        say("settings of the server may still be changed: `pgdyno clean` puts them back");
    }
}
