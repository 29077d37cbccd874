//! Stacks as a tree: what called what, and how much of all samples was in it.

use std::collections::BTreeMap;

use model::run::profile::Stack;

/// A function where it was called from, with all that it called.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Name of the function; empty at the root.
    pub name: String,
    /// Samples in it or in what it called.
    pub n: u64,
    /// Samples in it alone.
    pub n_self: u64,
    /// Functions that it called, by name.
    pub children: Vec<Node>,
}

/// Frames of a stack that are kept: the outermost ones.
pub const DEPTH_MAX: usize = 64;

/// The tree of all stacks.
pub fn from_stacks(stacks: &[Stack]) -> Node {
    let mut sorted: Vec<(&[String], u64)> =
        stacks.iter().map(|stack| (&stack.frames[..stack.frames.len().min(DEPTH_MAX)], stack.n)).collect();
    sorted.sort_unstable();
    node(String::new(), &sorted, 0)
}

/// A node of stacks that share their first `depth` frames, in order.
fn node(name: String, stacks: &[(&[String], u64)], depth: usize) -> Node {
    let n = stacks.iter().map(|(_, n)| n).sum();
    let n_self = stacks.iter().filter(|(frames, _)| frames.len() == depth).map(|(_, n)| n).sum();
    let deeper: Vec<(&[String], u64)> =
        stacks.iter().filter(|(frames, _)| frames.len() > depth).copied().collect();
    let groups = deeper.chunk_by(|(a, _), (b, _)| a[depth] == b[depth]);
    let children = groups.map(|group| node(group[0].0[depth].clone(), group, depth + 1)).collect();
    Node { name, n, n_self, children }
}

/// Two trees next to each other: the share of all samples of each function in both.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TreeChanges {
    /// Share before and after, by path.
    by_path: BTreeMap<Vec<String>, [f64; 2]>,
}

impl TreeChanges {
    /// From one tree to another one.
    pub fn between(before: &Node, after: &Node) -> TreeChanges {
        let mut by_path = BTreeMap::new();
        for (side, tree) in [before, after].into_iter().enumerate() {
            add(&mut by_path, tree, &mut Vec::new(), side, 1.0 / tree.n.max(1) as f64);
        }
        TreeChanges { by_path }
    }

    /// Shares of a function called along this path, 0 to 1, before and after.
    pub fn of(&self, path: &[String]) -> [f64; 2] {
        self.by_path.get(path).copied().unwrap_or_default()
    }
}

fn add(
    by_path: &mut BTreeMap<Vec<String>, [f64; 2]>,
    node: &Node,
    path: &mut Vec<String>,
    side: usize,
    each: f64,
) {
    by_path.entry(path.clone()).or_default()[side] += node.n as f64 * each;
    for child in &node.children {
        path.push(child.name.clone());
        add(by_path, child, path, side, each);
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use model::run::profile::unfold;

    use super::*;

    #[test]
    fn samples_add_up_along_the_calls() {
        let tree = from_stacks(&unfold("main;a;b 3\nmain;a 2\nmain;c 5\nother 1\n"));
        assert_eq!((tree.n, tree.n_self, tree.children.len()), (11, 0, 2));
        let main = &tree.children[0];
        assert_eq!((main.name.as_str(), main.n, main.n_self), ("main", 10, 0));
        let a = &main.children[0];
        assert_eq!((a.name.as_str(), a.n, a.n_self, a.children[0].n_self), ("a", 5, 2, 3));
        assert_eq!(from_stacks(&[]).n, 0);
        let deep = format!("{} 1\n", vec!["f"; 300].join(";"));
        let mut node = &from_stacks(&unfold(&deep));
        let mut depth = 0;
        while let Some(child) = node.children.first() {
            (node, depth) = (child, depth + 1);
        }
        assert_eq!((depth, node.n_self), (DEPTH_MAX, 1));
    }

    #[test]
    fn shares_before_and_after_are_those_of_each_tree() {
        let before = from_stacks(&unfold("main;a 50\nmain;b 50\n"));
        let after = from_stacks(&unfold("main;a 30\nmain;c 10\n"));
        let changes = TreeChanges::between(&before, &after);
        let of = |path: &[&str]| changes.of(&path.iter().map(|name| name.to_string()).collect::<Vec<_>>());
        assert_eq!(of(&["main", "a"]), [0.5, 0.75]);
        assert_eq!(of(&["main", "b"]), [0.5, 0.0]);
        assert_eq!(of(&["main", "c"]), [0.0, 0.25]);
        assert_eq!((of(&["main"]), of(&["x"])), ([1.0, 1.0], [0.0, 0.0]));
    }
}
