//! Classes of clients: which class each client of a load belongs to, and which transactions it runs.

use std::time::Duration;

use generator::{Instance, SessionClass, Think};

use crate::random::{Prng, by_weight, poisson_gap_ns};

/// The classes of a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Classes {
    /// The classes, at least one.
    pub all: Vec<Class>,
    /// The class of each client.
    members: Vec<u16>,
}

/// A class of clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Class {
    /// Weight of each program of the load.
    pub weights: Vec<u32>,
    /// Programs one after the other, in place of a choice by weight.
    pub order: Option<ClassOrder>,
    /// The pause after each transaction that has none of its own.
    pub think: Option<Pause>,
    /// Settings of its sessions.
    pub settings: Vec<(String, String)>,
}

/// A pause between transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Mean, nanoseconds.
    pub mean_ns: u64,
    /// Whether it is drawn from an exponential distribution; else it is always the same.
    pub is_exponential: bool,
}

impl Pause {
    /// The pause of a client after the transaction with this number, nanoseconds. Its numbers are those of no other stream.
    pub fn length_ns(self, seed: u64, client: usize, number: u64) -> u64 {
        if !self.is_exponential {
            return self.mean_ns;
        }
        let stream = (client as u64).rotate_left(40) ^ number.rotate_left(20) ^ 0x7468_696e_6b00;
        poisson_gap_ns(&mut Prng::seed(seed ^ stream), self.mean_ns as f64)
    }
}

/// Transactions in an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassOrder {
    /// Indexes of programs.
    pub programs: Vec<usize>,
    /// Whether each client has an order of its own.
    pub is_permuted: bool,
}

/// How many clients a class has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClassSize {
    /// So many.
    Clients(u32),
    /// A share of those that are left.
    Share(f64),
}

impl Pause {
    /// The pause that a directory names.
    pub fn new(think: Think) -> Pause {
        let (mean, is_exponential) = match think {
            Think::Fixed(pause) => (pause, false),
            Think::Exponential(mean) => (mean, true),
        };
        Pause { mean_ns: u64::try_from(mean.as_nanos()).unwrap_or(u64::MAX), is_exponential }
    }
}

impl Classes {
    /// The classes of a workload directory in a load of these scripts with these weights; `None` if all clients are alike, and
    /// choose by weight alone.
    ///
    /// # Errors
    /// When the classes have more clients than the load, or fewer, or need what a session cannot have.
    pub fn of_directory(
        instance: &Instance,
        scripts: &[(&str, u32)],
        n_clients: u32,
    ) -> Result<Option<Classes>, String> {
        let sessions = instance.sessions();
        let is_alone = sessions.len() == 1;
        let mut all = Vec::with_capacity(sessions.len());
        for session in sessions {
            let class = Class::of_session(instance, session, scripts, is_alone)?;
            let size = match (session.clients, session.share) {
                // The clients of the only class are those of the load.
                _ if is_alone => ClassSize::Share(1.0),
                (Some(n), _) => ClassSize::Clients(n),
                (None, share) => ClassSize::Share(share.unwrap_or(0.0)),
            };
            all.push((class, size));
        }
        match &all[..] {
            [(only, _)] if only.order.is_none() && only.think.is_none() && only.settings.is_empty() => {
                Ok(None)
            }
            _ => Classes::new(all, n_clients).map(Some),
        }
    }

    /// The class of all clients of a directory's trace: sessions with the settings of the directory's first class.
    ///
    /// # Errors
    /// When the directory is wrong.
    pub fn of_trace(instance: &Instance, n_clients: u32) -> Result<Option<Classes>, String> {
        let Some(session) = instance.sessions().first() else { return Ok(None) };
        let transactions = instance.transactions().iter();
        let scripts: Vec<(&str, u32)> = transactions.map(|one| (one.name.as_str(), one.weight)).collect();
        let is_alone = instance.sessions().len() == 1;
        let settings = Class::of_session(instance, session, &scripts, is_alone)?.settings;
        let class = Class { weights: vec![1], settings, ..Class::default() };
        Classes::new(vec![(class, ClassSize::Share(1.0))], n_clients).map(Some)
    }

