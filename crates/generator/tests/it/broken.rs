//! Broken directories and what is said about them: one change of a good one in each row.

use super::{Choice, choice, problems, shop, words};

/// Changes a file of the good directory, and compares what is said with the expected beginnings of lines.
fn check(file: &str, from: &str, to: &str, expected: &[&str]) {
    let mut files = shop();
    let text = files.entry(file.to_string()).or_default();
    assert!(text.contains(from), "{file} has no `{from}`");
    *text = text.replacen(from, to, 1);
    let found = problems(&files, &choice(1));
    let lines: Vec<String> =
        found.iter().map(|problem| problem.to_string().lines().next().unwrap().to_string()).collect();
    let matches = lines.len() == expected.len()
        && lines.iter().zip(expected).all(|(line, expected)| line.contains(expected));
    assert!(matches, "{to}\nfound:\n{}\nexpected: {expected:#?}", words(&found));
}

/// Changes the manifest; several expected beginnings stand between bars.
fn of_manifest(from: &str, to: &str, expected: &str) {
    check("workload.toml", from, to, &expected.split(" | ").collect::<Vec<&str>>());
}

#[test]
fn the_good_directory_has_no_problems() {
    assert_eq!(words(&problems(&shop(), &choice(1))), "");
}

#[test]
fn keys_and_their_types_are_checked() {
    of_manifest("scale = ", "[", "workload.toml:5:");
    of_manifest("format = 1", "format = 2", "workload.toml:1:10: format 2 is not known");
    of_manifest("format = 1", "", "`format = 1` is missing");
    of_manifest("format = 1", "fromat = 1", "workload.toml has no key `fromat`; did you mean `format`?");
    of_manifest(
        "title",
        "titel",
        "workload.toml:3:1: workload.toml has no key `titel`; did you mean `title`?",
    );
    of_manifest(
        "title = \"Shop\"",
        "title = 1",
        "workload.toml:3:9: `title` is a whole number; expected a text",
    );
    of_manifest("\"shop\"", "\"Shop 1\"", "workload.toml:2:8: a name has small letters");
    of_manifest("scales = [1, 10]", "scales = [1, \"x\"]", "`scales` is a list of numbers");
    of_manifest("server = \"13\"", "server = \"new\"", "expected a release");
    of_manifest("lines = \"uni", "line = \"uni", "[[table]] has no key `line`; did you mean `lines`?");
    of_manifest("rows = \"100 * scale\"", "rows = [1]", "`rows` is a list; expected an expression");
    of_manifest("[[check]]", "[check]", "checks/rows.sql: no [[check]] | `check` is written as [[check]]");
    of_manifest(
        "share = 0.5\nsettings",
        "share = 2\nsettings",
        "`share` is a part of the clients | the shares of the classes add up to 2",
    );
    of_manifest("pace = \"100/s\"", "pace = \"fast\"", "`pace` is a rate");
    of_manifest("kind = \"oltp\"", "kind = \"olap\"", "`kind` is one of oltp, analytical");
    of_manifest("protocol = \"prepared\"", "protocol = \"copy\"", "`protocol` is one of simple");
    of_manifest("\"1min\"", "\"1 day\"", "`statement_timeout` is a time");
    of_manifest("{mean = \"10ms\"}", "{mean = 10}", "`mean` is a whole number; expected a text");
    of_manifest("{p99 = \"100ms\"}", "{p98 = \"100ms\"}", "has no key `p98`; known: p50, p75");
    of_manifest("when = \"load\"", "when = \"loading\"", "`loading` is no time of a check");
    of_manifest("ratio = \"hits / wanted\"", "ratio = \"hits\"", "expected a ratio of two facts");
    of_manifest("hits / wanted", "hits / wants", "no transaction has a fact `wants`; known: hits, wanted");
}

#[test]
fn keys_of_analytical_workloads_are_theirs_alone() {
    of_manifest(
        "kind = \"oltp\"",
        "kind = \"analytical\"",
        "an analytical workload has one session class: each of its clients is a stream of queries",
    );
    of_manifest(
        "kind = \"oltp\"",
        "explain = true",
        "`explain` is for workloads with `kind = \"analytical\"`",
    );
    of_manifest(
        "kind = \"oltp\"",
        "kind = \"analytical\"\nexplain = \"x\"",
        "an analytical workload has one session class | `explain` is true, false, or \"{OPTION}\"",
    );
    let variant = |key: &str, expected: &str| {
        of_manifest("uniform = {weights", &format!("uniform = {{{key}, weights"), expected);
    };
    variant("warm_passes = 1", "`warm_passes` is for workloads with `kind = \"analytical\"`");
    variant(
        "passes = \"{n}\"",
        "`passes` of `uniform` needs an option `n` that is a whole number with `least` from 1",
    );
    variant("passes = \"3\"", "`passes` is a whole number, or \"{OPTION}\"");
    variant("passes = 0", "`passes` is 1 to 1000000");
}

