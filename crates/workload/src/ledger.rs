//! The ledger of a load: each transaction writes a token of its client and its number, by which its commit is found again.
//!
//! Transaction ids would not do: a server that was promoted gives those of lost commits to others.

mod calls;

use crate::script::meta;
use crate::script::program::Program;
use crate::script::sqlscan::{SqlEnd, SqlScanner, first_words};

pub use crate::script::variables::NUMBER;

/// The table of tokens of scripts that are not pgdyno's own; found by the sessions' search path.
pub const TABLE: &str = "pgdyno_ledger";

/// The statement that writes a token into it.
const STATEMENT: &str = "INSERT INTO pgdyno_ledger VALUES (:client_id, :pgdyno_number);";

/// Statements that write nothing by themselves, though a function that they call may.
const READS: [&str; 4] = ["select", "show", "table", "values"];

/// What becomes of a script whose transactions are to write tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// This text, which writes them.
    Written(String),
    /// The script does it itself.
    Own,
    /// The script only reads, so that nothing of it can be lost.
    NotNeeded,
}

/// A TPC-B-like script, of which the row in `pgbench_history` has the token as its filler. pgbench leaves that NULL.
pub fn in_history(source: &str) -> String {
    source
        .replace("delta, mtime) VALUES", "delta, mtime, filler) VALUES")
        .replace("CURRENT_TIMESTAMP);", "CURRENT_TIMESTAMP, :client_id || '.' || :pgdyno_number);")
}

/// A script with a statement for the token right before the last COMMIT of its transaction block.
///
/// # Errors
/// A script where that would not say of each transaction whether it was committed: the reason, and what to do.
pub fn in_table(source: &str) -> Result<Tokens, String> {
    if source.contains(NUMBER) {
        return Ok(Tokens::Own);
    }
    let statements = statements(source);
    let has = |words: &[&str]| {
        statements.iter().any(|one| one.words.iter().any(|word| words.contains(&word.as_str())))
    };
    let only_reads =
        || statements.iter().flat_map(|one| &one.words).all(|word| READS.contains(&word.as_str()));
    let called = statements.iter().find_map(|one| one.called.as_deref());
    if !has(&["begin", "start"]) && only_reads() && called.is_none() {
        return Ok(Tokens::NotNeeded);
    }
    let refused = |why: &str| {
        format!(
            "{why}; put all of its statements between one BEGIN and one COMMIT, or let it write its token itself: {STATEMENT}"
        )
    };
    if !has(&["begin", "start"]) || !has(&["commit", "end"]) {
        let what = match called {
            Some(name) if only_reads() => format!("it calls `{name}`, which may write, and"),
            _ => "it".to_string(),
        };
        return Err(refused(&format!("{what} is no transaction block")));
    }

    let last = statements.last().expect("there is a COMMIT");
    if !matches!(&last.words[..], [word] if word == "commit" || word == "end") {
        return Err(refused("its last statement is no COMMIT by itself"));
    }
    if last.depth > 0 {
        return Err(refused("its last COMMIT depends on a condition"));
    }
    let (before, after) = source.split_at(last.start);
    Ok(Tokens::Written(format!("{before}{STATEMENT}\n{after}")))
}

/// Whether a script sends the number of its transaction.
pub fn has_token(program: &Program) -> bool {
    let Some(number) = program.variables.find(NUMBER) else { return false };
    let mut pieces = program.statements.iter().flat_map(|statement| &statement.pieces);
    pieces.any(|piece| piece.variable() == Some(number))
}

/// A statement of a script, or several that are sent together.
pub(crate) struct ScriptedStatement {
    /// Where it begins.
    start: usize,
    pub(crate) text: String,
    /// The first word of each.
    pub(crate) words: Vec<String>,
    /// A function that it calls and that may write.
    pub(crate) called: Option<String>,
    /// How many conditions and loops it is in.
    depth: usize,
}

