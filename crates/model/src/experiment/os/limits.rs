//! What a provider sells: limits of devices and network that no measurement shows for sure.

pub use crate::experiment::keys::limits::Limits;

impl Limits {
    /// The given keys with their values.
    pub fn all(&self) -> Vec<(&'static str, f64)> {
        let all = [
            ("data_iops", self.data_iops),
            ("data_mb_s", self.data_mb_s),
            ("wal_iops", self.wal_iops),
            ("wal_mb_s", self.wal_mb_s),
            ("network_mb_s", self.network_mb_s),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }

    /// These, and where one is not given that of `others`.
    pub fn or(self, others: Limits) -> Limits {
        Limits {
            data_iops: self.data_iops.or(others.data_iops),
            data_mb_s: self.data_mb_s.or(others.data_mb_s),
            wal_iops: self.wal_iops.or(others.wal_iops),
            wal_mb_s: self.wal_mb_s.or(others.wal_mb_s),
            network_mb_s: self.network_mb_s.or(others.network_mb_s),
        }
    }

    /// Whether nothing is declared.
    pub fn is_empty(&self) -> bool {
        self.all().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_target_come_before_those_of_the_experiment() {
        let all = Limits { data_iops: Some(2000.0), network_mb_s: Some(100.0), ..Limits::default() };
        let target = Limits { data_iops: Some(16_000.0), ..Limits::default() };
        assert_eq!(target.or(all).all(), [("data_iops", 16_000.0), ("network_mb_s", 100.0)]);
    }
}
