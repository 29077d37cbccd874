//! Restores the data of an existing server: by copying a template, or by loading it again.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use dataset::clearance::published::{self, Creator};
use dataset::load::LoadReport;
use dataset::session::{self, lock};
use dataset::state::untouched::settings_digest;
use model::experiment::case::setting::DataMaker;
use model::experiment::case::{Case, WorkloadSpec};
use model::experiment::script::CaseData;
use model::experiment::script::archive::Archive;
use model::workload::Dataset;
use server::database::target::Flavor;
use server::database::template::{self, Restored};
use server::running::restorer::Restorer;
use wire::session::Session;

use super::{Adopted, Detail};
use crate::site::progress::{ProgressEvent, Watch};
use crate::site::{Environment, Permissions, Site, phase_limit};
use crate::stage::copies::{self, CopyInputs};
use crate::stage::own_data::{ArchiveRestore, FilesRun, UNLIKE_SOURCE, Whose};
use crate::stage::reach::reach;
use crate::stage::{directory_data, loaded_before, made_under, own_data};

impl Adopted {
    /// Restores by copying a template if one is possible and serves more than one run, else by loading.
    pub(super) fn restore_tables(
        &mut self,
        case: &Case,
        mut session: Session,
        site: &Site,
        watch: &mut Watch,
    ) -> Result<Detail> {
        let planned = copies::data_name(case);
        let wish = CopyInputs {
            by: case.prepare.restore_by,
            n_runs: site.environment.runs_by_data.get(&planned).copied().unwrap_or(1),
            is_pooled: self.facts.is_pooled,
            may_replace: site.permissions.replace_databases.contains(&self.conninfo.dbname),
            is_archive: copies::is_archive(&case.workload),
        };
        let key = template_key(&mut session, case)?;
        if wish.by.may_copy() {
            self.copies.look(&wish, &mut session, &self.conninfo, &site.environment, watch)?;
        }
        let mut detail: Detail = made_under(case).into_iter().collect();
        let is_kept = self.copies.wanted(&wish).is_some_and(|templates| templates.has(&key));
        if !is_kept {
            detail.extend(self.expect_unchanged(&wish, &site.environment)?);
            let before = self.holders(case, &wish, &mut session)?;
            detail.extend(match self.untouched(case, &wish, &site.permissions, &mut session, watch)? {
                Some(as_it_is) => as_it_is,
                None => self.load(case, &mut session, site, watch)?,
            });
            let (again, facts) =
                self.keep(&wish, &key, &case.workload, &before, session, &site.environment)?;
            session = again;
            detail.extend(facts);
        }
        if self.copies.wanted(&wish).is_some() {
            let (done, facts) = self.put_back(&wish, &key, session, &site.environment)?;
            detail.extend(facts);
            match done {
                Some(done) => detail.extend(done),
                None if is_kept => {
                    session = session::open(&self.conninfo, site.environment.stop)?;
                    detail.extend(self.load(case, &mut session, site, watch)?);
                }
                // The database is as it was: just loaded.
                None => {}
            }
        }
        if self.copies.wanted(&wish).is_none() {
            detail.extend(self.copies.why_not(&wish).map(|why| ("no_template".to_string(), why)));
        }
        let unlike_source = self.unlike_source.get(&planned).cloned().flatten();
        detail.extend(unlike_source.map(|words| (UNLIKE_SOURCE.to_string(), words)));
        Ok(detail)
    }

    /// Before data is loaded while there are templates of other data: objects that somebody created in the database in
    /// the meantime would later be replaced by one of the templates.
    fn expect_unchanged(&mut self, wish: &CopyInputs, environment: &Environment) -> Result<Detail> {
        let Some(templates) = self.copies.kept() else { return Ok(Detail::new()) };
        match templates.expect_unchanged() {
            Ok(()) => Ok(Detail::new()),
            Err(error) => {
                environment.go_on()?;
                self.copies.give_up(wish, error)
            }
        }
    }

