//! What to set on a server so that its log can be captured.
