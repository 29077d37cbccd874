//! The known name that is spelt most like an unknown one, for messages about typing errors.

/// Least similarity at which a name is suggested: 1 minus the edits (insert, delete, substitute, transpose) over the
/// length of the longer name. Our convention: one wrong letter in a name of four letters, three in one of twelve.
const SIMILARITY_MIN: f64 = 0.75;

/// The name of `known` that is spelt most like `name`, if one is similar enough.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let similarity = |candidate: &str| strsim::normalized_damerau_levenshtein(name, candidate);
    let all = known.into_iter().map(|candidate| (similarity(candidate), candidate));
    let best = all.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (best.0 >= SIMILARITY_MIN).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_typing_error_away_is_near() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(nearest(name, ["shared_buffers", "work_mem", "clients", "scale"]), expected, "{name}");
        };
        check("shared_bufers", Some("shared_buffers"));
        check("shraed_buffers", Some("shared_buffers"));
        check("clinets", Some("clients"));
        check("scael", Some("scale"));
        check("work", None);
        check("threads", None);
        check("", None);
    }
}
