//! Memory of a run: the total of its threads, and its limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::VectorError;

/// The memory of a run.
#[derive(Debug)]
pub(crate) struct Memory {
    held_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
    limit_bytes: usize,
}

impl Memory {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self {
            held_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
            limit_bytes,
        }
    }

    /// A share of it, which holds nothing yet.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share {
            memory: Arc::clone(self),
            held_bytes: 0,
        }
    }

    pub(crate) fn peak_bytes(&self) -> usize {
        self.peak_bytes.load(Ordering::Relaxed)
    }
}

/// The memory of one thread. It is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Arc<Memory>,
    held_bytes: usize,
}

impl Share {
    /// Sets the memory that it holds now.
    ///
    /// # Errors
    ///
    /// [`VectorError::Memory`] if the total exceeds the limit.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), VectorError> {
        let memory = &self.memory;
        if bytes == self.held_bytes {
            return Ok(());
        }
        let total = match bytes.checked_sub(self.held_bytes) {
            Some(more) => memory.held_bytes.fetch_add(more, Ordering::Relaxed) + more,
            None => {
                let less = self.held_bytes - bytes;
                memory.held_bytes.fetch_sub(less, Ordering::Relaxed) - less
            }
        };
        self.held_bytes = bytes;
        memory.peak_bytes.fetch_max(total, Ordering::Relaxed);
        match total > memory.limit_bytes {
            true => Err(VectorError::Memory {
                limit_bytes: memory.limit_bytes,
            }),
            false => Ok(()),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory
            .held_bytes
            .fetch_sub(self.held_bytes, Ordering::Relaxed);
    }
}
