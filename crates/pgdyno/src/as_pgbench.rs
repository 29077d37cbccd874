//! This process in the place of pgbench: crate `pgbench` does the work, over this process's output, signals and arguments.

use std::process::ExitCode;

use nix::sys::signal::Signal;
use pgbench::{Invocation, OwnProcess};

use crate::front::secrets;
use crate::{output, signals};

const PROCESS: OwnProcess = OwnProcess {
    print: output::print_as_pgbench,
    stop_flag: signals::stop_flag,
    hide_targets: secrets::hide_targets,
    hidden_passwords: secrets::carried,
};

/// Does what `invocation` asks for, and ends as pgbench does.
pub(crate) fn run(invocation: &Invocation) -> ExitCode {
    signals::end_as_pgbench();
    let end = pgbench::run(invocation, &PROCESS);
    // pgbench dies of its signals, and callers tell an interrupted load from a failed one by that.
    match signals::last() {
        None => {}
        Some(Signal::SIGINT) if end.handles_interrupt => {}
        Some(signal) => signals::die_of(signal),
    }
    end.code
}
