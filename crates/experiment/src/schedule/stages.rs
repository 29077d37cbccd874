//! The stages of a sequence of runs, of which at most one has a running server.

use anyhow::Result;
use model::experiment::case::Case;
use model::experiment::plan::Plan;
use wire::Conninfo;

use crate::site::Site;
use crate::site::keys::StageKey;
use crate::site::progress::Watch;
use crate::stage::{ResolvedServer, Stage};

/// Stages set up so far; each is kept, so that its data is loaded once, unless only one may be on disk.
pub(crate) struct Stages {
    is_one_at_a_time: bool,
    open: Vec<Stage>,
    asked: Vec<Asked>,
}

/// The stage of the cases with one key.
struct Asked {
    key: StageKey,
    /// Among those that are open.
    index: usize,
    /// How these cases connect, if the server is an existing one: cases that differ in encryption alone share a stage.
    conninfo: Option<Conninfo>,
}

impl Stages {
    pub(crate) fn new(plan: &Plan) -> Stages {
        Stages { is_one_at_a_time: plan.servers_at_a_time.is_some(), open: Vec::new(), asked: Vec::new() }
    }

    pub(crate) fn for_case(&mut self, case: &Case, site: &Site, watch: &mut Watch) -> Result<&mut Stage> {
        let key = StageKey::new(case);
        let known = self.asked.iter().position(|asked| asked.key == key);
        let asked = match known {
            Some(known) => &self.asked[known],
            None => {
                let found = ResolvedServer::resolve(case, &site.environment, watch)?;
                let conninfo = found.conninfo().cloned();
                let index = self.open_for(found, case, site, watch)?;
                self.asked.push(Asked { key, index, conninfo });
                &self.asked[self.asked.len() - 1]
            }
        };

        let stage = &mut self.open[asked.index];
        if let Some(conninfo) = &asked.conninfo {
            stage.connect_by(conninfo);
        }
        Ok(stage)
    }

    /// The index of the stage of a server, which is set up if there is none.
    fn open_for(
        &mut self,
        found: ResolvedServer,
        case: &Case,
        site: &Site,
        watch: &mut Watch,
    ) -> Result<usize> {
        if let Some(index) = self.open.iter().position(|stage| stage.is_of(&found)) {
            return Ok(index);
        }
        if self.is_one_at_a_time {
            self.retire()?;
        }
        let stage = Stage::set_up_next_to(&self.open, found, case, site, watch)?;
        self.open.push(stage);
        Ok(self.open.len() - 1)
    }

    /// Frees the space for the next stage.
    fn retire(&mut self) -> Result<()> {
        self.asked.clear();
        self.open.drain(..).try_for_each(Stage::retire)
    }

    /// Stops the server that runs, if one does.
    pub(crate) fn stand_down(&mut self) -> Result<()> {
        self.open.iter_mut().try_for_each(Stage::stand_down)
    }

    /// Stops it at once.
    pub(crate) fn abandon(&mut self) -> Result<()> {
        self.open.iter_mut().try_for_each(Stage::abandon)
    }
}
