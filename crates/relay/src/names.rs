//! Names and labels of agents.

/// Longest name, label's key and label's value, in bytes.
const NAME_BYTES_MAX: usize = 63;

/// Refuses a name that is no token of a subject.
///
/// # Errors
/// Says what is allowed.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !is_plain {
        return Err(format!(
            "the name of an agent has letters, digits, `_` and `-` only, at most {NAME_BYTES_MAX} of them, not `{name}`"
        ));
    }
    Ok(())
}

/// Splits `KEY=VALUE`.
///
/// # Errors
/// Says what is allowed.
pub fn check_label(text: &str) -> Result<(String, String), String> {
    let is_plain = |part: &str| {
        !part.is_empty()
            && part.len() <= NAME_BYTES_MAX
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
    };
    match text.split_once('=') {
        Some((key, value)) if is_plain(key) && is_plain(value) => Ok((key.to_string(), value.to_string())),
        _ => Err(format!(
            "a label is KEY=VALUE, each of letters, digits and `_.-`, at most {NAME_BYTES_MAX} of them, not `{text}`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_another_subject_is_no_name() {
        for bad in ["", "a.b", "*", ">", "a b", "é", &"x".repeat(64)] {
            assert!(check_name(bad).unwrap_err().contains(&format!("not `{bad}`")));
        }
    }

    #[test]
    fn labels_have_a_key_and_a_value() {
        assert_eq!(check_label("az=eu-west-1a"), Ok(("az".into(), "eu-west-1a".into())));
        for bad in ["az", "=a", "az=", "az=a b", "a*=b"] {
            assert!(check_label(bad).is_err(), "{bad}");
        }
    }
}