    /// Relations that contain data before files run that may create more.
    fn holders(&mut self, case: &Case, wish: &CopyInputs, session: &mut Session) -> Result<BTreeSet<u32>> {
        let is_their_own = Dataset::from_case_data(&case.workload.data).is_none() || wish.is_archive;
        if is_their_own && self.copies.wanted(wish).is_some() {
            template::holders(session)
        } else {
            Ok(BTreeSet::new())
        }
    }

    /// Replaces the database by its template; `session` is the last one in it and ends. Returns no facts of a copy if
    /// that failed and data has to be loaded again; if only the next template failed, the next run loads.
    fn put_back(
        &mut self,
        wish: &CopyInputs,
        key: &str,
        session: Session,
        environment: &Environment,
    ) -> Result<(Option<Detail>, Detail)> {
        let Some(templates) = self.copies.wanted(wish) else { return Ok((None, Detail::new())) };
        // No sessions may be connected to the database while it is replaced.
        drop(session);
        self.holder = None;
        let done = templates.restore(key);
        self.hold_again(environment)?;
        let (detail, kept) = match done {
            Ok(Restored { detail, kept }) => (Some(detail), kept),
            Err(error) => (None, Err(error)),
        };
        let mut facts = Detail::new();
        if let Err(error) = kept {
            environment.go_on()?;
            facts = self.copies.give_up(wish, error)?;
        }
        Ok((detail, facts))
    }

    /// Facts of a restore that finds its data as `pgdyno init`, or an experiment that only read, left it. Only for the
    /// first restore: the statistics that prove it may lag behind runs that ended just now.
    fn untouched(
        &mut self,
        case: &Case,
        wish: &CopyInputs,
        permissions: &Permissions,
        session: &mut Session,
        watch: &mut Watch,
    ) -> Result<Option<Detail>> {
        let is_first = !std::mem::replace(&mut self.has_restored, true);
        if !is_first || !wish.by.may_copy() || permissions.replace || wish.is_archive {
            return Ok(None);
        }
        let Some(marker) = loaded_before::find(session, &case.workload)? else { return Ok(None) };
        let what = loaded_before::words(&marker);
        watch(ProgressEvent::Note(format!(
            "the data that pgdyno loaded before ({what}) is unchanged: it is used, and not loaded again"
        )));
        let method = format!("none: the data is as it was loaded before, and unchanged ({what})");
        Ok(Some(Detail::from([("method".to_string(), method)])))
    }

    fn load(&mut self, case: &Case, session: &mut Session, site: &Site, watch: &mut Watch) -> Result<Detail> {
        if let CaseData::Files(files) = &case.workload.data {
            // Looked for before each load: a publication may be new, and a resumed experiment was not examined before.
            if !site.permissions.risks.published {
                published::expect_none(session, None, Creator::Load)?;
            }
            let run = FilesRun {
                files,
                whose: Whose::ByUrl,
                scale: case.workload.scale,
                risks: site.permissions.risks,
            };
            let done = own_data::run_files(session, &run, site.environment.stop, watch)?;
            self.unlike_source.insert(copies::data_name(case), done.unlike_source);
            return Ok(Detail::from([("method".to_string(), format!("run again: {}", done.words))]));
        }
        if case.workload.data == CaseData::Directory {
            if !site.permissions.risks.published {
                published::expect_none(session, None, Creator::Load)?;
            }
            // What this experiment has loaded it may replace.
            let name = case.workload.directory.as_ref().map(|directory| directory.name.clone());
            let may_replace = site.permissions.replace || self.loaded_directories.contains(&name);
            let report =
                directory_data::load_by_url(session, &self.conninfo, case, may_replace, site, watch)?;
            self.loaded_directories.insert(name);
            return Ok(loaded_again(&report));
        }
        if let CaseData::Archive(archive) = &case.workload.data {
            return self.restore_archive(case, archive, session, site, watch);
        }
        let report = site.load(session, &self.conninfo, &case.workload, watch)?;
        Ok(loaded_again(&report))
    }

