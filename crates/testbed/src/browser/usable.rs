//! Whether a page can be used without a pointer and without eyes: what the keyboard reaches, and what a screen reader says there.

use serde_json::{Value, json};

use super::Tab;

/// Most elements that the keyboard reaches on a page of a test.
const STOPS_MAX: usize = 1000;

/// Roles of what can be used, read on its own or jumped to: each needs a name.
const NAMED: [&str; 13] = [
    "button",
    "checkbox",
    "combobox",
    "DisclosureTriangle",
    "heading",
    "image",
    "link",
    "navigation",
    "progressbar",
    "region",
    "searchbox",
    "table",
    "textbox",
];

/// Takes note of the element that has the focus; `null` if there is none, or it was noted before.
const STEP: &str = "(() => {
  const e = document.activeElement;
  const walked = (window.walked ??= new Set());
  if (!e || e === document.body || walked.has(e)) return null;
  walked.add(e);
  const box = e.getBoundingClientRect(), style = getComputedStyle(e);
  const [left, right] = [Math.max(box.left, 0), Math.min(box.right, innerWidth)];
  const [top, bottom] = [Math.max(box.top, 0), Math.min(box.bottom, innerHeight)];
  const isAt = ([x, y]) => e.contains(document.elementFromPoint(left + (right - left) * x, top + (bottom - top) * y));
  return {
    isMarked: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0,
    isInView: right > left && bottom > top && [[0.5, 0.5], [0.1, 0.1], [0.9, 0.1], [0.1, 0.9], [0.9, 0.9]].some(isAt),
    text: e.outerHTML.slice(0, 200),
    place: [left, top, right, bottom],
    over: document.elementFromPoint((left + right) / 2, (top + bottom) / 2)?.outerHTML.slice(0, 200),
  };
})()";

/// What can be used with a pointer and was not noted.
const MISSED: &str = "[...document.querySelectorAll('a[href], button, summary, input, select, textarea, [tabindex=\"0\"]')]
  .filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.disabled && e.type !== 'hidden' && !window.walked.has(e))
  .map((e) => e.outerHTML.slice(0, 200))";

/// Tables without heads of their columns, and charts without words.
const MUTE: &str = "[
  ...[...document.querySelectorAll('table')].filter((e) => e.checkVisibility() && !e.querySelector('th[scope]')),
  ...[...document.querySelectorAll('.chart')].filter((e) => e.checkVisibility() && !e.getAttribute('aria-label')),
].map((e) => e.outerHTML.slice(0, 200))";

/// An element that the keyboard reaches, as a screen reader says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TabStop {
    /// The role: `link`, `button`.
    pub role: String,
    /// The name that is read out.
    pub name: String,
}

impl Tab {
    /// Goes through a page by the keyboard alone, and returns where that stops, in order.
    ///
    /// # Panics
    /// If something that a pointer can use is not reached, is reached out of sight or without a mark, has no name, or if a table has
    /// no heads or a chart no words.
    pub fn expect_usable(&mut self) -> Vec<TabStop> {
        self.eval("document.activeElement.blur(); scrollTo(0, 0); window.walked = new Set(); 0");
        let mut stops = Vec::new();
        for _ in 0..STOPS_MAX {
            self.key("Tab");
            let step = self.eval(STEP);
            if step.is_null() {
                break;
            }
            let stop = self.focused();
            assert_eq!(step["isMarked"], json!(true), "the focus is not seen: {stop:?} {step}");
            assert_eq!(
                step["isInView"],
                json!(true),
                "the focus is out of sight or covered: {stop:?} {step}"
            );
            stops.push(stop);
        }
        assert_eq!(self.eval(MISSED), json!([]), "the keyboard does not reach these; it reaches {stops:?}");
        assert_eq!(self.eval(MUTE), json!([]), "these say nothing");
        let bare = |(role, name): &(String, String)| NAMED.contains(&role.as_str()) && name.trim().is_empty();
        let bare: Vec<(String, String)> = self.roles().into_iter().filter(bare).collect();
        assert_eq!(bare, [], "without a name");
        stops
    }

    /// What a screen reader says of the element that has the focus.
    ///
    /// # Panics
    /// If it says nothing.
    fn focused(&mut self) -> TabStop {
        let element = self.call("Runtime.evaluate", json!({ "expression": "document.activeElement" }));
        let asked = json!({ "objectId": element["result"]["objectId"], "fetchRelatives": false });
        let node = self.call("Accessibility.getPartialAXTree", asked)["nodes"][0].clone();
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_string();
        let stop = TabStop { role: text(&node["role"]), name: text(&node["name"]) };
        let is_said = node["ignored"] != json!(true) && !stop.name.trim().is_empty();
        assert!(is_said, "a screen reader says nothing of it: {node}");
        stop
    }
}
