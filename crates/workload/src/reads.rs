//! Whether a script only reads, as far as its text tells: then its transactions may go to a standby.
//!
//! Not here: what a function does. One that is not PostgreSQL's own counts as one that writes.

use crate::ledger::{ScriptedStatement, statements};
use crate::script::sqlscan::{SqlToken, tokens};

/// How statements begin that a standby takes, if nothing in them writes.
const BEGINNINGS: &str =
    "abort begin close commit declare end fetch rollback select set show start table values with";

/// Words of statements that write, lock rows, or begin a transaction that could: a standby refuses FOR UPDATE and FOR SHARE, READ WRITE and
/// SERIALIZABLE, too.
const WRITES: &str = "delete insert into merge nextval serializable setval share update write";

/// Whether a script only reads. A word that could mean that it writes, such as the name of a column, counts as if it did.
pub fn only_reads(source: &str) -> bool {
    statements(source).iter().all(statement_only_reads)
}

fn statement_only_reads(statement: &ScriptedStatement) -> bool {
    let ScriptedStatement { text, words, called, .. } = statement;
    let has = |list: &str, word: &str| list.split_whitespace().any(|one| one.eq_ignore_ascii_case(word));
    let mut all = tokens(text).filter(|(token, _)| *token == SqlToken::Word).map(|(_, range)| &text[range]);
    called.is_none() && words.iter().all(|word| has(BEGINNINGS, word)) && !all.any(|word| has(WRITES, word))
}

#[cfg(test)]
mod tests {
    use super::only_reads;
    use crate::tpcb::{TPCB, TPCB_SELECT, TPCB_SIMPLE};

    #[test]
    fn a_script_reads_if_no_word_of_it_could_write() {
        for (source, expected) in [
            (TPCB_SELECT, true),
            (TPCB_SIMPLE, false),
            (TPCB, false),
            ("\\set a 1\nBEGIN;\nSELECT count(*) FROM t WHERE n = :a;\nCOMMIT;\n", true),
            ("WITH a AS (SELECT 1) SELECT * FROM a;\n", true),
            ("WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a;\n", false),
            ("SELECT * FROM t WHERE id = 1 FOR UPDATE;\n", false),
            ("SELECT * FROM t FOR KEY SHARE;\n", false),
            ("SELECT * INTO u FROM t;\n", false),
            ("SELECT 'insert into' AS update_of;\n", true),
            ("SELECT transfer(:a, :b);\n", false),
            ("SELECT nextval('s');\n", false),
            ("BEGIN;\nSELECT 1;\nINSERT INTO t VALUES (1);\nEND;\n", false),
            ("SELECT 1 \\; DELETE FROM t;\n", false),
            ("COPY t FROM STDIN;\n\\copydata\n1\n\\.\n", false),
            ("LOCK TABLE t;\n", false),
            ("NOTIFY n;\n", false),
            ("BEGIN ISOLATION LEVEL SERIALIZABLE;\nSELECT 1;\nEND;\n", false),
            ("START TRANSACTION READ WRITE;\nSELECT 1;\nEND;\n", false),
            ("BEGIN READ ONLY;\nSELECT 1;\nEND;\n", true),
        ] {
            assert_eq!(only_reads(source), expected, "{source}");
        }
    }
}
