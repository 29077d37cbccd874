//! The end of a conducted job: what shows progress, and what has to be restored, in the one order in which it may end.

use std::sync::Mutex;

use anyhow::Result;
use experiment::site::hands::HostAgents;
use host::{Keeper, KernelFiles};

use crate::job::PENDING_UNDO;
use crate::job::doing::Doing;
use crate::job::screen::Screen;
use crate::restore_report::{SETTINGS, report_settings, report_undone};
use crate::say;
use crate::watchdog::Watchdog;

/// The right to set values of this machine's operating system, and who restores them if this process is killed. The values are
/// restored when this is dropped, also by a panic: fields are dropped in their order, so the watchdog is dismissed afterwards.
pub(crate) struct Os {
    pub(super) keeper: Mutex<Keeper>,
    pub(super) watchdog: Watchdog,
}

/// What a job holds until its last run has ended.
pub(super) struct Ending<'a> {
    /// Says in the directory of the results what is done.
    pub(super) doing: Doing<'a>,
    /// Shows it to whoever waits.
    pub(super) screen: Screen,
    /// Values of the operating systems of other hosts that the last case wanted to keep for the next one, and those that could not be
    /// restored before.
    pub(super) hands: HostAgents,
    /// The same of this machine.
    pub(super) os: Option<Os>,
}

impl Ending<'_> {
    /// Ends everything, and reports what was restored. Returns whether nothing is left changed.
    ///
    /// The order: progress first, because reports follow it on the terminal; then values of other hosts and of this machine, which are
    /// restored at once; the watchdog when they are, because until then it is who restores them if this process is killed; settings of
    /// servers by URL last, because a restart may take minutes.
    pub(super) fn finish(self) -> bool {
        let Ending { doing, mut screen, hands, os } = self;
        drop(doing);
        screen.close();

        let on_hosts = hands.put_back();
        drop(hands);
        let (keeper, watchdog) = os.map(|os| (os.keeper, os.watchdog)).unzip();
        let has_os = keeper.is_some();
        drop(keeper);
        let is_restored = all_restored(on_hosts, has_os);
        drop(watchdog);

        let of_servers = SETTINGS.put_back(&PENDING_UNDO);
        report_settings(&of_servers);
        is_restored && !of_servers.iter().any(|undoing| undoing.is_left)
    }
}

/// Reports values of the operating system that are not restored on hosts, and if `has_os`, those of this machine, which
/// are tried once more. Returns whether there are none.
fn all_restored(on_hosts: Result<()>, has_os: bool) -> bool {
    if let Err(error) = &on_hosts {
        say(&format!("pgdyno: error: {error:#}"));
    }
    if !has_os {
        return on_hosts.is_ok();
    }
    match host::undo_left(&KernelFiles::this()) {
        Ok(undone) => {
            report_undone(&undone);
            on_hosts.is_ok() && undone.iter().all(|value| value.problem.is_none())
        }
        Err(error) => {
            say(&format!("pgdyno: error: values of the operating system: {error:#}; see pgdyno clean"));
            false
        }
    }
}
