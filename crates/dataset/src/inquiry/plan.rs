//! The generic plan of a statement, as `EXPLAIN (VERBOSE, FORMAT JSON)` shows it.
//!
//! Pure. What it shows of executor parameters looks like the statement's own (`$1`, before 17): those are left out.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::ColumnUse;
use super::conditions::compared;
use super::texts::{SqlToken, SqlTokenKind, assignments, is_bare, tokens, values};

/// Deepest node that is looked at; the server's own limit of nesting is its stack.
const DEPTH_MAX: usize = 200;
/// Parts of a node that are conditions.
const CONDITIONS: [&str; 10] = [
    "Index Cond",
    "Recheck Cond",
    "Filter",
    "Join Filter",
    "Hash Cond",
    "Merge Cond",
    "One-Time Filter",
    "TID Cond",
    "Order By",
    "Conflict Filter",
];

/// Facts that a plan shows.
#[derive(Debug, Default)]
pub(super) struct PlanFacts {
    pub(super) uses: Vec<ParameterUse>,
    /// Whether it changes or locks rows.
    pub(super) writes: bool,
    /// Functions that it names: schema, if it is there, and name.
    pub(super) functions: BTreeSet<(Option<String>, String)>,
    /// Parameters that look like the executor's own.
    pub(super) hidden: BTreeSet<usize>,
}

/// A column that a parameter meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParameterUse {
    pub(super) parameter: usize,
    pub(super) schema: String,
    pub(super) table: String,
    pub(super) column: ColumnName,
    pub(super) reads: ColumnUse,
    pub(super) is_bare: bool,
}

/// A column by its name or its number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ColumnName {
    Name(String),
    Number(usize),
}

/// Reads the plan of a statement of `n_parameters` parameters.
pub(super) fn read(plan: &Value, sql: &str, n_parameters: usize) -> PlanFacts {
    let mut nodes = Vec::new();
    let roots = plan.as_array().into_iter().flatten().filter_map(|one| one.get("Plan"));
    roots.for_each(|root| collect(root, 0, &mut nodes));
    let text = |node: &Value, key: &str| node.get(key).and_then(Value::as_str).map(str::to_string);
    let mut aliases = BTreeMap::new();
    let mut facts = PlanFacts::default();
    for node in &nodes {
        if let (Some(table), Some(schema)) = (text(node, "Relation Name"), text(node, "Schema")) {
            aliases.insert(text(node, "Alias").unwrap_or_else(|| table.clone()), (schema, table));
        }
        let kind = text(node, "Node Type").unwrap_or_default();
        facts.writes |= kind == "ModifyTable" || kind == "LockRows";
        facts.hidden.extend(returned(&text(node, "Subplan Name").unwrap_or_default()));
        if let Some(function) = text(node, "Function Name") {
            facts.functions.insert((text(node, "Schema"), function));
        }
        node_texts(node).for_each(|text| facts.functions.extend(functions(text)));
    }
    facts.hidden.retain(|number| *number <= n_parameters);
    for condition in nodes.iter().flat_map(|node| CONDITIONS.iter().filter_map(|key| text(node, key))) {
        for one in compared(&condition) {
            if let Some((schema, table)) = aliases.get(&one.alias) {
                facts.uses.push(ParameterUse {
                    parameter: one.parameter,
                    schema: schema.clone(),
                    table: table.clone(),
                    column: ColumnName::Name(one.column),
                    reads: one.reads,
                    is_bare: one.is_bare,
                });
            }
        }
    }
    let changes: Vec<&&Value> =
        nodes.iter().filter(|node| text(node, "Node Type").as_deref() == Some("ModifyTable")).collect();
    let hidden = facts.hidden.clone();
    facts.uses.retain(|one| !hidden.contains(&one.parameter));
    // The texts of VALUES and SET belong to the statement's only change of rows.
    if let [change] = changes[..]
        && let (Some(table), Some(schema)) = (text(change, "Relation Name"), text(change, "Schema"))
    {
        let target = (schema, table);
        if text(change, "Operation").as_deref() == Some("Insert") {
            insert(change, sql, &target, &mut facts);
        }
        facts.uses.extend(assignments(&tokens(sql)).into_iter().map(|one| ParameterUse {
            parameter: one.parameter,
            schema: target.0.clone(),
            table: target.1.clone(),
            column: ColumnName::Name(one.column),
            reads: ColumnUse::Assigned,
            is_bare: one.is_bare,
        }));
    }
    facts.uses.retain(|one| (1..=n_parameters).contains(&one.parameter));
    facts
}

fn collect<'a>(node: &'a Value, depth: usize, nodes: &mut Vec<&'a Value>) {
    nodes.push(node);
    for key in ["Plans", "Target Tables"] {
        let children = node.get(key).and_then(Value::as_array).into_iter().flatten();
        if depth < DEPTH_MAX {
            children.for_each(|child| collect(child, depth + 1, nodes));
        }
    }
}

/// The executor's parameters that a subplan sets: `InitPlan 1 (returns $0,$1)`, and from 17 on none.
fn returned(subplan: &str) -> Vec<usize> {
    let returns = subplan.split_once("returns ").map_or("", |(_, returns)| returns);
    tokens(returns).iter().filter_map(SqlToken::parameter).collect()
}

/// The expressions of a node.
fn node_texts(node: &Value) -> impl Iterator<Item = &str> {
    let members = node.as_object().into_iter().flatten();
    let expressions = members.filter(|(key, _)| {
        CONDITIONS.contains(&key.as_str())
            || ["Output", "Function Call", "Sort Key", "Group Key"].contains(&key.as_str())
    });
    expressions.flat_map(|(_, value)| match value {
        Value::String(text) => vec![text.as_str()],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    })
}

