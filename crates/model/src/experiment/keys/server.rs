//! `[server]`: the server under test.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::row::{KeyKind, SETTING, of_place, row};
use super::section;
use crate::experiment::case::{Build, Tls};
use crate::experiment::driver::DriverSpec;
use crate::experiment::keys::levels::Levels;
use crate::text::units::{PgVersion, SettingValue};

section! {
    /// `[server]`: the server under test.
    #[serde(deny_unknown_fields, default)]
    server: ServerSection {
        /// release series (`"18"`, `"9.6"`) or exact release (`"12.22"`) for pgdyno to run, installed or fetched (`server.build`). 9.4, 9.5
        /// and exact releases without published binaries are built from PostgreSQL's repository; with `server.source`, all releases from
        /// that one, by their tags
        #[serde(skip_serializing_if = "Option::is_none")]
        VERSION = version: Option<Levels<PgVersion>>,
            row(KeyKind::Or(&[KeyKind::Text, KeyKind::Number]), "the newest that is installed, else `\"18\"`, if no other server is given");

        /// what a version means: `"installed"`, a server of the distribution, of PGDG or of `pg_config` (as root, only of root's files), or
        /// `"fetched"`, the published builds, the same on every machine. Without it and the environment variable `PGDYNO_SERVER_BUILD`,
        /// installed ones if the machine has all versions of the experiment, of both sides in `compare`
        #[serde(skip_serializing_if = "Option::is_none")]
        BUILD = build: Option<Build>,
            row(KeyKind::Words(&Build::WORDS), "see there");

        /// directory of your own PostgreSQL binaries; as root, it must belong to root or to the server's user
        #[serde(skip_serializing_if = "Option::is_none")]
        BIN_DIR = bin_dir: Option<Levels<PathBuf>>,
            of_place(KeyKind::Text, "").whole();

        /// PostgreSQL source code for pgdyno to build: a directory, or a local or remote git repository (see *Source*)
        #[serde(skip_serializing_if = "Option::is_none")]
        SOURCE = source: Option<Levels<String>>,
            of_place(KeyKind::Text, "").whole();

        /// tags, branches or commits of that repository
        #[serde(skip_serializing_if = "Option::is_none")]
        REVISION = revision: Option<Levels<String>>,
            of_place(KeyKind::Text, "the directory as it is").whole();

        /// a running server: URL, key=value pairs, a database name, or an empty string for the PG* environment
        #[serde(skip_serializing_if = "Option::is_none")]
        URL = url: Option<String>,
            of_place(KeyKind::Text, "");

        /// the host of the server by URL, observed there (see *Hosts*), with keys as of a driver; also `--host ssh:db1`
        #[serde(skip_serializing_if = "Option::is_none")]
        HOST = host: Option<DriverSpec>,
            of_place(KeyKind::Machine, "not observed");

        /// the command that restarts the server by URL, for settings that need it, with its arguments: `["sudo", "systemctl", "restart",
        /// "postgresql@16-main"]` (see *Settings by URL*); in a `[[target]]` it is `restart`
        #[serde(skip_serializing_if = "Vec::is_empty")]
        RESTART = restart: Vec<String>,
            of_place(KeyKind::List(&KeyKind::Text), "none");

        /// where a server that pgdyno runs listens for drivers on other machines: a private address of this machine (`"10.0.0.5"`), or an
        /// interface (see *Drivers*)
        #[serde(skip_serializing_if = "Option::is_none")]
        LISTEN = listen: Option<String>,
            of_place(KeyKind::Text, "a unix socket only");

        /// a setting (GUC), as text, number or boolean; on a server that pgdyno runs, `"25%"` of a memory size is a share of the machine's
        /// memory; on a server by URL, see *Settings by URL*
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        SETTINGS = settings: BTreeMap<String, Levels<SettingValue>>,
            of_place(SETTING, "see *Settings*");

        /// with `server.listen`: `on` encrypts the load's connections, and drivers verify the certificate; `off` does not
        #[serde(skip_serializing_if = "Option::is_none")]
        TLS = tls: Option<Levels<Tls>>,
            row(KeyKind::Words(&Tls::WORDS), "`off`").whole();

        /// directory for the WAL of an embedded server, owned by root or by you and writable by nobody else
        #[serde(skip_serializing_if = "Option::is_none")]
        WAL_DIRECTORY = wal_directory: Option<Levels<PathBuf>>,
            of_place(KeyKind::Text, "in the data directory").whole();

        /// whether the pages of an embedded server have checksums
        #[serde(skip_serializing_if = "Option::is_none")]
        DATA_CHECKSUMS = data_checksums: Option<Levels<bool>>,
            row(KeyKind::Flag, "initdb's default: on since 18").whole();
    }
}
