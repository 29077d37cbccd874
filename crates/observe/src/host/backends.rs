//! CPU time of the server's backends, by whom they serve: the load, or sessions that are not pgdyno's.
//!
//! The server says whose a backend is about once per tick, a moment after it began. Until then its time is not
//! attributed; afterwards all of it is. A backend that begins and ends between two answers is never attributed.

use std::collections::HashMap;

use model::telemetry::watch::Backends;

use crate::host::process::Process;

/// Sums since the first reading, and what each process has not been attributed yet.
#[derive(Debug, Default)]
pub(crate) struct BackendTimes {
    /// Time of each living process that is attributed already, or was used before the first reading.
    counted: HashMap<i32, Counted>,
    is_begun: bool,
    pub(crate) load_s: f64,
    pub(crate) foreign_s: f64,
}

#[derive(Debug, Clone, Copy)]
struct Counted {
    starttime: u64,
    cpu_s: f64,
}

impl BackendTimes {
    /// Adds what these processes, all of the server's, have used since the last reading.
    pub(crate) fn read(&mut self, processes: &[Process], backends: &Backends) {
        let mut counted = HashMap::with_capacity(processes.len());
        for process in processes {
            let known = self.counted.get(&process.pid).filter(|known| known.starttime == process.starttime);
            // A process that has appeared since the last reading began with nothing.
            let new_s = if self.is_begun { 0.0 } else { process.cpu_s };
            let before_s = known.map_or(new_s, |known| known.cpu_s);
            let whose = match process.pid {
                pid if backends.load.contains(&pid) => Some(&mut self.load_s),
                pid if backends.foreign.contains(&pid) => Some(&mut self.foreign_s),
                _ => None,
            };
            let cpu_s = match whose {
                Some(sum_s) => {
                    *sum_s += (process.cpu_s - before_s).max(0.0);
                    process.cpu_s
                }
                None => before_s,
            };
            counted.insert(process.pid, Counted { starttime: process.starttime, cpu_s });
        }
        self.counted = counted;
        self.is_begun = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, starttime: u64, cpu_s: f64) -> Process {
        Process { pid, starttime, cpu_s, state: 'S' }
    }

    #[test]
    fn time_is_attributed_once_and_from_the_first_reading_on() {
        let mut backends = Backends { load: [1].into(), ..Backends::default() };
        let mut times = BackendTimes::default();
        // Before the observation, the load's backend had used 5 s and another one 7 s.
        times.read(&[process(1, 10, 5.0), process(2, 10, 7.0), process(9, 1, 3.0)], &backends);
        assert_eq!((times.load_s, times.foreign_s), (0.0, 0.0));
        times.read(&[process(1, 10, 5.5), process(2, 10, 7.25), process(3, 20, 0.5)], &backends);
        assert_eq!((times.load_s, times.foreign_s), (0.5, 0.0));
        // What is foreign becomes known late; the backend 3 is new.
        backends.foreign = [2, 3].into();
        times.read(&[process(1, 10, 6.0), process(2, 10, 7.5), process(3, 20, 1.0)], &backends);
        assert_eq!((times.load_s, times.foreign_s), (1.0, 1.5));
        // The process id 2 is used again.
        times.read(&[process(1, 10, 6.0), process(2, 30, 0.25)], &backends);
        assert_eq!((times.load_s, times.foreign_s), (1.0, 1.75));
    }
}