    /// Spreads the clients over the classes: evenly, so that each thread has clients of all classes.
    ///
    /// # Errors
    /// When the classes have more clients than the load, or fewer.
    pub fn new(all: Vec<(Class, ClassSize)>, n_clients: u32) -> Result<Classes, String> {
        let sizes: Vec<ClassSize> = all.iter().map(|(_, size)| *size).collect();
        let counts = counts(&sizes, n_clients)?;
        let n_all = u64::from(n_clients);
        let mut given = vec![0u64; counts.len()];
        let mut members = Vec::with_capacity(n_clients as usize);
        for client in 1..=n_all {
            // The class that is furthest behind what it should have by now, in units of a client divided by all.
            let behind = |class: usize| (counts[class] * client) as i64 - (given[class] * n_all) as i64;
            let next = (0..counts.len()).max_by_key(|class| (behind(*class), std::cmp::Reverse(*class)));
            let next = next.unwrap_or_default();
            given[next] += 1;
            members.push(u16::try_from(next).map_err(|_| "there are too many session classes".to_owned())?);
        }
        Ok(Classes { all: all.into_iter().map(|(class, _)| class).collect(), members })
    }

    /// The class of a client.
    #[inline]
    pub fn class_of(&self, client: usize) -> usize {
        self.members.get(client).copied().map_or(0, usize::from)
    }
}

/// The longest time of a statement in the sessions that run these transactions: a setting of the session, so that it is the
/// server that stops a statement, and nothing has to be sent for each transaction.
fn timeout(instance: &Instance, names: &[&str]) -> Result<Option<Duration>, String> {
    let of_all = instance.manifest().defaults.statement_timeout;
    let runs =
        instance.transactions().iter().filter(|transaction| names.contains(&transaction.name.as_str()));
    let mut timeouts = runs.map(|transaction| (transaction.timeout.or(of_all), &transaction.name));
    let Some((first, name)) = timeouts.next() else { return Ok(of_all) };
    match timeouts.find(|(timeout, _)| *timeout != first) {
        None => Ok(first),
        Some((_, other)) => Err(format!(
            "transactions `{name}` and `{other}` have different values of `timeout`, and one session runs both; give them session \
             classes of their own"
        )),
    }
}

/// Clients of each class: those that are given, and of the rest by shares, what is left over to the largest remainders.
fn counts(sizes: &[ClassSize], n_clients: u32) -> Result<Vec<u64>, String> {
    let fixed: u64 =
        sizes.iter().map(|size| if let ClassSize::Clients(n) = size { u64::from(*n) } else { 0 }).sum();
    let shares: f64 =
        sizes.iter().map(|size| if let ClassSize::Share(share) = size { *share } else { 0.0 }).sum();
    let left = u64::from(n_clients).checked_sub(fixed).ok_or_else(|| {
        format!("the session classes have {fixed} clients, more than the {n_clients} of the load")
    })?;
    if shares <= 0.0 && left > 0 {
        return Err(format!(
            "the session classes have {fixed} clients, fewer than the {n_clients} of the load"
        ));
    }
    let exact = |size: &ClassSize| match size {
        ClassSize::Clients(n) => f64::from(*n),
        ClassSize::Share(share) => left as f64 * share / shares,
    };
    let exact: Vec<f64> = sizes.iter().map(exact).collect();
    let mut counts: Vec<u64> = exact.iter().map(|n| n.floor() as u64).collect();
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()));
    let missing = u64::from(n_clients).saturating_sub(counts.iter().sum());
    for class in order
        .into_iter()
        .cycle()
        .filter(|class| matches!(sizes[*class], ClassSize::Share(_)))
        .take(missing as usize)
    {
        counts[class] += 1;
    }
    Ok(counts)
}

impl Class {
    fn of_session(
        instance: &Instance,
        session: &SessionClass,
        scripts: &[(&str, u32)],
        is_alone: bool,
    ) -> Result<Class, String> {
        let transactions = || instance.transactions().iter();
        let of_session = |name: &str| {
            let at = transactions().position(|transaction| transaction.name == name);
            at.and_then(|at| session.weights.get(at)).copied().unwrap_or(0)
        };
        // The weights of the load are those of the variant, or what a user has made of them.
        let weight = |(name, weight): &(&str, u32)| if is_alone { *weight } else { of_session(name) };
        let weights: Vec<u32> = scripts.iter().map(weight).collect();
        let index = |name: &String| scripts.iter().position(|(known, _)| known == name);
        let with_weight = || (0..weights.len()).filter(|script| weights[*script] > 0).collect();
        let order = match &session.order {
            None => None,
            Some(generator::Order::Permuted) => {
                Some(ClassOrder { programs: with_weight(), is_permuted: true })
            }
            Some(generator::Order::Fixed(names)) => {
                let programs: Option<Vec<usize>> = names.iter().map(index).collect();
                let programs = programs.ok_or("the order names a transaction that the load does not have")?;
                Some(ClassOrder { programs, is_permuted: false })
            }
        };
        let runs: Vec<usize> = order.as_ref().map_or_else(with_weight, |order| order.programs.clone());
        if runs.is_empty() {
            return Err(format!("nothing would run in session class `{}`", session.name));
        }
        let mut settings = session.settings.clone();
        let names: Vec<&str> = runs.iter().map(|script| scripts[*script].0).collect();
        if let Some(timeout) = timeout(instance, &names)? {
            settings.push(("statement_timeout".to_owned(), format!("{}ms", timeout.as_millis().max(1))));
        }
        let think = session.think.or(instance.manifest().defaults.think).map(Pause::new);
        Ok(Class { weights, order, think, settings })
    }