#[test]
fn sqlstates_weights_and_names_are_checked() {
    of_manifest("\"23505\"", "\"2350\"", "workload.toml:36:13: `2350` is no SQLSTATE");
    of_manifest("\"40001\"", "\"23505\"", "23505 is expected and retried");
    of_manifest(
        "{read = 1}}",
        "{raed = 1}}",
        "`uniform` names transaction `raed`, which there is not; did you mean `read`?",
    );
    of_manifest("{read = 1}}", "{read = 0}}", "all weights are 0");
    of_manifest("{read = 1}}", "{read = -1}}", "a number from 0 up");
    of_manifest("let = {who", "let = {whom", "[let] has no `whom` that the variant could replace");
    of_manifest("\"{most}\"}", "\"{more}\"}", "names option `more`");
    of_manifest(
        "clients = \"{most}\"",
        "clients = \"{how}\"",
        "needs an option `how` that is a whole number",
    );
    of_manifest("clients = \"{most}\"", "clients = \"x\"", "`clients` is a whole number, or \"{OPTION}\"");
    of_manifest("\"others\"", "\"readers\"", "another class of clients is called `readers`");
    of_manifest("name = \"customer\"", "name = \"Customer\"", "small letters | there is no table `customer`");
    of_manifest("number = \"line", "\"a b\" = \"line", "workload.toml:30:1: a name has letters");
    of_manifest("number = \"line", "customer_id = \"line", "workload.toml:30:");
    of_manifest("double = ", "number = ", "another value of the table is called `number`, too");
    of_manifest("purchase{1..2}", "customer", "another table is called `customer`, too");
    of_manifest(
        "each = \"customer\"",
        "each = \"custmer\"",
        "there is no table `custmer`; did you mean `customer`?",
    );
    of_manifest("[options]", "[options]\nwho = {default = 1}", "`who` is an option, too");
}

#[test]
fn options_are_checked() {
    of_manifest("default = 3,", "default = 30,", "the default 30 is above 10, the most");
    of_manifest("default = \"any\"", "default = \"all\"", "the default `all` is none of any, old");
    of_manifest(
        "least = 1,",
        "least = 0.5,",
        "a bound is not; write the default as 1.0 | needs an option `most`",
    );
    of_manifest(
        "least = 1,",
        "least = \"x\",",
        "`least` and `most` are for numbers | needs an option `most`",
    );
    of_manifest(
        "{default = 0.5,",
        "{defualt = 0.5,",
        "option `share` has no `default` | `share` has no key `defualt`; did you mean `default`?",
    );
    let chosen = |variant: Option<&str>, options: &[(&str, &str)]| {
        let options = options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let choice = Choice { variant: variant.map(str::to_string), options, ..choice(1) };
        words(&problems(&shop(), &choice))
    };
    assert_eq!(
        chosen(Some("unform"), &[("most", "11"), ("how", "x"), ("share", "nan"), ("mots", "3")]),
        "workload.toml: there is no variant `unform`; did you mean `uniform`?\n\
         workload.toml: option `most`: 11 is above 10, the most\n\
         workload.toml: option `how`: `x` is none of any, old\n\
         workload.toml: option `share`: `nan` is not a number\n\
         workload.toml: there is no option `mots`; did you mean `most`?"
    );
    assert_eq!(chosen(None, &[("most", "2.5")]), "workload.toml: option `most`: `2.5` is not a whole number");
    assert_eq!(words(&problems(&shop(), &choice(0))), "workload.toml: the scale is at least 1");
}

#[test]
fn files_are_those_that_the_manifest_names() {
    of_manifest(
        "name = \"read\"",
        "name = \"write\"",
        "transactions/read.sql: no [[transaction]] has this name | `transactions/write.sql` is missing | `others` names | `uniform` names | `skewed` names",
    );
    of_manifest(
        "name = \"rows\"",
        "name = \"row\"",
        "checks/rows.sql: no [[check]] | `checks/row.sql` is missing",
    );
    check(
        "transactions/other.sql",
        "",
        "select 1;",
        &["transactions/other.sql: no [[transaction]] has this name"],
    );
    check("checks/other.sql", "", "select 1;", &["checks/other.sql: no [[check]] has this name"]);
    let mut files = shop();
    files.remove("schema.sql");
    assert!(words(&problems(&files, &choice(1))).contains("the file `schema.sql` is missing"));
    check(
        "transactions/read.sql",
        "select",
        "  \\shell rm\nselect",
        &["transactions/read.sql:1:3: `\\shell` runs"],
    );
    check("transactions/read.sql", "select", "\\setshell a b\nselect", &["`\\setshell` runs a command"]);
    check("transactions/read.sql", "select", "\\repeat x 3\nselect", &["`\\repeat` is not pgbench's"]);
    check("transactions/read.sql", "select", "-- pgdyno: extended\n\\repeat x 3\nselect", &[]);
}

