//! `pgdyno serve`: a local web page over a directory of results.

mod control;
pub(crate) mod drawn;
pub(crate) mod far;
pub(crate) mod makers;
mod opener;
mod past;

use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use report::site::encoded;
use serve::{ConnectionBounds, ServeOptions, Serving};

pub(crate) use self::opener::sweep as sweep_openers;
use crate::front::cli::serve::ServeArgs;
use crate::front::cli::stored::RESULTS;
use crate::job::FAREWELL_MAX;
use crate::{Exit, say, signals};

/// How often the end is looked for.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until a signal asks to stop, or standard input ends if something else is served with it.
pub(crate) fn serve(args: &ServeArgs) -> Result<Exit> {
    if args.via.is_none() {
        expect_dir(&args.dir)?;
    }
    let stop = match args.companion {
        // Ctrl-C is for who measures, and comes to all processes of a terminal.
        Some(_) => {
            signals::ignore();
            end_of_input()
        }
        None => signals::stop_flag(),
    };
    let started = match &args.via {
        Some(via) => far::start(args, via),
        None => ::serve::start(options(args), drawn::MAKERS),
    };
    let serving = match started {
        Ok(serving) => serving,
        // What is measured goes on without.
        Err(error) if args.companion.is_some() => {
            say(&format!("note: no live page: {error:#}"));
            return Ok(Exit::Failed);
        }
        Err(error) => return Err(error),
    };
    announce(args, &serving);
    let _opened = args.open.then(|| opener::open(&address(args, &serving), serving.token.as_deref()));
    while !stop.load(Ordering::Relaxed) {
        if !serving.is_running() {
            serving.wait()?;
            return Ok(Exit::Failed);
        }
        std::thread::sleep(PAUSE);
    }
    if args.companion.is_some() {
        serving.end_with_report(FAREWELL_MAX);
    }
    Ok(Exit::Done)
}

fn expect_dir(dir: &Path) -> Result<()> {
    let is_dir = dir.is_dir() || dir == Path::new(RESULTS);
    ensure!(is_dir, "`{}` is not a directory; name one with results", dir.display());
    Ok(())
}

fn options(args: &ServeArgs) -> ServeOptions {
    ServeOptions {
        root: args.dir.clone(),
        listen: args.listen,
        wants_token: args.token,
        names: args.names.clone(),
        companion: args.companion.clone(),
        may_move: args.may_move,
        may_control: args.control,
        machine: String::new(),
        tool_version: env!("CARGO_PKG_VERSION"),
        patience: ConnectionBounds::default(),
    }
}

/// The flag that the end of standard input raises.
fn end_of_input() -> &'static AtomicBool {
    static HAS_ENDED: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
        let mut bytes = [0; 64];
        while std::io::stdin().read(&mut bytes).is_ok_and(|n| n > 0) {}
        HAS_ENDED.store(true, Ordering::Relaxed);
    });
    &HAS_ENDED
}

fn announce(args: &ServeArgs, serving: &Serving) {
    let address = match &serving.token {
        Some(token) => with_token(&serving.address.to_string(), token),
        None => address(args, serving),
    };
    match args.companion {
        Some(_) => say(&format!("live: {address}")),
        None => {
            let on = args.via.as_ref().map_or(String::new(), |via| format!(" of `{}`", via.name));
            say(&format!("serving `{}`{on} at {address}", args.dir.display()));
        }
    }
    if !serve::is_loopback(serving.address.ip()) {
        let port = serving.address.port();
        say(&format!(
            "note: `{}` can be reached from other machines, and nothing is encrypted. Safer: listen on 127.0.0.1, and \
             `ssh -L {port}:127.0.0.1:{port} HOST` where the browser is",
            serving.address
        ));
    }
    if args.companion.is_none() {
        say("Ctrl-C ends it");
    }
}

/// The address of the page to begin with.
fn address(args: &ServeArgs, serving: &Serving) -> String {
    let page = args.companion.as_ref().map_or(String::new(), |name| format!("live/{}", encoded(name)));
    format!("http://{}/{page}", serving.address)
}

/// A token stands after `#`, where no server and no log sees it. Without a name, because whatever prints it hides what is called a token.
fn with_token(place: &str, token: &str) -> String {
    format!("http://{place}/login#{token}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_with_the_token_is_printed_as_it_is() {
        let address = with_token("127.0.0.1:8437", &files::random_hex(24).unwrap());
        let line = format!("serving `results` at {address}");
        assert_eq!(model::secret::hide_text(&line), line);
    }
}