    /// The program to run next, by weight.
    pub fn choose(&self, prng: &mut Prng) -> usize {
        let mut possible = self.weights.iter().enumerate().filter(|(_, weight)| **weight > 0);
        if let (Some((only, _)), None) = (possible.next(), possible.next()) {
            return only;
        }
        let total: i64 = self.weights.iter().copied().map(i64::from).sum();
        by_weight(prng, &self.weights, total)
    }
}

impl ClassOrder {
    /// The order of a client.
    pub fn of_client(&self, seed: u64, client: usize) -> Vec<usize> {
        let mut programs = self.programs.clone();
        if self.is_permuted {
            // Fisher and Yates; the numbers are those of no other stream.
            let mut prng = Prng::seed(seed ^ (client as u64).rotate_left(40) ^ 0x6f72_6465_7273);
            for last in (1..programs.len()).rev() {
                programs.swap(last, prng.uint64_range(0, last as u64) as usize);
            }
        }
        programs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(sizes: &[ClassSize], n_clients: u32) -> Result<String, String> {
        let all = sizes.iter().map(|size| (Class::default(), *size)).collect();
        let classes = Classes::new(all, n_clients)?;
        Ok((0..n_clients as usize).map(|client| char::from(b'a' + classes.class_of(client) as u8)).collect())
    }

    #[test]
    fn clients_are_spread_evenly_over_their_classes() {
        use ClassSize::{Clients, Share};
        for (sizes, n, expected) in [
            (&[Share(1.0)][..], 3, "aaa"),
            (&[Share(1.0), Share(1.0)], 6, "ababab"),
            (&[Clients(2), Share(1.0)], 6, "babbab"),
            (&[Share(0.25), Share(0.75)], 8, "babbbabb"),
            (&[Share(1.0), Share(1.0), Share(1.0)], 4, "abca"),
            (&[Clients(1), Clients(2)], 3, "bab"),
            (&[Clients(3), Share(1.0)], 3, "aaa"),
        ] {
            let found = members(sizes, n).unwrap();
            let count = |text: &str, letter: char| text.chars().filter(|c| *c == letter).count();
            for letter in ['a', 'b', 'c'] {
                assert_eq!(count(&found, letter), count(expected, letter), "{sizes:?} {n}: {found}");
            }
        }
        assert_eq!(members(&[Share(1.0), Share(1.0)], 6).unwrap(), "ababab");
        assert!(members(&[Clients(4)], 3).unwrap_err().contains("more than the 3"));
        assert!(members(&[Clients(2)], 3).unwrap_err().contains("fewer than the 3"));
    }

    #[test]
    fn each_client_has_an_order_of_its_own_that_its_seed_repeats() {
        let order = ClassOrder { programs: (0..22).collect(), is_permuted: true };
        let (first, second) = (order.of_client(7, 0), order.of_client(7, 1));
        assert_ne!(first, second);
        assert_eq!(first, order.of_client(7, 0));
        let mut sorted = second.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, order.programs);
        let plain = ClassOrder { is_permuted: false, ..order };
        assert_eq!(plain.of_client(7, 5), plain.programs);
    }

    #[test]
    fn pauses_have_their_mean() {
        let fixed = Pause { mean_ns: 1_000_000, is_exponential: false };
        let drawn = Pause { is_exponential: true, ..fixed };
        assert_eq!(fixed.length_ns(1, 2, 3), 1_000_000);
        assert_eq!(drawn.length_ns(1, 2, 3), drawn.length_ns(1, 2, 3));
        assert_ne!(drawn.length_ns(1, 2, 3), drawn.length_ns(1, 2, 4));
        let mean = (0..10_000).map(|n| drawn.length_ns(7, n % 5, n as u64)).sum::<u64>() / 10_000;
        assert!(mean.abs_diff(1_000_000) < 40_000, "4 sigma: {mean}");
    }

    #[test]
    fn a_class_runs_what_has_weight() {
        let class = Class { weights: vec![0, 3, 0, 1], ..Class::default() };
        let mut prng = Prng::seed(1);
        let mut counts = [0; 4];
        (0..4000).for_each(|_| counts[class.choose(&mut prng)] += 1);
        assert!(counts[0] == 0 && counts[2] == 0 && counts[1] > 2800 && counts[1] < 3200, "{counts:?}");
    }
}
