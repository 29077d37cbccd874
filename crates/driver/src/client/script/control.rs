//! Transaction blocks as texts begin and end them.

/// What a text does to the transaction block; a query of the simple protocol may have several statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockControl {
    /// Whether it ends a block with a commit.
    pub(crate) commits: bool,
    /// Whether it leaves a block open that it has begun.
    pub(crate) begins: bool,
}

impl BlockControl {
    pub(super) fn from_sql(sql: &str) -> BlockControl {
        let mut control = BlockControl { commits: false, begins: false };
        for word in workload::first_words(sql) {
            match word.as_str() {
                "begin" | "start" => control.begins = true,
                "end" | "commit" => control = BlockControl { commits: true, begins: false },
                "rollback" | "abort" => control.begins = false,
                _ => {}
            }
        }
        control
    }
}

#[cfg(test)]
mod tests {
    use super::BlockControl;

    #[test]
    fn each_statement_of_a_text_may_begin_or_end_the_block() {
        for (sql, commits, begins) in [
            ("UPDATE t SET a = 1;", false, false),
            ("BEGIN;", false, true),
            ("start transaction isolation level serializable", false, true),
            ("COMMIT", true, false),
            (" -- x\n End;", true, false),
            ("/* app=x /* nested */ */ COMMIT;", true, false),
            ("BEGIN; UPDATE t SET a = 1; COMMIT;", true, false),
            ("INSERT INTO t VALUES ('; begin'); COMMIT;", true, false),
            ("COMMIT; BEGIN;", true, true),
            ("BEGIN; SELECT $$;commit$$;", false, true),
            ("BEGIN; ROLLBACK;", false, false),
            ("", false, false),
        ] {
            assert_eq!(BlockControl::from_sql(sql), BlockControl { commits, begins }, "{sql}");
        }
    }
}
