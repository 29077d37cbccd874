//! Functions that a statement calls and that may write, as far as its text tells.
//!
//! Not here: what a server says of them; of what it does not run yet, nobody can ask.

use crate::script::sqlscan::{SqlToken, tokens};

/// Functions of PostgreSQL that write no rows, and words that a parenthesis follows without a call.
const HARMLESS: &str = "\
    abs age all and any array array_agg array_append array_cat array_length array_position array_remove array_to_json array_to_string \
    as ascii avg between bit bit_and bit_or bit_xor bool_and bool_or btrim by cardinality case cast cbrt ceil ceiling char char_length \
    character chr clock_timestamp coalesce concat concat_ws corr cos count cross cume_dist current_setting date_bin date_part date_trunc \
    decimal decode degrees dense_rank digest distinct div else encode end every except exists exp extract filter first_value float floor \
    format from full generate_series generate_subscripts greatest group grouping having hashtext hashtextextended ilike in initcap inner \
    intersect interval is isfinite join json_agg json_array_elements json_array_length json_build_array json_build_object \
    json_each json_extract_path json_object_agg json_typeof jsonb_agg jsonb_array_elements jsonb_array_elements_text \
    jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each jsonb_extract_path jsonb_object_agg jsonb_object_keys \
    jsonb_path_exists jsonb_path_query jsonb_pretty jsonb_set jsonb_typeof justify_days lag last_value lateral lead least left length \
    like limit ln localtimestamp log lower lpad ltrim make_date make_interval make_timestamp max md5 min mod mode not now nth_value \
    ntile nullif numeric octet_length offset on or order outer over overlay partition percent_rank percentile_cont percentile_disc \
    pg_backend_pid pg_column_size pg_relation_size pg_sleep pg_table_size pg_total_relation_size phraseto_tsquery plainto_tsquery \
    position power quote_literal radians random rank regexp_match regexp_matches regexp_replace regexp_split_to_array \
    regexp_split_to_table repeat replace returning reverse right round row row_number row_to_json rpad rtrim scale select sets sha256 \
    sign sin some split_part sqrt starts_with statement_timestamp stddev stddev_pop stddev_samp string_agg string_to_array strpos substr \
    substring sum tan then time timestamp timestamptz to_char to_date to_hex to_json to_jsonb to_number to_timestamp to_tsquery \
    to_tsvector transaction_timestamp translate trim trunc ts_rank union unnest upper using values var_pop var_samp varchar variance \
    version websearch_to_tsquery when where width_bucket window with within";

/// Words after which a name with a parenthesis is a call. After any other word it is the name of what came before: `unnest(:a) u(n)`.
const BEFORE_CALLS: &str = "\
    all and any between by case cross distinct else except from having ilike in intersect is join lateral like limit not offset on or over \
    returning select some then union using values when where";

/// The first function that a statement calls and that may write; `None` if its text has none.
pub(super) fn that_may_write(sql: &str) -> Option<String> {
    let is_blank = |text: &str| text.trim().is_empty() || text.starts_with("--") || text.starts_with("/*");
    let all: Vec<(SqlToken, &str)> =
        tokens(sql).map(|(token, range)| (token, &sql[range])).filter(|(_, text)| !is_blank(text)).collect();
    (0..all.len()).find_map(|at| called(&all, at))
}

/// The name of the function that is called at a token, if one is that may write.
fn called(all: &[(SqlToken, &str)], at: usize) -> Option<String> {
    let name_at = |at: usize| {
        let (token, text) = *all.get(at)?;
        name(token, text)
    };
    let found = name_at(at)?;
    all.get(at + 1).filter(|(_, text)| *text == "(")?;
    let before = at.checked_sub(1).map(|before| all[before]);
    let is_qualified = before.is_some_and(|(_, text)| text == ".");
    if is_qualified {
        let schema = at.checked_sub(2).and_then(name_at);
        let is_own = schema.as_deref() == Some("pg_catalog") && has(HARMLESS, &found);
        return (!is_own).then_some(found);
    }
    let is_alias = match before {
        Some((SqlToken::Word, word)) => !has(BEFORE_CALLS, &word.to_ascii_lowercase()),
        Some((SqlToken::Quoted, _)) => true,
        Some((_, ")")) => !ends_distinct_on(all, at - 1),
        Some(_) | None => false,
    };
    (!is_alias && !has(HARMLESS, &found)).then_some(found)
}

/// Whether a closing parenthesis ends `distinct on (…)`, which an expression follows, and no name.
fn ends_distinct_on(all: &[(SqlToken, &str)], close: usize) -> bool {
    let mut depth = 0usize;
    let opening = all[..=close].iter().rposition(|(_, text)| {
        match *text {
            ")" => depth += 1,
            "(" => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    let is_word = |at: Option<usize>, word: &str| {
        at.and_then(|at| all.get(at)).is_some_and(|(_, text)| text.eq_ignore_ascii_case(word))
    };
    opening.is_some_and(|at| is_word(at.checked_sub(1), "on") && is_word(at.checked_sub(2), "distinct"))
}

/// A word in lower case, or a quoted name.
fn name(token: SqlToken, text: &str) -> Option<String> {
    match token {
        SqlToken::Word => Some(text.to_ascii_lowercase()),
        SqlToken::Quoted => Some(text.strip_prefix('"')?.trim_end_matches('"').to_string()),
        SqlToken::Variable | SqlToken::Other => None,
    }
}

fn has(words: &str, word: &str) -> bool {
    words.split_ascii_whitespace().any(|known| known == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_called_and_not_known_to_read_may_write() {
        for (sql, expected) in [
            ("select 1", None),
            ("select count(*), sum(a) filter (where b in (1, 2)) from t where c = any(:list)", None),
            (
                "select coalesce(max(a), 0)::numeric(10,2) from t join u using (id) where exists (select 1)",
                None,
            ),
            ("values (1), (2)", None),
            ("select 'f(1)', \"a\" from t -- f(1)\n/* f(1) */", None),
            ("select * from generate_series(1, 3) g(n), (values (1)) v(x), unnest(:a) as u(n)", None),
            ("select pg_catalog.now()", None),
            ("select transfer(:a, :b)", Some("transfer")),
            ("select * from app.transfer (1)", Some("transfer")),
            ("select app.now()", Some("now")),
            ("select a, \"Book\"(a) from t", Some("Book")),
            ("select 1 where not Book(1)", Some("book")),
            ("select nextval('s')", Some("nextval")),
            ("select distinct on (a) transfer(a) from t", Some("transfer")),
            ("select DISTINCT ON (lower(a), (b)) \"Book\"(a) from t", Some("Book")),
            ("select distinct on (a) max(b) from t join u on (t.a = u.a), (values (1)) v(x)", None),
            ("select distinct on (a) b from generate_series(1, 3) g(a)", None),
        ] {
            assert_eq!(that_may_write(sql).as_deref(), expected, "{sql}");
        }
    }
}