/// The functions that an expression calls.
fn functions(expression: &str) -> Vec<(Option<String>, String)> {
    let tokens = tokens(expression);
    let word = |at: usize| match tokens.get(at).map(|token| &token.kind) {
        Some(SqlTokenKind::Word(word)) => Some(word.clone()),
        _ => None,
    };
    let mut found = Vec::new();
    for at in 1..tokens.len() {
        if let (true, Some(name)) = (tokens[at].is_symbol('('), word(at - 1)) {
            let is_qualified = at >= 3 && tokens[at - 2].is_symbol('.');
            found.push((if is_qualified { word(at - 3) } else { None }, name));
        }
    }
    found
}

/// Adds what an INSERT puts into the columns of its table: the plan below it has one expression for each column, in their order.
fn insert(change: &Value, sql: &str, target: &(String, String), facts: &mut PlanFacts) {
    let mut put = |parameter: usize, number: usize, is_bare: bool| {
        facts.uses.push(ParameterUse {
            parameter,
            schema: target.0.clone(),
            table: target.1.clone(),
            column: ColumnName::Number(number),
            reads: ColumnUse::Inserted,
            is_bare,
        });
    };
    let rows = values(&tokens(sql));
    for (index, expression) in below(change, 0).into_iter().enumerate() {
        let tokens = tokens(expression);
        let is_bare = is_bare(&tokens);
        for parameter in tokens.iter().filter_map(SqlToken::parameter).filter(|n| !facts.hidden.contains(n)) {
            put(parameter, index + 1, is_bare);
        }
        // Of several rows, the plan shows only the number of the column in the list.
        if let Some((column, is_plain)) = column_of_values(&tokens) {
            let of_column = rows.iter().filter(|one| one.column == column);
            of_column.for_each(|one| put(one.parameter, index + 1, is_plain && one.is_bare));
        }
    }
}

/// The expressions of the first node below that has any.
fn below(node: &Value, depth: usize) -> Vec<&str> {
    let plans = node.get("Plans").and_then(Value::as_array);
    let outer = |plan: &&Value| {
        let relation = plan.get("Parent Relationship").and_then(Value::as_str);
        matches!(relation, None | Some("Outer" | "Member"))
    };
    let Some(child) = plans.into_iter().flatten().find(outer) else { return Vec::new() };
    match child.get("Output").and_then(Value::as_array) {
        Some(output) => output.iter().map(|one| one.as_str().unwrap_or_default()).collect(),
        None if depth < DEPTH_MAX => below(child, depth + 1),
        None => Vec::new(),
    }
}

/// The number in `"*VALUES*".column2`, and whether nothing is done with it but casts.
fn column_of_values(tokens: &[SqlToken]) -> Option<(usize, bool)> {
    let at = tokens.iter().position(|token| token.is_word("*VALUES*"))?;
    let Some(SqlTokenKind::Word(column)) = tokens.get(at + 2).map(|token| &token.kind) else { return None };
    let mut others = tokens.to_vec();
    others.drain(at..at + 3);
    Some((column.strip_prefix("column")?.parse().ok()?, is_bare(&others)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(plan: &str, sql: &str, n: usize) -> PlanFacts {
        read(&serde_json::from_str(plan).unwrap(), sql, n)
    }

    #[test]
    fn rows_of_an_insert_are_followed_through_the_list_of_values() {
        let plan = r#"[{"Plan": {"Node Type": "ModifyTable", "Operation": "Insert", "Relation Name": "t", "Schema": "app",
            "Alias": "t", "Plans": [{"Node Type": "Values Scan", "Parent Relationship": "Outer", "Alias": "*VALUES*",
            "Output": ["\"*VALUES*\".column2", "NULL::integer", "(\"*VALUES*\".column1)::character varying(20)", "now()"]}]}}]"#;
        let found = facts(plan, "insert into app.t(name, id) values ($1, $2), ($3, $4 + 1)", 4);
        assert!(found.writes);
        let flat: Vec<_> =
            found.uses.iter().map(|one| (one.parameter, one.column.clone(), one.is_bare)).collect();
        let number = ColumnName::Number;
        assert_eq!(
            flat,
            [(2, number(1), true), (4, number(1), false), (1, number(3), true), (3, number(3), true)]
        );
    }

    #[test]
    fn parameters_of_the_executor_are_not_those_of_the_statement() {
        let plan = r#"[{"Plan": {"Node Type": "Seq Scan", "Relation Name": "t", "Schema": "public", "Alias": "t",
            "Filter": "((t.a >= $1) AND (t.b = $2))", "Plans": [{"Node Type": "Aggregate", "Parent Relationship": "InitPlan",
            "Subplan Name": "InitPlan 1 (returns $1)", "Output": ["min(app.f(p.id))"]}]}}]"#;
        let found = facts(plan, "", 2);
        assert_eq!(found.uses.iter().map(|one| one.parameter).collect::<Vec<_>>(), [2]);
        assert_eq!(found.hidden, BTreeSet::from([1]));
        let names: Vec<_> =
            found.functions.iter().map(|(schema, name)| (schema.as_deref(), name.as_str())).collect();
        assert!(names.contains(&(Some("app"), "f")) && names.contains(&(None, "min")), "{names:?}");
    }

    #[test]
    fn an_answer_that_is_no_plan_says_nothing() {
        for plan in ["null", "[]", "[{\"Plan\": 5}]", "{\"Plan\": {}}"] {
            assert!(facts(plan, "select $1", 1).uses.is_empty());
        }
    }
}
