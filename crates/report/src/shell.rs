//! The shell of a page: its policy, its style and its scripts around a body. The page may load nothing: the policy names the
//! hash of each script and style.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::escape::escape_html;

pub(crate) const STYLE: &str = include_str!("../assets/page.css");
pub(crate) const SCRIPT: &str = concat!(
    include_str!("../assets/page.js"),
    "\n",
    include_str!("../assets/lines.js"),
    "\n",
    include_str!("../assets/cases.js"),
    "\n",
    include_str!("../assets/pairs.js"),
    "\n",
    include_str!("../assets/factors.js"),
    "\n",
    include_str!("../assets/capacity.js"),
    "\n",
    include_str!("../assets/time.js"),
    "\n",
    include_str!("../assets/heat.js"),
    "\n",
    include_str!("../assets/compare.js"),
    "\n",
    include_str!("../assets/history.js")
);
const ECHARTS: &str = include_str!("../assets/echarts/echarts.min.js");

/// A page with the policy that a server sends with it.
#[derive(Debug, Clone)]
pub struct Page {
    /// The document.
    pub html: String,
    /// Value of the header `Content-Security-Policy`; the document has the same policy, as far as a document can.
    pub policy: String,
}

/// The parts of a page.
pub(crate) struct PageShell<'a> {
    pub(crate) title: &'a str,
    pub(crate) tool_version: &'a str,
    /// Style after that of the report.
    pub(crate) style: &'a str,
    /// Script after that of the report.
    pub(crate) script: &'a str,
    /// What stands in `body`, before the data block.
    pub(crate) body: &'a str,
    /// The data block, as escaped JSON.
    pub(crate) data: &'a str,
    /// Whether there may be charts: their library is most of the page.
    pub(crate) has_charts: bool,
    /// Whether the page asks its server, and sends it forms.
    pub(crate) is_served: bool,
}

impl PageShell<'_> {
    pub(crate) fn page(&self) -> Page {
        let (style, script) = (joined(STYLE, self.style), joined(SCRIPT, self.script));
        let policy = self.policy(&style, &script);
        let mut page = String::with_capacity(ECHARTS.len() + 1_000_000);
        // The page's script comes first, so that it sees every error and violation; it waits for the document.
        page.push_str(&format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta name=\"generator\" content=\"pgdyno {}\">\n\
             <title>{}</title>\n<script>{script}</script>\n<style>{style}</style>\n</head>\n<body>\n",
            escape_html(self.tool_version),
            escape_html(self.title)
        ));
        page.push_str(self.body);
        page.push_str("<script type=\"application/json\" id=\"data\">");
        page.push_str(self.data);
        page.push_str("</script>\n");
        if self.has_charts {
            page.push_str("<script>");
            page.push_str(ECHARTS);
            page.push_str("</script>\n");
        }
        page.push_str("</body>\n</html>\n");
        // Only a header can say who may put the page into a frame.
        let policy = if self.is_served { format!("{policy}; frame-ancestors 'none'") } else { policy };
        Page { html: page, policy }
    }

    fn policy(&self, style: &str, script: &str) -> String {
        let charts = if self.has_charts { format!(" '{}'", hash(ECHARTS)) } else { String::new() };
        let own = if self.is_served { "'self'" } else { "'none'" };
        let connect = if self.is_served { "connect-src 'self'; " } else { "" };
        format!(
            "default-src 'none'; script-src '{}'{charts}; style-src '{}'; {connect}base-uri 'none'; form-action {own}",
            hash(script),
            hash(style)
        )
    }
}

fn joined(first: &str, second: &str) -> String {
    if second.is_empty() { first.to_string() } else { format!("{first}\n{second}") }
}

/// A source expression of the policy for an inline script or style.
fn hash(source: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(source.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_library_is_the_one_described() {
        let readme = include_str!("../assets/echarts/README.md");
        let sum: String =
            Sha256::digest(ECHARTS.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(readme.contains(&sum), "echarts.min.js has SHA-256 {sum}; its README says otherwise");
    }

    #[test]
    fn inlined_assets_cannot_end_their_element() {
        for source in [SCRIPT, ECHARTS, STYLE] {
            let lower = source.to_ascii_lowercase();
            for end in ["</script", "</style", "<!--"] {
                assert!(!lower.contains(end), "an asset contains {end}");
            }
        }
    }
}
