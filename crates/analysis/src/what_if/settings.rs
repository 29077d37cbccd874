//! Lifts by settings of the server: of a server that pgdyno runs all of them, of another one those of the load's own sessions, and
//! with consent what a reload applies.

use model::experiment::case::setting::{self, DataMaker};
use model::run::server::ServerRecord;

use crate::summary::proof::ProofKind;
use crate::what_if::WhatIf;
use crate::what_if::choose::{Change, Circumstances};

/// Most of the memory that a what-if gives to shared buffers, as a share.
const BUFFERS_SHARE_MAX: f64 = 0.4;
/// How much larger a setting becomes that is to be out of the way.
pub(super) const LARGER: u64 = 8;
const MIB: u64 = 1 << 20;
/// Settings that what-ifs change and that a session may have of its own: context `user` or `superuser` in `pg_settings`.
pub const OF_SESSIONS: [&str; 3] = ["synchronous_commit", "wal_compression", "work_mem"];
/// Settings that are not changed for everybody on a server that pgdyno does not run, and why.
const OF_OUR_SERVERS: [(&str, &str); 5] = [
    ("shared_buffers", "would need a restart of a server that pgdyno does not run"),
    ("huge_pages", "would need a restart of a server that pgdyno does not run"),
    ("full_page_writes", FOR_COPIES),
    ("fsync", FOR_COPIES),
    (
        "synchronous_commit",
        "is changed for the load's own sessions alone, of a server that pgdyno does not run",
    ),
];
/// The reason for settings without which a crash may lose data.
const FOR_COPIES: &str = "is changed on a copy only, of a server that pgdyno runs";

