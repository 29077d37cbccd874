//! What a plan of a query is, apart from what it costs: a hash that distinguishes plans.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Properties of a node that say what it does. None has costs, rows, times or constants of the query.
const TEXTS: [&str; 11] = [
    "Node Type",
    "Parent Relationship",
    "Subplan Name",
    "Join Type",
    "Strategy",
    "Partial Mode",
    "Command",
    "Operation",
    "Relation Name",
    "Index Name",
    "Scan Direction",
];
/// Properties that are keys: of joins, sorts and groups.
const KEYS: [&str; 6] = ["Hash Cond", "Merge Cond", "Sort Key", "Presorted Key", "Group Key", "Cache Key"];
/// Most nested nodes that are looked at.
const DEPTH_MAX: usize = 1000;

/// SHA-256 of the nodes of what `EXPLAIN (FORMAT JSON)` answered, in hexadecimal: their types, joins, relations, indexes and keys. `None`
/// if it has no plan.
pub fn hash(explained: &[&Value]) -> Option<String> {
    let mut text = String::new();
    for explained in explained {
        let plans: Vec<&Value> = explained.as_array()?.iter().filter_map(|one| one.get("Plan")).collect();
        if plans.is_empty() {
            return None;
        }
        for plan in plans {
            node(plan.as_object()?, DEPTH_MAX, &mut text);
        }
    }
    let digest = Sha256::digest(text.as_bytes());
    (!text.is_empty()).then(|| digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn node(of: &Map<String, Value>, depth_left: usize, text: &mut String) {
    text.push('(');
    for name in TEXTS {
        if let Some(value) = of.get(name).and_then(Value::as_str) {
            put(name, value, text);
        }
    }
    for name in KEYS {
        match of.get(name) {
            Some(Value::String(key)) => put(name, key, text),
            Some(Value::Array(keys)) => {
                keys.iter().filter_map(Value::as_str).for_each(|key| put(name, key, text))
            }
            _ => {}
        }
    }
    let children = of.get("Plans").and_then(Value::as_array);
    if let Some(depth_left) = depth_left.checked_sub(1) {
        for child in children.into_iter().flatten().filter_map(Value::as_object) {
            node(child, depth_left, text);
        }
    }
    text.push(')');
}

/// Lengths keep texts apart, whatever they contain.
fn put(name: &str, value: &str, text: &mut String) {
    text.push_str(&format!("{name}:{}:{value};", value.len()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(plan: &str) -> Option<String> {
        hash(&[&serde_json::from_str(plan).unwrap()])
    }

    const JOIN: &str = r#"[{"Plan": {"Node Type": "Hash Join", "Join Type": "Inner", "Total Cost": 10.5, "Plan Rows": 3, "Hash Cond": "(a.x = b.x)",
        "Plans": [{"Node Type": "Seq Scan", "Relation Name": "a", "Filter": "(y > 5)"}, {"Node Type": "Hash", "Plans":
        [{"Node Type": "Index Scan", "Relation Name": "b", "Index Name": "b_x", "Index Cond": "(z = 7)"}]}]}, "Execution Time": 1.0}]"#;

    #[test]
    fn costs_rows_and_constants_are_no_part_of_a_plan() {
        let same = JOIN
            .replace("10.5", "99")
            .replace("\"Plan Rows\": 3", "\"Plan Rows\": 4, \"Actual Rows\": 9")
            .replace("y > 5", "y > 6")
            .replace("z = 7", "z = 8");
        assert_eq!(hash_of(JOIN), hash_of(&same));
        assert_eq!(hash_of(JOIN).unwrap().len(), 64);
    }

    #[test]
    fn types_joins_relations_indexes_keys_and_places_are() {
        for (from, to) in [
            ("Hash Join", "Merge Join"),
            ("Inner", "Left"),
            ("\"a\"", "\"c\""),
            ("b_x", "b_y"),
            ("a.x = b.x", "a.y = b.x"),
            (
                r#"{"Node Type": "Hash", "Plans":
        ["#,
                r#"{"Node Type": "Materialize", "Plans": ["#,
            ),
        ] {
            let other = JOIN.replace(from, to);
            assert_ne!(other, JOIN, "{from}");
            assert_ne!(hash_of(JOIN), hash_of(&other), "{from}");
        }
        let [one, two] = ["1", "2"].map(|n| format!(r#"[{{"Plan": {{"Node Type": "Result {n}"}}}}]"#));
        let [one, two]: [Value; 2] = [one, two].map(|text| serde_json::from_str(&text).unwrap());
        assert_ne!(hash(&[&one, &two]), hash(&[&two, &one]));
    }

    #[test]
    fn what_is_no_plan_has_no_hash() {
        for text in ["[]", "{}", "[{\"Query\": 1}]", "3", "[{\"Plan\": 5}]"] {
            assert_eq!(hash_of(text), None, "{text}");
        }
        assert_eq!(hash(&[]), None);
    }
}
