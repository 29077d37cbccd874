//! Cells of text in columns. A width in a format string panics beyond 65,535, and widths are those of texts from others.

/// A text with spaces after it, up to a width.
pub fn left(text: &str, width: usize) -> String {
    format!("{text}{}", spaces(text, width))
}

/// A text with spaces before it, up to a width.
pub fn right(text: &str, width: usize) -> String {
    format!("{}{text}", spaces(text, width))
}

fn spaces(text: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(text.chars().count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_their_width_whatever_it_is() {
        assert_eq!((left("é", 3).as_str(), right("é", 3).as_str()), ("é  ", "  é"));
        assert_eq!((left("long", 2).as_str(), right("long", 2).as_str()), ("long", "long"));
        assert_eq!(left("", 70_000).len(), 70_000);
    }
}