impl Circumstances<'_> {
    /// The case with a setting of its server, or of its sessions.
    fn lifted(&self, name: &str, value: &str, side_effect: &'static str) -> Change {
        if self.setting(name) == Some(value) {
            return Err(format!("{name} is {value} already"));
        }
        if !self.is_own() && OF_SESSIONS.contains(&name) {
            match self.lifted_in_sessions(name, value, side_effect) {
                Err(reason) if !self.allow_changes => return Err(reason),
                // What everybody there would have needs consent, which is given.
                Err(_) => {}
                Ok(what_if) => return Ok(what_if),
            }
        }
        let refusal = OF_OUR_SERVERS.iter().find(|(refused, _)| !self.is_own() && *refused == name);
        if let Some((_, reason)) = refusal {
            return Err(format!("{name} {reason}"));
        }
        if !self.is_own() && !self.allow_changes {
            return Err(format!(
                "{name} is a setting of a server that pgdyno does not run; --allow-changes allows it"
            ));
        }
        let mut case = self.case.clone();
        // It acts on the load: what was loaded is what was measured.
        if setting::makes_data(name, DataMaker::of_workload(&case.workload)) {
            case.data_settings = Some(setting::of_its_data(self.case).clone());
        }
        case.server.settings.insert(name.to_string(), value.to_string());
        Ok(self.changed(ProofKind::Lift, format!("{name}={value}"), side_effect, case))
    }

    /// The case whose load asks for a setting when it connects: nobody else has it.
    fn lifted_in_sessions(&self, name: &str, value: &str, side_effect: &'static str) -> Change {
        if let Some(mode) = self.record.server.as_ref().and_then(ServerRecord::pooler) {
            return Err(format!(
                "{name} would be set by the options of the load's sessions, which the pooler in {mode} mode does not hand on"
            ));
        }
        if !self.settable.contains(name) {
            return Err(format!(
                "{name} cannot be set in a session by this role; a superuser may grant that (15 and later): \
                 grant set on parameter {name}"
            ));
        }
        let mut case = self.case.clone();
        case.workload.session_settings.insert(name.to_string(), value.to_string());
        Ok(self.changed(ProofKind::Lift, format!("{name}={value} in the load's sessions"), side_effect, case))
    }

    /// A commit waits for this server's WAL alone.
    pub(super) fn without_waiting_for_standbys(&self) -> Change {
        self.lifted("synchronous_commit", "local", "a standby may lack the latest commits")
    }

    pub(super) fn without_waiting_for_wal(&self) -> Change {
        self.lifted("synchronous_commit", "off", "a crash loses the commits of the last moments")
    }

    /// What a run begins with is a copy: a crash loses nothing that is not made again.
    pub(super) fn without_fsync(&self) -> Change {
        self.lifted(
            "fsync",
            "off",
            "no file is durable, which is for throw-away copies alone; checkpoints wait for nothing, too",
        )
    }

    pub(super) fn without_full_pages(&self) -> Change {
        self.lifted("full_page_writes", "off", "a crash may tear pages, which is for throw-away copies alone")
    }

    /// Only full pages in WAL are compressed.
    pub(super) fn compressed_wal(&self) -> Change {
        if self.setting("wal_compression").is_some_and(|value| value != "off") {
            return Err("wal_compression is on already".to_string());
        }
        // Every server has this method (pglz), which 15 calls `on` as well.
        let what_if = self.lifted("wal_compression", "on", "compressing takes processors")?;
        Ok(WhatIf { is_partial: true, ..what_if })
    }

    pub(super) fn without_autovacuum(&self) -> Change {
        self.lifted("autovacuum", "off", "dead rows are not removed")
    }

    pub(super) fn fewer_checkpoints(&self) -> Change {
        if !self.case.wal.is_as_is() {
            return Err("run.wal says which checkpoints it has".to_string());
        }
        let now = self.size("max_wal_size").ok_or("max_wal_size is not known")?;
        let larger = (now * LARGER).max(1 << 30);
        let mounts = self.record.server_host().map(|host| &host.mounts);
        let free =
            mounts.and_then(|mounts| mounts.get("wal").or(mounts.get("data"))).map(|mount| mount.free_bytes);
        match free {
            _ if self.is_own() => {}
            Some(free) if free < 2 * larger => {
                return Err(format!("max_wal_size={}MB might not fit on its disk", larger / MIB));
            }
            None => {
                return Err("max_wal_size would need disk space of which nothing is known".to_string());
            }
            Some(_) => {}
        }
        let mut what_if =
            self.lifted("max_wal_size", &format!("{}MB", larger / MIB), "recovery would take longer")?;
        // The time would request what the amount does not any more.
        what_if.case.server.settings.insert("checkpoint_timeout".to_string(), "1h".to_string());
        what_if.change.push_str(" checkpoint_timeout=1h");
        Ok(what_if)
    }

    pub(super) fn more_buffers(&self) -> Change {
        let now = self.size("shared_buffers");
        let (now, memory) =
            now.zip(self.memory_bytes()).ok_or("shared_buffers or the memory is not known")?;
        let data = self.record.server.as_ref().map_or(0, |server| server.database_bytes);
        let most = (memory as f64 * BUFFERS_SHARE_MAX) as u64;
        let wanted = (data + data / 4).max(LARGER * now).min(most);
        if wanted < now + now / 2 {
            return Err("shared_buffers have most of the memory that they can get".to_string());
        }
        self.lifted("shared_buffers", &format!("{}MB", wanted / MIB), "the kernel caches less")
    }

    /// All clients together get a quarter of the memory; of a machine that is not known, as much as shared buffers have.
    pub(super) fn more_work_mem(&self) -> Change {
        let now = self.size("work_mem");
        let known = self.memory_bytes().map(|memory| memory / 4).or_else(|| self.size("shared_buffers"));
        let (now, memory) = now.zip(known).ok_or("work_mem or the memory is not known")?;
        let most = memory / u64::from(self.n_clients().max(1));
        let wanted = (now * LARGER * LARGER).min(most);
        if wanted < 2 * now {
            return Err("work_mem has most of the memory that it can get".to_string());
        }
        self.lifted("work_mem", &format!("{}kB", wanted / 1024), "memory that the kernel does not cache in")
    }

    /// Fewer misses of the address cache. They cost a part of the processors' time, so that this refutes nothing.
    pub(super) fn huge_pages(&self) -> Change {
        if self.setting("huge_pages") == Some("on") || self.setting("huge_pages_status") == Some("on") {
            return Err("the server has huge pages already".to_string());
        }
        let facts = self.record.server_host().map(|host| &host.facts);
        let fact = |name: &str| facts?.get(name)?.parse::<u64>().ok();
        let reserved =
            fact("huge_pages_total").zip(fact("huge_page_bytes")).map_or(0, |(n, bytes)| n * bytes);
        // What is shared besides the buffers is a small part of them.
        let wanted = self.size("shared_buffers").map(|bytes| bytes + bytes / 8 + (16 << 20));
        if wanted.is_none_or(|wanted| reserved < wanted) {
            return Err("no huge pages are reserved for its shared memory (vm.nr_hugepages)".to_string());
        }
        let what_if = self.lifted("huge_pages", "on", "memory that nobody else can use")?;
        Ok(WhatIf { is_partial: true, ..what_if })
    }
}
