//! `[pooler]`: a pooler between the load and a server that pgdyno runs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::row::{Differs, KeyKind, SETTING, of_place, row};
use super::section;
use crate::experiment::keys::levels::Levels;
use crate::experiment::keys::option::KeyOption;
use crate::experiment::topology::pooler::{
    POOL_SIZE, PROCESSES_MAX, PoolMode, PoolerAdmin, PoolerKind, SIZE_MAX,
};
use crate::text::units::SettingValue;

section! {
    /// `[pooler]`: a pooler between the load and a server that pgdyno runs.
    #[serde(deny_unknown_fields, default)]
    pooler: PoolerSection {
        /// what stands between the load and a server that pgdyno runs: `none`, `pgbouncer`, which pgdyno configures and starts for each
        /// run, or `command`, any other pooler (see *Poolers*)
        KIND = kind: Levels<PoolerKind> = Levels::one(PoolerKind::None),
            row(KeyKind::Words(&PoolerKind::WORDS), "`none`")
                .given_by(KeyOption::text("pooler", "KIND,...", "What stands between the load and the server that pgdyno runs: none, pgbouncer, or command (pooler.command)").both("What stands between the load and both sides' servers: none, pgbouncer, command"))
                .carried(Differs::Question).whole();

        /// how long a client keeps a connection of the pool (`pool_mode`): `transaction`, `session`, or `statement`
        MODE = mode: Levels<PoolMode> = Levels::one(PoolMode::Transaction),
            row(KeyKind::Words(&PoolMode::WORDS), "`transaction`").carried(Differs::Question).whole();

        /// connections of each pooler process to the server (`default_pool_size`)
        SIZE = size: Levels<u32> = Levels::one(POOL_SIZE),
            row(KeyKind::Whole(1, SIZE_MAX as u64), "20").carried(Differs::Question);

        /// number of pooler processes; several share one port of 127.0.0.1 (`so_reuseport`), one alone has a unix socket
        PROCESSES = processes: Levels<u32> = Levels::one(1),
            row(KeyKind::Whole(1, PROCESSES_MAX as u64), "1").carried(Differs::Question);

        /// another setting of pgbouncer, such as `query_wait_timeout` or `max_prepared_statements`
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        SETTINGS = settings: BTreeMap<String, Levels<SettingValue>>,
            of_place(SETTING, "that of pgbouncer").carried(Differs::Question);

        /// path of the program; as root, nobody but root may be able to replace it
        #[serde(skip_serializing_if = "Option::is_none")]
        PROGRAM = program: Option<Levels<PathBuf>>,
            of_place(KeyKind::Text, "`pgbouncer` in PATH, /usr/sbin or /usr/local/sbin").carried(Differs::Question).whole();

        /// your own configuration of pgbouncer: a file in which pgdyno fills in `{host}` and `{port}` (of the server), `{listen}` and
        /// `{listen_port}` (of the pooler), `{dir}` (its directory) and `{name}` (the database)
        #[serde(skip_serializing_if = "Option::is_none")]
        CONFIG = config: Option<PathBuf>,
            of_place(KeyKind::Text, "made by pgdyno").carried(Differs::Question);

        /// with `kind = "command"`: the command and its arguments that start the pooler in the foreground, filled in as `pooler.config`
        #[serde(skip_serializing_if = "Vec::is_empty")]
        COMMAND = command: Vec<String>,
            of_place(KeyKind::List(&KeyKind::Text), "none").carried(Differs::Question);

        /// how the pooler's queue is read: `pgbouncer` by its console (SHOW POOLS, SHOW STATS), `none` not at all
        #[serde(skip_serializing_if = "Option::is_none")]
        ADMIN = admin: Option<PoolerAdmin>,
            row(KeyKind::Words(&PoolerAdmin::WORDS), "`pgbouncer` of that kind, `none` of others").carried(Differs::Nothing);
    }
}
