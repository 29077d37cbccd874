//! The order that all threads of a load carry out, and what is derived from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::load::LoadSpec;
use model::load::drive::DriverPart;
use wire::Conninfo;
use workload::{Clock, Drawer, Seeds};

use crate::client::parsed::PreparedStatements;
use crate::client::script::Scripts;
use crate::client::session::Destination;
use crate::clock::{self, WallClock};
use crate::tally::TallyShape;
use crate::thread::schedule::LoadShare;

/// One load, as ordered and ready for the threads.
pub(crate) struct OrderedLoad<'a> {
    pub(crate) load: &'a LoadSpec,
    /// Which clients and threads of the load are this driver's.
    pub(crate) part: DriverPart,
    pub(crate) conninfos: Conninfos,
    pub(crate) scripts: &'a Scripts,
    pub(crate) wall: WallClock,
}

/// How clients connect, by their class: sessions of a class may have settings of their own.
#[derive(Debug, Clone)]
pub(crate) struct Conninfos {
    target: Arc<[Arc<Conninfo>]>,
    reads: Option<Arc<[Arc<Conninfo>]>>,
}

impl Conninfos {
    /// The connections of all classes of a load: to its target, and to where it reads, if that is elsewhere.
    pub(crate) fn new(target: Conninfo, reads: Option<Conninfo>, scripts: &Scripts) -> Conninfos {
        let of_class = |conninfo: &Conninfo, class: usize| {
            let mut own = conninfo.clone();
            if let Some(options) = scripts.session_options(class) {
                own.options = Some(own.options.map_or(options.clone(), |given| format!("{given} {options}")));
            }
            Arc::new(own)
        };
        let of_all = |conninfo| (0..scripts.n_classes()).map(|class| of_class(&conninfo, class)).collect();
        Conninfos { target: of_all(target), reads: reads.map(of_all) }
    }

    /// The connection of a class.
    pub(crate) fn of(&self, class: usize, destination: Destination) -> Arc<Conninfo> {
        let all = match (destination, &self.reads) {
            (Destination::Reads, Some(reads)) => reads,
            (Destination::Reads, None) | (Destination::Target, _) => &self.target,
        };
        Arc::clone(&all[class])
    }
}

impl OrderedLoad<'_> {
    /// Number of clients of each thread of this driver.
    pub(crate) fn shares(&self) -> Vec<usize> {
        self.all_shares()[self.first_thread()..][..self.n_threads()].to_vec()
    }

    /// Number of this driver's first client in the load.
    pub(crate) fn first_client(&self) -> usize {
        self.all_shares()[..self.first_thread()].iter().sum()
    }

    /// The place of one of this driver's threads among those of all drivers.
    pub(crate) fn share(&self, thread: usize) -> LoadShare {
        LoadShare { thread: self.first_thread() + thread, n_threads: self.n_all_threads() }
    }

    /// Number of clients of each thread of all drivers.
    fn all_shares(&self) -> Vec<usize> {
        split(self.load.n_clients as usize, self.n_all_threads())
    }

    pub(crate) fn first_thread(&self) -> usize {
        self.part.index as usize * self.n_threads()
    }

    pub(crate) fn n_all_threads(&self) -> usize {
        self.part.of.max(1) as usize * self.n_threads()
    }

    fn n_threads(&self) -> usize {
        self.load.n_threads.max(1) as usize
    }

    /// The random streams of all drivers, and the variables of all clients.
    pub(crate) fn seeds(&self) -> (Seeds, BTreeMap<String, String>) {
        let (n_clients, n_threads) = (self.load.n_clients as usize, self.n_all_threads());
        let mut defines = self.load.defines.clone();
        // pgbench prints the seed as a signed integer, so it may be given as one.
        let number = |text: &String| text.parse().ok().or_else(|| Some(text.parse::<i64>().ok()? as u64));
        // With any other text, pgbench does not draw a default seed either.
        let default_seed = defines.get("default_seed").map(|text| number(text).unwrap_or(0));
        let seeds = Seeds::derive_with(self.load.seed, n_clients, n_threads, default_seed);
        let scale = defines.get("scale").and_then(|scale| scale.parse().ok()).unwrap_or(1);
        workload::insert_automatic_variables(&mut defines, scale, self.load.seed, seeds.default_seed);
        (seeds, defines)
    }

    /// Which parameters the client with this number draws.
    pub(crate) fn drawer(&self, client: usize) -> Drawer {
        let clock = Clock(clock::wall_us);
        Drawer { client: client as u32, n_clients: self.load.n_clients, seed: self.load.seed, clock }
    }

    /// The variables of all clients.
    pub(crate) fn defines(&self) -> BTreeMap<String, String> {
        self.seeds().1
    }

    /// The size of each thread's tally.
    pub(crate) fn shape(&self) -> TallyShape {
        let n_commands = self.scripts.n_commands();
        TallyShape {
            n_statements: self.scripts.n_statements(),
            n_commands: if self.load.time_commands { n_commands } else { vec![0; n_commands.len()] },
            n_facts: self.scripts.facts().iter().map(|names| names.len()).collect(),
            is_open_loop: self.load.pace.is_open(),
        }
    }

    /// What the connections made before the load have parsed: `None` (everything), unless statements are parsed when they first run.
    pub(crate) fn parsed_beforehand(&self) -> Option<PreparedStatements> {
        if self.scripts.parses_late() { self.scripts.nothing_parsed() } else { None }
    }
}

/// Clients per thread, as pgbench spreads them: even, the larger shares last.
fn split(n_clients: usize, n_threads: usize) -> Vec<usize> {
    let mut left = n_clients;
    (0..n_threads)
        .map(|i| {
            let share = (left + n_threads - i - 1) / (n_threads - i);
            left -= share;
            share
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn clients_are_spread_as_pgbench_spreads_them() {
        let check =
            |n_clients, n_threads, expected: &[usize]| assert_eq!(split(n_clients, n_threads), expected);
        check(8, 1, &[8]);
        check(8, 2, &[4, 4]);
        check(7, 3, &[3, 2, 2]);
        check(2, 2, &[1, 1]);
    }
}
