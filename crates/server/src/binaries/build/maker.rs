//! Whose rights are used to fetch and build a source. Root does not run what another machine sends: as root, the
//! server's user fetches and builds it, in that user's directories, and the result is unpacked as an archive that is
//! not trusted.

use std::env;
use std::fs::{self, Permissions};
use std::io::{self, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use files::trust;

use super::{clean_environment, run};
use crate::binaries::fetch::UNTRUSTED;
use crate::binaries::unpack::{self, unpack_tar};
use crate::process::environment;
use crate::process::socket;
use crate::user::account::Account;
use crate::user::given::{self, ScratchDir};

/// Name of the user's own directory, within one that belongs to pgdyno's user.
const HOME: &str = "d";
/// Variables that the connection to other machines may need.
const PROXIES: [&str; 8] = [
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
];

/// Who fetches and builds: this process's user, or another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Maker(Option<Account>);

impl Maker {
    /// This process's user, for trusted sources on this machine.
    pub(super) const OURSELVES: Maker = Maker(None);

    /// The maker of what another machine sends.
    pub(super) fn of_what_is_fetched() -> Result<Maker> {
        Ok(Maker(Some(Account::choose()?).filter(|account| account.is_switched)))
    }

    /// The other user's id: users do not share what they have made.
    pub(super) fn uid(&self) -> Option<u32> {
        self.0.as_ref().map(|account| account.uid)
    }

    /// The other user's directory in `outer`, created if it is not there; `None` if this process's user does the work.
    pub(super) fn home(&self, outer: &Path) -> Result<Option<PathBuf>> {
        let Some(account) = &self.0 else { return Ok(None) };
        let home = outer.join(HOME);
        if !outer.exists() {
            given::make_outer(outer, account).with_context(|| format!("make `{}`", outer.display()))?;
        }
        trust::check_directory(outer).context(UNTRUSTED)?;
        if fs::symlink_metadata(&home).is_err() {
            given::make(&home, account)?;
        }
        account.check_reach(&home)?;
        Ok(Some(home))
    }

    /// An empty home of the other user, which is gone with what is returned; `None` if this process's user does the work.
    pub(super) fn passing_home(&self) -> Result<Option<ScratchDir>> {
        self.0.as_ref().map(socket::scratch).transpose()
    }

    /// Does `work` on files with the maker's rights.
    pub(super) fn act<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match &self.0 {
            Some(account) => account.act(work),
            None => work(),
        }
    }

    /// Makes `command`, a program of this machine, run as the maker. Git may need what is in our environment to reach a repository;
    /// another user gets of it only the way to other machines.
    pub(super) fn prepare(&self, command: &mut Command, home: Option<&Path>) {
        if self.0.is_none() {
            return clean_environment(command);
        }
        self.prepare_code(command, home);
        for name in PROXIES {
            env::var_os(name).map(|value| command.env(name, value));
        }
    }

    /// The same of a command that executes code of the source. Whoever wrote that code gets none of the keys and passwords in our
    /// environment, not even that of a proxy.
    pub(super) fn prepare_code(&self, command: &mut Command, home: Option<&Path>) {
        environment::clean(command);
        clean_environment(command);
        if let (Some(account), Some(home)) = (&self.0, home) {
            command.env("HOME", home).env("TMPDIR", home);
            account.apply(command);
        }
    }

    /// Copies the result from `made`, in the other user's directory, to our directory `into`.
    pub(super) fn take(
        &self,
        home: &Path,
        made: &Path,
        into: &Path,
        log: &Path,
        stop: &AtomicBool,
    ) -> Result<()> {
        let archive = home.join("made.tar");
        let mut pack = Command::new("tar");
        pack.arg("-cf").arg(&archive).arg("-C").arg(made).arg(".");
        self.prepare(&mut pack, Some(home));
        run(pack, home, log, stop)?;
        let words = || format!("take what was built from `{}`", archive.display());
        let tar = self.act(|| files::open(&archive)).with_context(words)?;
        fs::create_dir_all(into).with_context(|| format!("create `{}`", into.display()))?;
        fs::set_permissions(into, Permissions::from_mode(0o755))?;
        unpack_tar(BufReader::new(tar), into, unpack::COMMIT).with_context(words)?;
        Ok(())
    }
}