#[test]
fn sql_and_checks_name_what_there_is() {
    check("schema.sql", "purchase{n}", "purchase1", &[]);
    check(
        "checks/rows.sql",
        ":rows_customer",
        ":rows_custmer",
        &["checks/rows.sql:1:16: nothing sets `:rows_custmer`; did you mean `rows_customer`?"],
    );
    check("checks/rows.sql", ":committed_read", ":committed_write", &["nothing sets `:committed_write`"]);
    check("checks/rows.sql", ":committed_read", ":reads", &["nothing sets `:reads`"]);
    of_manifest("purchase{1..2}", "purchase", "schema.sql:2:22: no [[table]] has a name with braces");
}

#[test]
fn braces_have_bounds() {
    of_manifest("purchase{1..2}", "purchase{1..2000}", "stands for more than 1000 names");
    of_manifest("purchase{1..2}", "purchase{1..}", "braces in a name are `{LEAST..MOST}`");
    of_manifest("purchase{1..2}", "purchase{1..share}", "a bound of braces is a whole number");
    of_manifest(
        "purchase{1..2}",
        "purchase{1..row}",
        "workload.toml:25:21: `row` has a meaning in columns of a table alone",
    );
    of_manifest("purchase{1..2}", "purchase{3..2}", "3..2 is no range");
}

#[test]
fn expressions_are_wrong_where_they_stand() {
    of_manifest("row + 1\"", "row +\"", "workload.toml:21:");
    of_manifest("row + 1\"", "rwo + 1\"", "workload.toml:21:7: ");
    of_manifest("row + 1\"", "row + 'x'\"", "workload.toml:21:");
    of_manifest("uniform(1, rows(customer))", "uniform(1)", "workload.toml:15:");
    of_manifest("uniform(1, rows(customer))", "uniform(1, rows(custmer))", "workload.toml:15:");
    of_manifest("uniform(1, rows(customer))", "who + 1", "workload.toml:15:");
    of_manifest("2 * number", "2 * double + double", "workload.toml:32:");
    of_manifest("customer.id[parent]", "customer.idd[parent]", "workload.toml:29:");
    of_manifest("customer.id[parent]", "customer.id[parent + 1000]", "workload.toml:29:");
    of_manifest("100 * scale", "100 * row", "workload.toml:19:");
    of_manifest("100 * scale", "0 - scale", "workload.toml:19:");
    of_manifest("100 * scale", "9223372036854775807 * (scale + 1)", "workload.toml:19:");
    of_manifest("lists/words.txt", "lists/word.txt", "workload.toml:22:");
    of_manifest(
        "words('lists/words.txt'",
        "words(concat('lists/', 'words.txt')",
        "expected the name of a list",
    );
    of_manifest(
        "params = {id = \"who\"}",
        "params = {id = \"who\", most = \"1\"}",
        "`most` is an option, too",
    );
}

#[test]
fn all_problems_come_at_once_and_in_order() {
    let mut files = shop();
    let text = files.get_mut("workload.toml").unwrap();
    *text = text.replace("row + 1", "rwo + 1").replace("line + 1", "lin + 1").replace("\"who\"", "\"whom\"");
    let found = problems(&files, &choice(1));
    let lines: Vec<usize> = found.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [21, 30, 41], "{}", words(&found));
    let shown = found[0].to_string();
    assert!(shown.ends_with("\n  id = \"rwo + 1\"\n        ^^^"), "{shown}");
}

#[test]
fn a_table_with_rows_sends_something() {
    check(
        "workload.toml",
        "[table.columns]\ncustomer_id = \"customer.id[parent]\"\nnumber = \"line + 1\"\n[table.hidden]\ndouble = \"2 * number\"",
        "",
        &["`purchase1` has rows, but no columns", "`purchase2` has rows, but no columns"],
    );
}

#[test]
fn what_is_unused_is_a_warning() {
    let mut files = shop();
    let text = files.get_mut("workload.toml").unwrap();
    *text = text
        .replace("[let]", "[let]\nother = \"1\"")
        .replace("[options]", "[options]\nspare = {default = 1}")
        .replace(
            "params = {id = \"who\"}",
            "params = {id = \"who\", more = \"1\", \"n{1..3}\" = \"2\", of_id = \"id\"}",
        );
    files.get_mut("transactions/read.sql").unwrap().push_str("select :n2, :of_id;\n");
    files.insert("lists/spare.txt".to_string(), "x".to_string());
    files.insert("spare.sql".to_string(), "x".to_string());
    let instance = super::instance(&files, &choice(1));
    let lines: Vec<String> =
        instance.warnings().iter().map(|one| one.to_string().lines().next().unwrap().to_string()).collect();
    assert_eq!(
        lines,
        [
            "lists/spare.txt: warning: nothing uses this list",
            "spare.sql: warning: nothing names this file",
            "workload.toml:10:1: warning: nothing uses option `spare`",
            "workload.toml:16:1: warning: nothing uses `other`",
            "workload.toml:43:23: warning: `read` does not use `more`",
        ]
    );
}
