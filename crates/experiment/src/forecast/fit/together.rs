//! Levels of clients and targets with those that vary together with them: what is left out of one is left out of all.

use model::experiment::Experiment;
use model::experiment::keys;
use model::experiment::keys::levels::Levels;
use model::experiment::selector::names;

use super::figures::Needs;
use super::{keep, replace, thinned_places};

pub(super) const CLIENTS: &str = keys::workload::CLIENTS.name;
const TARGET: &str = "target";
const THREADS: &str = keys::workload::THREADS.name;

/// Keeps the numbers of clients up to `most`, and of those above it the smallest that make `n_least` in all; `most` if there is none.
pub(super) fn keep_clients(experiment: &mut Experiment, most: u32, n_least: usize) {
    let clients = experiment.workload.clients.all();
    let mut sorted = clients.to_vec();
    sorted.sort_unstable();
    let n_fit = sorted.iter().filter(|n| **n <= most).count();
    let largest = sorted.get(n_fit.max(n_least).saturating_sub(1)).copied().unwrap_or(most);
    let fits = |n: u32| n <= most || (n_fit > 0 && n <= largest);
    let kept: Vec<usize> = (0..clients.len()).filter(|&n| fits(clients[n])).collect();
    let is_alone = !has(experiment, CLIENTS, TARGET) && !has(experiment, CLIENTS, THREADS);
    if kept.is_empty() || is_alone {
        keep(&mut experiment.workload.clients, |n| fits(*n), most);
        return;
    }
    if has(experiment, CLIENTS, TARGET) {
        // No target is left out for its clients: it gets as many as this machine bears.
        let levels = clients.iter().map(|&n| n.min(most)).collect();
        return replace(&mut experiment.workload.clients, levels);
    }
    choose(experiment, CLIENTS, &kept);
}

/// Leaves at most `n_max` threads, which vary together with clients and targets if a zip says so.
pub(super) fn keep_threads(experiment: &mut Experiment, n_max: u32) {
    let has_target = has(experiment, THREADS, TARGET);
    let n_clients = experiment.workload.clients.all().len();
    let is_with_clients = has(experiment, THREADS, CLIENTS);
    let Some(levels) = &mut experiment.workload.threads else { return };
    // Where other clients were chosen, the zip is left out.
    let is_alone = !has_target && (!is_with_clients || levels.all().len() != n_clients);
    if is_alone {
        return keep(levels, |n| *n <= n_max, n_max);
    }
    let fewer = levels.all().iter().map(|n| (*n).min(n_max)).collect();
    replace(levels, fewer);
}

/// How many numbers of clients are up to `first`.
pub(super) fn n_clients(experiment: &Experiment, first: u32) -> usize {
    experiment.workload.clients.all().iter().filter(|n| **n <= first).count()
}

/// Whether each target has a number of clients of its own.
pub(super) fn has_clients_of_targets(experiment: &Experiment) -> bool {
    has(experiment, CLIENTS, TARGET)
}

/// At most `n` numbers of clients with those that are wanted, unless each belongs to a target: those above `first` only when there are no
/// others left. A single one is that in the middle: the first is usually one client, which says little of a server.
pub(super) fn thin_clients(
    experiment: &mut Experiment,
    n: usize,
    first: u32,
    is_wanted: impl Fn(u32) -> bool,
) {
    if has(experiment, CLIENTS, TARGET) {
        return;
    }
    let all = experiment.workload.clients.all();
    let is_first = |place: &usize| all[*place] <= first || is_wanted(all[*place]);
    let (mut places, mut last): (Vec<usize>, Vec<usize>) = (0..all.len()).partition(is_first);
    last.sort_by_key(|&place| all[place]);
    let n_missing = n.max(1).saturating_sub(places.len());
    places.extend(last.into_iter().take(n_missing));
    places.sort_unstable();
    let levels: Vec<u32> = places.iter().map(|&place| all[place]).collect();
    let chosen = if n == 1 && !levels.iter().any(|n| is_wanted(*n)) {
        vec![levels.len() / 2]
    } else {
        thinned_places(&levels, n, |n| is_wanted(*n))
    };
    let places: Vec<usize> = chosen.into_iter().map(|at| places[at]).collect();
    choose(experiment, CLIENTS, &places);
}

/// At most `n` targets, or as many as figures need.
pub(super) fn thin_targets(experiment: &mut Experiment, n: usize, needs: &Needs) {
    let n = n.max(needs.least(TARGET));
    let places = needs
        .targets(&experiment.target, n)
        .unwrap_or_else(|| thinned_places(&experiment.target, n, |target| needs.wants(TARGET, &target.name)));
    choose(experiment, TARGET, &places);
}

/// Whether the keys vary together.
fn has(experiment: &Experiment, key: &str, other: &str) -> bool {
    let within = |keys: &[String], whole: &str| keys.iter().any(|key| names(key, whole));
    experiment.experiment.zip.iter().any(|keys| within(keys, key) && within(keys, other))
}

/// Keeps the levels of `key` at these places, and those of targets, clients and threads that vary with it.
fn choose(experiment: &mut Experiment, key: &str, places: &[usize]) {
    fn at<T: Clone>(levels: &mut Levels<T>, places: &[usize]) {
        let kept = places.iter().filter_map(|&n| levels.all().get(n).cloned()).collect();
        replace(levels, kept);
    }
    let is_chosen = |other: &str| key == other || has(experiment, key, other);
    let (target, clients, threads) = (is_chosen(TARGET), is_chosen(CLIENTS), is_chosen(THREADS));
    if target && !experiment.target.is_empty() {
        experiment.target = places.iter().filter_map(|&n| experiment.target.get(n).cloned()).collect();
    }
    if clients {
        at(&mut experiment.workload.clients, places);
    }
    if let Some(levels) = experiment.workload.threads.as_mut()
        && threads
    {
        at(levels, places);
    }
}
