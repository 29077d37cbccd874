//! A flame graph as SVG without scripts: a row for each depth of calls, the outermost at the bottom, as wide as its share of the samples.
//! Positions are per cent of the width, so that text keeps its size on every screen; a name is cut off at its frame.

use std::fmt::Write as _;

use analysis::profile::tree::Node;

use crate::html::escape::escape_html;

const ROW: usize = 17;
/// Frames below this share of all samples are not drawn: they would be narrower than a pixel or two.
pub(super) const SHARE_MIN: f64 = 0.003;
/// Frames below this share have no room for a name.
const NAMED_MIN: f64 = 0.02;

/// How a frame looks.
pub(super) struct Look {
    /// Class of its colour.
    pub(super) class: &'static str,
    /// More about it, after its share.
    pub(super) more: String,
}

/// The drawing; `look` is asked with the path of each frame, the frame included.
pub(super) fn svg(root: &Node, label: &str, look: &dyn Fn(&[String]) -> Look) -> String {
    let depth = depth(root, root.n);
    let mut drawing = Drawing { all: root.n.max(1), depth, look, svg: String::new() };
    drawing.children(root, 0.0, &mut Vec::new());
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Flame graph\">\
         <svg class=\"flame\" role=\"img\" aria-label=\"{}\" width=\"100%\" height=\"{}\">{}</svg></div>\n",
        escape_html(label),
        ROW * depth,
        drawing.svg
    )
}

fn is_drawn(node: &Node, all: u64) -> bool {
    node.n as f64 >= SHARE_MIN * all as f64
}

/// Rows below a node that are drawn.
fn depth(node: &Node, all: u64) -> usize {
    let drawn = node.children.iter().filter(|child| is_drawn(child, all));
    drawn.map(|child| 1 + depth(child, all)).max().unwrap_or(0)
}

struct Drawing<'a> {
    all: u64,
    depth: usize,
    look: &'a dyn Fn(&[String]) -> Look,
    svg: String,
}

impl Drawing<'_> {
    /// Draws what a node calls, from this share of the width on.
    fn children(&mut self, node: &Node, mut from: f64, path: &mut Vec<String>) {
        for child in &node.children {
            path.push(child.name.clone());
            if is_drawn(child, self.all) {
                self.frame(child, from, path);
                self.children(child, from, path);
            }
            path.pop();
            from += child.n as f64 / self.all as f64;
        }
    }

    fn frame(&mut self, node: &Node, from: f64, path: &[String]) {
        let share = node.n as f64 / self.all as f64;
        let Look { class, more } = (self.look)(path);
        let place = format!(
            "x=\"{:.2}%\" y=\"{}\" width=\"{:.2}%\" height=\"{}\"",
            100.0 * from,
            ROW * (self.depth - path.len()),
            100.0 * share,
            ROW - 1
        );
        let own = 100.0 * node.n_self as f64 / self.all as f64;
        let name = escape_html(&node.name);
        // Writing into a string cannot fail.
        let _ = write!(
            self.svg,
            "<g><title>{name}: {:.1} %, itself {own:.1} %{}</title><rect class=\"{class}\" {place}/>",
            100.0 * share,
            escape_html(&more)
        );
        if share >= NAMED_MIN {
            let _ = write!(self.svg, "<svg {place}><text x=\"3\" y=\"12\">{name}</text></svg>");
        }
        self.svg.push_str("</g>");
    }
}

#[cfg(test)]
mod tests {
    use analysis::profile::tree;
    use model::run::profile::unfold;

    use super::*;

    fn draw(stacks: &str) -> String {
        let look = |path: &[String]| Look { class: "f-other", more: format!(", depth {}", path.len()) };
        svg(&tree::from_stacks(&unfold(stacks)), "of <a test>", &look)
    }

    #[test]
    fn frames_are_as_wide_as_their_share_and_lie_on_their_callers() {
        let svg = draw("main;a 250\nmain;b 750\n");
        for expected in [
            "aria-label=\"of &lt;a test&gt;\" width=\"100%\" height=\"34\"",
            "<title>main: 100.0 %, itself 0.0 %, depth 1</title><rect class=\"f-other\" x=\"0.00%\" y=\"17\" width=\"100.00%\"",
            "<title>a: 25.0 %, itself 25.0 %, depth 2</title><rect class=\"f-other\" x=\"0.00%\" y=\"0\" width=\"25.00%\"",
            "<rect class=\"f-other\" x=\"25.00%\" y=\"0\" width=\"75.00%\" height=\"16\"/><svg x=\"25.00%\"",
        ] {
            assert!(svg.contains(expected), "{svg}\nexpected: {expected}");
        }
        assert_eq!(svg.matches("<g>").count(), svg.matches("</g>").count());
    }

    #[test]
    fn what_is_too_narrow_is_left_out_and_names_are_text() {
        let svg = draw("main;rare 1\nmain;narrow 10\nmain;<script>alert(1)</script>&\" 989\n");
        assert!(!svg.contains("rare") && svg.contains("narrow"), "{svg}");
        assert!(!svg.contains("<script") && svg.contains("&lt;script&gt;alert(1)"), "{svg}");
        assert!(!svg.contains(">narrow</text>"), "no room for its name");
        assert!(draw("").contains("height=\"0\""));
    }
}
