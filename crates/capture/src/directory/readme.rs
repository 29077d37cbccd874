//! `README.md` of a captured directory: what it is, what it lacks, and what is personal in it.

use crate::directory::summary::Summary;

/// The text of the file.
pub(super) fn text(summary: &Summary) -> String {
    let mut out = format!("# {}\n\n", summary.name);
    out.push_str(&if summary.is_counted { of_counters(summary) } else { of_log(summary) });
    out.push_str(&privacy(summary));
    let what = if summary.has_durations { "time" } else { "executions" };
    out.push_str(&format!(
        "\n## What is reproduced\n\n| part | statements | share of {what} |\n|---|---|---|\n"
    ));
    let balance = &summary.balance;
    out.push_str(&format!(
        "| reproduced | {} | {:.2} % |\n",
        balance.reproduced.calls,
        100.0 * balance.coverage()
    ));
    for (reason, share) in &balance.left_out {
        out.push_str(&format!(
            "| left out: {} | {} | {:.2} % |\n",
            reason.about(),
            share.calls,
            100.0 * balance.fraction(*share)
        ));
    }
    out.push_str(&format!(
        "| all | {} | 100 % |\n\n`left-out.jsonl` has each statement.\n",
        balance.total.calls
    ));
    out.push_str("\n## Transactions\n\n| name | per second | statements | values |\n|---|---|---|---|\n");
    for template in &summary.templates {
        let roles: Vec<String> =
            template.variables.iter().map(|one| format!("`{}` {}", one.name, one.role)).collect();
        out.push_str(&format!(
            "| `{}` | {:.3} | {} | {} |\n",
            template.name,
            template.rate,
            template.statements.len(),
            roles.join(", ")
        ));
    }
    if !summary.notes.is_empty() {
        out.push_str("\n## Good to know\n\n");
        for note in &summary.notes {
            out.push_str(&format!("- {note}\n"));
        }
    }
    out.push_str(
        "\n## Files\n\n| file | what |\n|---|---|\n| `workload.toml`, `transactions/` | what runs; to be read and edited |\n\
         | `draws/` | values, a row for each execution |\n| `statements.jsonl` | statements without values, and what the source spent on them |\n\
         | `source.json` | what each statement did at the source, by which a replay is judged |\n\
         | `left-out.jsonl` | what is not reproduced, and why |\n| `capture.json` | what `pgdyno capture show` prints |\n",
    );
    out
}

fn of_log(summary: &Summary) -> String {
    format!(
        "Transactions of a PostgreSQL server, captured from its log: {:.1} transactions per second over {:.0} s from {}, of {} sessions.\n\
         Each execution draws one captured transaction, whole, with its values.\n\n",
        summary.rate, summary.length_s, summary.began, summary.n_sessions
    )
}

fn of_counters(summary: &Summary) -> String {
    format!(
        "Statements of a PostgreSQL server, as pg_stat_statements counted them: {:.1} per second over {:.0} s from {}.\n\n\
         ## This is no capture of transactions\n\n\
         Each statement is a transaction of its own. Nobody counted which statements belonged together, in which order, with which values, and \
         when: locks that transactions held, values that belong together, and keys that are hot are not those of the source. Values are drawn \
         as pg_stats describes their columns, and ranges are as wide as the rows say that they returned. It is approximate at best; a log \
         says more (`pgdyno capture plan`).\n\n",
        summary.rate, summary.length_s, summary.began
    )
}

/// What is personal, and what masks mean for a run.
fn privacy(summary: &Summary) -> String {
    match summary.privacy.as_str() {
        "values" => "## Values are in clear\n\nThis directory holds values of the source as they were, which may be personal. Keep it where the source's data may be kept.\n".to_string(),
        "hashed" => format!(
            "## Values are hashed\n\n{} values became letters and digits of the same lengths and kinds; equal values stayed equal. Numbers and times are the\n\
             source's, and can be personal by themselves.\n\n\
             **Hashed values find no rows in a real copy of the data**: a statement that selects by a text returns nothing there, and its figures say little.\n\
             Run this on data that was hashed with the same key, or capture again with `--privacy values` on a machine that may hold the data.\n",
            summary.n_masked.0
        ),
        _ => "## Values have shapes only\n\nValues are random, with the lengths and the kinds of the captured ones, and equal ones did not stay equal. The source's own are only: true and\n\
             false, literals that a program wrote into its statements (with units, formats and bodies of `DO`), the ends of ranges of keys, and times between events.\n\
             **They find no rows in a copy of the data.** This is for reading statements and rates, not for measuring.\n"
            .to_string(),
    }
}
