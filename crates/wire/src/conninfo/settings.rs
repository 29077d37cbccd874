//! What a connection string sets, as bytes: percent-encoding can make values that are not UTF-8.

use std::collections::BTreeMap;

use super::keywords;

/// Values by keyword; the last one of a keyword counts.
pub(super) type Settings = BTreeMap<String, String>;

/// Adds a setting. The error is that libpq does not know the keyword.
pub(super) fn store(settings: &mut Settings, keyword: &str, value: &[u8]) -> Result<(), UnknownKeyword> {
    // Older than `sslmode`, and still understood.
    let (keyword, value) = match keyword {
        "requiressl" if value.first() == Some(&b'1') => ("sslmode", &b"require"[..]),
        "requiressl" => ("sslmode", &b"prefer"[..]),
        _ => (keyword, value),
    };
    if !keywords::is_known(keyword) {
        return Err(UnknownKeyword);
    }
    settings.insert(keyword.to_owned(), String::from_utf8_lossy(value).into_owned());
    Ok(())
}

/// No keyword of libpq.
pub(super) struct UnknownKeyword;
