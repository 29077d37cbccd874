//! A server of the page that shows what this process measures.
//!
//! It is a process of its own (`pgdyno serve`), so that nothing that happens there can cost a run. It reads what the run writes, and
//! ends when its standard input does, which only this process holds open.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::front::cli::live::LiveArgs;
use crate::front::cli::serve::LISTEN;
use crate::say;

/// How long pages may take to fetch the report of what they showed.
pub(crate) const FAREWELL_MAX: Duration = Duration::from_secs(10);
/// How long the process may take to end after that.
const END_MAX: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);

/// Dropping it ends the server.
#[derive(Debug)]
pub(crate) struct Companion {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Companion {
    /// Starts to serve the directory of an experiment and those next to it, if that is asked for; the server itself says where. That it
    /// cannot be started is said, and costs no run.
    pub(crate) fn start(dir: &Path, args: &LiveArgs) -> Option<Companion> {
        let started = args.live.map(|listen| Companion::serve(dir, listen, args.open));
        started?.inspect_err(|error| say(&format!("note: no live page: {error:#}"))).ok()
    }

    fn serve(dir: &Path, listen: SocketAddr, opens: bool) -> Result<Companion> {
        let dir = dir.canonicalize().with_context(|| format!("cannot find `{}`", dir.display()))?;
        let (root, name) = dir.parent().zip(dir.file_name()).context("the directory has no name")?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0("pgdyno").arg("serve").arg(root).arg("--companion").arg(name);
        command.arg(format!("--listen={listen}"));
        command.args(opens.then_some("--open"));
        command.args((listen.to_string() == LISTEN).then_some("--move"));
        // Ctrl-Z at the terminal does not stop it while we go on.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let mut child = command.spawn().context("cannot start `pgdyno serve`")?;
        let stdin = child.stdin.take();
        Ok(Companion { child, stdin })
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let begun = Instant::now();
        while begun.elapsed() < FAREWELL_MAX + END_MAX {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        // It may be reading from a file system that hangs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
