//! Scripts that make transactions whose ends a driver cannot see: the server counts them, and no reply announces them.

/// First words of statements that may commit more than once: procedures and anonymous blocks; VACUUM and ANALYZE, once for
/// each table (`vacuum()` in vacuum.c); CLUSTER, REPACK and REINDEX of several tables; everything that works CONCURRENTLY;
/// CREATE and DROP DATABASE. A session that listens makes a transaction for each batch of notifications (async.c), and
/// changes of definitions make idle sessions catch up, in a transaction of their own (`ProcessCatchupInterrupt`).
const MAKE_MORE: [&str; 15] = [
    "call", "do", "vacuum", "analyze", "analyse", "cluster", "repack", "reindex", "create", "drop", "alter",
    "truncate", "refresh", "listen", "import",
];
/// First words of statements that end a transaction.
const END: [&str; 5] = ["commit", "end", "rollback", "abort", "prepare"];

/// Whether a script's replies show the end of each of its transactions.
pub(super) fn sees_each_end(source: &str) -> bool {
    let text = statements(source);
    let begins_with = |words: &[&str]| {
        let mut firsts = text.split(';').filter_map(|statement| statement.split_whitespace().next());
        firsts.any(|first| words.contains(&first))
    };
    // One reply for all statements that are sent together; in a pipeline, for those up to a synchronization.
    let is_joined = source.contains("\\;");
    let is_pipeline = source.contains("\\startpipeline") && begins_with(&END);
    // The next transaction has begun when the reply comes.
    let is_chained = text.contains(" and chain");
    !(is_joined || is_pipeline || is_chained || begins_with(&MAKE_MORE))
}

/// The statements of a script in lower case, without comments and backslash commands, words separated by one space.
fn statements(source: &str) -> String {
    let is_sent = |line: &&str| !line.trim_start().starts_with('\\');
    let without_line_comments = |line: &str| line.split("--").next().unwrap_or_default().to_lowercase();
    let text = source.lines().filter(is_sent).map(without_line_comments).collect::<Vec<String>>().join(" ");
    let mut rest = text.as_str();
    let mut found = String::new();
    while let Some((before, after)) = rest.split_once("/*") {
        found.push_str(before);
        found.push(' ');
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    found.push_str(rest);
    found.split_whitespace().collect::<Vec<&str>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_may_end_transactions_unseen_are_recognized() {
        let check = |source: &str, expected: bool| assert_eq!(sees_each_end(source), expected, "{source}");
        check("BEGIN;\nUPDATE t SET x = 1;\nEND;\n", true);
        check("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING;", true);
        check("SELECT call_center FROM t;", true);
        check("-- do nothing\n\\set vacuum 1\nSELECT 1;", true);
        check("COMMIT AND NO CHAIN;", true);
        check("\\startpipeline\nSELECT 1;\nSELECT 2;\n\\endpipeline", true);
        check("\\startpipeline\nBEGIN;\nSELECT 1;\nCOMMIT;\nSELECT 2;\n\\endpipeline", false);
        check("\\set x 1\n  CALL neword(:x);", false);
        check("SELECT 1; /* now */ CALL p();", false);
        check("do $$ begin commit; end $$;", false);
        check("VACUUM;", false);
        check("UPDATE t SET x = 1;\nVACUUM (ANALYZE)\n  t, u;", false);
        check("ANALYZE t, u;", false);
        check("REINDEX INDEX CONCURRENTLY i;", false);
        check("CREATE TEMP TABLE x (a int);\nDROP TABLE x;", false);
        check("LISTEN news;\nSELECT 1;", false);
        check("COMMIT\nAND  CHAIN;", false);
        check("SELECT 1\\; SELECT 2;", false);
    }
}
