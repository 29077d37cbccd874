//! The text that comments are cut from: 300 MB, made with the first row, and freed with the last instance of the workload.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use tpchgen::distribution::Distributions;
use tpchgen::text::TextPool;

/// Bytes of dbgen's text; comments depend on it.
const WHOLE_BYTES: i32 = 300 << 20;
/// Bytes of a text from which comments of the same lengths can be cut.
const SKETCH_BYTES: i32 = 64 << 10;

static WHOLE: Mutex<Weak<SharedText>> = Mutex::new(Weak::new());
static SKETCH: OnceLock<Arc<SharedText>> = OnceLock::new();

/// A text, made when it is needed.
pub(crate) struct SharedText {
    n_bytes: i32,
    made: OnceLock<TextPool>,
}

impl SharedText {
    /// The text of exact rows, shared by all that make some at the time.
    pub(crate) fn whole() -> Arc<SharedText> {
        let mut known = WHOLE.lock().unwrap_or_else(PoisonError::into_inner);
        known.upgrade().unwrap_or_else(|| {
            let made = Arc::new(SharedText { n_bytes: WHOLE_BYTES, made: OnceLock::new() });
            *known = Arc::downgrade(&made);
            made
        })
    }

    /// A small text, for rows whose sizes alone matter.
    pub(crate) fn sketch() -> Arc<SharedText> {
        let made = || Arc::new(SharedText { n_bytes: SKETCH_BYTES, made: OnceLock::new() });
        Arc::clone(SKETCH.get_or_init(made))
    }

    pub(super) fn text(&self) -> &TextPool {
        self.made.get_or_init(|| TextPool::new(self.n_bytes, Distributions::static_default()))
    }
}