/// The statements of a script, without those that are empty.
pub(crate) fn statements(source: &str) -> Vec<ScriptedStatement> {
    let mut scanner = SqlScanner::new(source);
    let (mut all, mut depth) = (Vec::new(), 0_usize);
    loop {
        let chunk = scanner.next_chunk();
        let words = first_words(&chunk.text);
        if !words.is_empty() {
            let called = calls::that_may_write(&chunk.text);
            all.push(ScriptedStatement { start: chunk.start, text: chunk.text, words, called, depth });
        }
        match chunk.stop {
            SqlEnd::Semicolon => {}
            SqlEnd::EndOfScript => return all,
            SqlEnd::Backslash => {
                let (name, end) = meta::name_and_end(source, scanner.position);
                match name.as_str() {
                    "if" | "repeat" => depth += 1,
                    "endif" | "endrepeat" => depth = depth.saturating_sub(1),
                    _ => {}
                }
                scanner.position = end;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_writes_its_token_before_its_last_commit() {
        let check = |source: &str, expected: &str| {
            let written = expected.replace('@', STATEMENT);
            assert_eq!(in_table(source), Ok(Tokens::Written(written)), "{source}");
        };
        check("BEGIN;\nUPDATE t SET n = 1;\nCOMMIT;\n", "BEGIN;\nUPDATE t SET n = 1;\n@\nCOMMIT;\n");
        check("begin; update t set n = 1; end;", "begin; update t set n = 1; @\nend;");
        check(
            "BEGIN;\n\\if :a\nCOMMIT;\nBEGIN;\n\\endif\nINSERT INTO t VALUES (';\nCOMMIT;');\n-- end\nCOMMIT;\n\\sleep 1 ms\n",
            "BEGIN;\n\\if :a\nCOMMIT;\nBEGIN;\n\\endif\nINSERT INTO t VALUES (';\nCOMMIT;');\n-- end\n@\nCOMMIT;\n\\sleep 1 ms\n",
        );
        check(
            "\\set a 1 \\\n  + 2\nBEGIN;\nCOPY t FROM STDIN;\n\\copydata\nCOMMIT;\n\\.\nEND;\n",
            "\\set a 1 \\\n  + 2\nBEGIN;\nCOPY t FROM STDIN;\n\\copydata\nCOMMIT;\n\\.\n@\nEND;\n",
        );
    }

    #[test]
    fn a_script_that_only_reads_or_writes_tokens_itself_stays_as_it_is() {
        assert_eq!(in_table("\\set a 1\nSELECT 1;\nTABLE t;\n"), Ok(Tokens::NotNeeded));
        assert_eq!(in_table(&format!("UPDATE t SET n = 1;\n{STATEMENT}\n")), Ok(Tokens::Own));
    }

    #[test]
    fn a_script_whose_commits_a_token_would_not_tell_is_refused() {
        let check = |source: &str, expected: &str| {
            let refused = in_table(source).unwrap_err();
            assert!(refused.starts_with(expected) && refused.contains(STATEMENT), "{source}: {refused}");
        };
        check("UPDATE t SET n = 1;", "it is no transaction block");
        check(
            "SELECT transfer(:a, :b);",
            "it calls `transfer`, which may write, and is no transaction block",
        );
        check("BEGIN;\nUPDATE t SET n = 1;\nROLLBACK;", "it is no transaction block");
        check("BEGIN;\nCOMMIT;\nUPDATE t SET n = 1;", "its last statement is no COMMIT");
        check("BEGIN \\; UPDATE t SET n = 1 \\; COMMIT;", "its last statement is no COMMIT");
        check("BEGIN;\n\\if :a\nCOMMIT;\n\\endif\n", "its last COMMIT depends on a condition");
    }

    #[test]
    fn the_rows_of_the_history_have_tokens_as_their_fillers() {
        for source in [crate::tpcb::TPCB, crate::tpcb::TPCB_SIMPLE] {
            let program = Program::compile("tpcb", &in_history(source)).unwrap();
            let insert = program.statements.iter().find(|one| one.text.contains("history")).unwrap();
            assert!(
                insert.text.contains("mtime, filler)") && insert.text.contains("$5 || '.' || $6)"),
                "{}",
                insert.text
            );
            assert!(has_token(&program) && !has_token(&Program::compile("tpcb", source).unwrap()));
        }
        assert_eq!(in_history(crate::tpcb::TPCB_SELECT), crate::tpcb::TPCB_SELECT);
    }
}
