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

    /// Checks that each value is a positive number.
    ///
    /// # Errors
    /// In words, with the key.
    pub fn check(&self) -> Result<(), String> {
        let wrong = self.all().into_iter().find(|(_, value)| !(value.is_finite() && *value > 0.0));
        wrong.map_or(Ok(()), |(key, value)| {
            Err(format!("limits.{key}: {value} is not a positive number; example: 3000"))
        })
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

    #[test]
    fn limits_are_positive_numbers() {
        let limits = |data_iops| Limits { data_iops: Some(data_iops), ..Limits::default() };
        limits(2000.0).check().unwrap();
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(limits(wrong).check().unwrap_err().starts_with("limits.data_iops: "), "{wrong}");
        }
    }
}
