//! The plans of a statement on both sides: whether they are the same, and their nodes to be read.

use serde::Serialize;
use serde_json::Value;

use super::key::StatementKey;
use crate::plan;
use crate::summary::RunSummary;

/// Most nodes that are listed of a plan, and how deep.
const NODES_MAX: usize = 200;
const DEPTH_MAX: usize = 100;

/// The generic plans of A and of B.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlansCompared {
    /// SHA-256 of what A does: nodes, joins, relations, indexes and keys.
    pub a_hash: String,
    /// The same of B.
    pub b_hash: String,
    /// A's nodes, a line each, indented.
    pub a: Vec<String>,
    /// B's nodes.
    pub b: Vec<String>,
}

impl PlansCompared {
    /// The plans of the first runs that recorded one.
    pub(super) fn find(sides: [&[&RunSummary]; 2], key: &StatementKey) -> Option<PlansCompared> {
        let of_side = |runs: &[&RunSummary]| {
            let explained = runs.iter().find_map(|run| key.find(run)?.explained.as_deref())?;
            let value: Value = serde_json::from_str(explained).ok()?;
            Some((plan::hash(&[&value])?, nodes(&value)))
        };
        let [(a_hash, a), (b_hash, b)] = [of_side(sides[0])?, of_side(sides[1])?];
        Some(PlansCompared { a_hash, b_hash, a, b })
    }

    /// Whether both do the same.
    pub fn are_same(&self) -> bool {
        self.a_hash == self.b_hash
    }
}

fn nodes(explained: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let plans = explained.as_array().into_iter().flatten().filter_map(|one| one.get("Plan"));
    plans.for_each(|plan| add(plan, 0, &mut lines));
    lines
}

/// `Index Scan using t_pkey on t (rows 1, cost 8.3)`.
fn add(node: &Value, depth: usize, lines: &mut Vec<String>) {
    if lines.len() >= NODES_MAX || depth > DEPTH_MAX {
        return;
    }
    let text = |name: &str| node.get(name).and_then(Value::as_str);
    let part = |word: &str, name: &str| text(name).map_or(String::new(), |value| format!(" {word} {value}"));
    let number = |name: &str| node.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    lines.push(format!(
        "{}{}{}{} (rows {:.0}, cost {:.1})",
        "  ".repeat(depth),
        text("Node Type").unwrap_or("node"),
        part("using", "Index Name"),
        part("on", "Relation Name"),
        number("Plan Rows"),
        number("Total Cost")
    ));
    let children = node.get("Plans").and_then(Value::as_array);
    children.into_iter().flatten().for_each(|child| add(child, depth + 1, lines));
}
