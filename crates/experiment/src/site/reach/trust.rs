//! Whose directory it is: pgdyno's own, one that the user trusts by its hash, or a stranger's.

use std::fmt;
use std::str::FromStr;

use generator::Directory;
use model::experiment::case::WorkloadSpec;
use model::experiment::case::directory::WorkloadDirectory;

/// Digits of a hash that people type.
const DIGITS: usize = 12;

/// The texts of a workload directory, by the first digits of their SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrustedWorkload(u64);

impl FromStr for TrustedWorkload {
    type Err = String;

    fn from_str(text: &str) -> Result<TrustedWorkload, String> {
        let is_hash = text.len() >= DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let digits = if is_hash { text.get(..DIGITS) } else { None };
        let hash = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        hash.map(TrustedWorkload).ok_or_else(|| {
            format!("`{text}` is no hash of {DIGITS} hexadecimal digits, as the refusal names it")
        })
    }
}

impl fmt::Display for TrustedWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.0)
    }
}

impl TrustedWorkload {
    /// The hash of the texts that would run: what a plan says of them is not asked.
    pub fn from_directory(directory: &WorkloadDirectory) -> Option<TrustedWorkload> {
        Directory::new(directory.texts.clone()).ok()?.identity().parse().ok()
    }
}

/// Whether the directory of a workload is pgdyno's own.
pub(crate) fn is_builtin(workload: &WorkloadSpec) -> bool {
    workload.directory.as_deref().is_some_and(workload::directories::is_builtin)
}

/// Whether the user has said that they trust exactly these texts.
pub(crate) fn is_trusted(workload: &WorkloadSpec, trusted: Option<TrustedWorkload>) -> bool {
    let hash = || workload.directory.as_deref().and_then(TrustedWorkload::from_directory);
    trusted.is_some() && trusted == hash()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_in_texts_and_nothing_else() {
        let with = |text: &str| WorkloadDirectory {
            name: "a".to_string(),
            texts: [("workload.toml".to_string(), text.to_string())].into(),
            ..WorkloadDirectory::default()
        };
        let hash = TrustedWorkload::from_directory(&with("x")).unwrap();
        assert_eq!(hash.to_string().len(), DIGITS);
        assert_eq!(hash.to_string().parse(), Ok(hash));
        let claimed = WorkloadDirectory { identity: "0".repeat(64), ..with("x") };
        assert_eq!(TrustedWorkload::from_directory(&claimed), Some(hash));
        assert_ne!(TrustedWorkload::from_directory(&with("y")), Some(hash));
        for text in ["", "0123456789a", "0123456789ag", "0123456789abé"] {
            assert!(text.parse::<TrustedWorkload>().is_err(), "{text}");
        }
        assert_eq!("0123456789abcdef".parse::<TrustedWorkload>().unwrap().to_string(), "0123456789ab");
    }
}
