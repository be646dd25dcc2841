//! Output of nodes for EXPLAIN, whatever its format.

use std::ffi::CString;

use pgrx::pg_sys;

/// The properties of a node, in the order in which they are added.
pub struct Explanation {
    pub(crate) state: *mut pg_sys::ExplainState,
}

impl Explanation {
    /// # Safety
    /// EXPLAIN's state outlives the result.
    pub unsafe fn of(state: *mut pg_sys::ExplainState) -> Explanation {
        Explanation { state }
    }

    /// Whether the output is text, in which related numbers share a line.
    pub fn is_text(&self) -> bool {
        // SAFETY: EXPLAIN's state outlives the call that it is handed to.
        unsafe { (*self.state).format == pg_sys::ExplainFormat::EXPLAIN_FORMAT_TEXT }
    }

    /// Adds a property.
    pub fn text(&mut self, label: &str, value: &str) {
        let (label, value) = (c_string(label), c_string(value));
        // SAFETY: EXPLAIN's state outlives the call that it is handed to; EXPLAIN copies both
        // texts.
        unsafe { pg_sys::ExplainPropertyText(label.as_ptr(), value.as_ptr(), self.state) }
    }

    /// Adds a number; `unit` is shown in text only.
    pub fn integer(&mut self, label: &str, unit: Option<&str>, value: i64) {
        let (label, unit) = (c_string(label), unit.map(c_string));
        let unit = unit.as_ref().map_or(std::ptr::null(), |unit| unit.as_ptr());
        // SAFETY: EXPLAIN's state outlives the call that it is handed to; the texts outlive this
        // call.
        unsafe { pg_sys::ExplainPropertyInteger(label.as_ptr(), unit, value, self.state) }
    }

    /// Adds a time.
    pub fn milliseconds(&mut self, label: &str, ms: f64) {
        let label = c_string(label);
        // SAFETY: EXPLAIN's state outlives the call that it is handed to; the texts outlive this
        // call.
        unsafe {
            pg_sys::ExplainPropertyFloat(label.as_ptr(), c"ms".as_ptr(), ms, 3, self.state);
        }
    }
}

pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}
