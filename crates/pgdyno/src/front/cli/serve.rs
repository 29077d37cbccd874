//! Options of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use model::experiment::driver::DriverSpec;

use crate::front::cli::stored::RESULTS;

/// Where a server listens unless asked otherwise: only this machine can reach it.
pub(crate) const LISTEN: &str = "127.0.0.1:8437";

/// Options of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Directory of results, or of one result.
    #[arg(value_name = "DIR", default_value = RESULTS)]
    pub(crate) dir: PathBuf,
    /// Show DIR of another machine, where the same build of pgdyno answers over a pipe: ssh:[USER@]HOST[:PORT], with =PATH of pgdyno there,
    /// or a command that leads a pipe to it, such as "kubectl exec -i db-0 --".
    #[arg(long, value_name = "ssh:HOST", value_parser = via, conflicts_with = "companion")]
    pub(crate) via: Option<DriverSpec>,
    /// With --via: put a copy of this program there if it is missing or another build.
    #[arg(long, requires = "via")]
    pub(crate) upload: bool,
    /// Where to listen. All but loopback addresses can be reached from other machines, without encryption, and ask readers for a token,
    /// which is printed.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = LISTEN)]
    pub(crate) listen: SocketAddr,
    /// A name under which browsers reach the server, if it is not this machine's own. Repeatable.
    #[arg(long = "name", value_name = "HOST")]
    pub(crate) names: Vec<String>,
    /// Ask readers for a token even on a loopback address. Without it, the server answers there only to the user who starts it, to who
    /// called that user by sudo, and to root.
    #[arg(long)]
    pub(crate) token: bool,
    /// Let pages stop what is measured here, and measure an experiment of these results again. Readers need a token.
    #[arg(long)]
    pub(crate) control: bool,
    /// Open the list in a browser.
    #[arg(long)]
    pub(crate) open: bool,
    /// Show this result, and end with standard input.
    #[arg(long, value_name = "NAME", hide = true, conflicts_with = "control")]
    pub(crate) companion: Option<String>,
    /// Listen on another port if this one is in use.
    #[arg(long = "move", hide = true)]
    pub(crate) may_move: bool,
}

/// `ssh:HOST` as for other commands, or the words of any command that leads a pipe to a machine.
fn via(text: &str) -> Result<DriverSpec, String> {
    if text.starts_with("ssh:") {
        return text.parse();
    }
    let words: Vec<String> = text.split_whitespace().map(str::to_string).collect();
    let program = "pgdyno".to_string();
    let spec = DriverSpec { via: words, program, ..DriverSpec::default() }.named();
    spec.check().map(|()| spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_named_as_elsewhere_or_by_a_command() {
        let words = |text: &str| via(text).map(|spec| (spec.name, spec.via.join(" "), spec.program));
        let expected = |name: &str, via: &str, program: &str| Ok((name.into(), via.into(), program.into()));
        assert_eq!(words("ssh:db1=/opt/pgdyno"), expected("db1", "ssh -- db1", "/opt/pgdyno"));
        assert_eq!(words("ssh -p 2222 db1"), expected("db1", "ssh -p 2222 db1", "pgdyno"));
        assert_eq!(words("kubectl exec -i db-0 --"), expected("db-0", "kubectl exec -i db-0 --", "pgdyno"));
        assert_eq!(words("sh -c"), expected("sh", "sh -c", "pgdyno"));
        for wrong in ["", "ssh:a b", "ssh 'a b'"] {
            assert!(via(wrong).is_err(), "{wrong}");
        }
    }
}