    /// Restores an archive into the empty database.
    fn restore_archive(
        &mut self,
        case: &Case,
        archive: &Archive,
        session: &mut Session,
        site: &Site,
        watch: &mut Watch,
    ) -> Result<Detail> {
        copies::expect_empty(session)?;
        let reach = reach(session, site.permissions.risks)?;
        ensure!(reach.is_empty(), "{}", reach.join("; "));
        let scratch = files::trust::make_directory(&site.environment.cache.dir)?;
        let restorer =
            Restorer::of_url(&self.conninfo, session.server_version_num(), &archive.dump_version, &scratch)?;
        let restore = ArchiveRestore {
            workload: &case.workload,
            archive,
            restorer: &restorer,
            whose: Whose::ByUrl,
            longest: phase_limit::for_case(case),
        };
        let done = own_data::restore_archive(session, &restore, &site.environment, watch);
        let stop = site.environment.stop;
        let sound = |done| {
            directory_data::restored::expect_sound(&self.conninfo, &case.workload, archive, stop)
                .map(|()| done)
        };
        let done = done.and_then(sound).with_context(|| {
            let name = &self.conninfo.dbname;
            format!(
                "database `{name}` may hold a part of the archive: drop and create it before the next attempt"
            )
        })?;
        self.unlike_source.insert(copies::data_name(case), done.unlike_source);
        Ok(Detail::from([("archive".to_string(), done.words)]))
    }

    /// Makes a template of the data that was loaded just now, if one is wanted; if that is impossible, data is loaded
    /// again before each run. Returns a session in the database, and facts for the record.
    fn keep(
        &mut self,
        wish: &CopyInputs,
        key: &str,
        workload: &WorkloadSpec,
        before: &BTreeSet<u32>,
        mut session: Session,
        environment: &Environment,
    ) -> Result<(Session, Detail)> {
        let Some(templates) = self.copies.wanted(wish) else {
            // Other data may have templates, whose next restore has to take this load into account.
            let taken = self.copies.kept().map_or(Ok(()), template::Templates::take_stock);
            let facts = taken.or_else(|error| self.copies.give_up(wish, error).map(drop));
            return facts.map(|()| (session, Detail::new()));
        };
        // In this order: the second examination sees what somebody creates, or it differs from the first.
        let alone =
            templates.take_stock().and_then(|()| copies::expect_alone(&mut session, workload, before));
        // No sessions may be connected to the database while it is copied.
        drop(session);
        self.holder = None;
        let made = alone.and_then(|()| templates.make(key));
        self.hold_again(environment)?;
        let mut facts = Detail::new();
        if let Err(error) = made {
            environment.go_on()?;
            facts = self.copies.give_up(wish, error.context("cannot make a template of the data"))?;
        }
        Ok((session::open(&self.conninfo, environment.stop)?, facts))
    }

    /// Takes the locks on the database again whose sessions have ended, as they do when the server is restarted.
    pub(super) fn hold_all(&mut self, environment: &Environment) -> Result<()> {
        if self.holder.as_mut().is_some_and(|holder| holder.query("select 1").is_err()) {
            self.holder = None;
            self.hold_again(environment)?;
        }
        self.copies.kept().map_or(Ok(()), template::Templates::hold)
    }

    /// Takes the lock on the database again, after it was released for a copy.
    fn hold_again(&mut self, environment: &Environment) -> Result<()> {
        if self.facts.flavor != Flavor::Postgres || self.facts.pools_transactions || self.holder.is_some() {
            return Ok(());
        }
        let mut holder = session::open(&self.conninfo, environment.stop)?;
        lock::take_again(&mut holder)?;
        self.holder = Some(holder);
        Ok(())
    }
}

/// Facts of data that was loaded before a run.
fn loaded_again(report: &LoadReport) -> Detail {
    Detail::from([
        ("method".to_string(), format!("loaded again, {} rows in {:.3} s", report.n_rows, report.seconds)),
        ("load_seconds".to_string(), format!("{:.3}", report.seconds)),
    ])
}

/// What a template is a copy of: the data of the case, made under the settings that the server has now, whoever has set them. An archive is
/// restored once.
fn template_key(session: &mut Session, case: &Case) -> Result<String> {
    let name = copies::data_name(case);
    if copies::is_archive(&case.workload) {
        return Ok(name);
    }
    Ok(format!("{name} settings={}", settings_digest(session, DataMaker::of_workload(&case.workload))?))
}
