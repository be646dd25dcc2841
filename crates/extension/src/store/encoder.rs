//! A row group that a thread of its own encodes, while the backend gathers the next.
//!
//! The thread calls nothing of PostgreSQL's and shares the rows read-only: readers of
//! this backend read them meanwhile. What it encodes is written by the backend's main thread, in
//! [`super::group`].
//!
//! Invariants
//! - A thread is one of the server's budget, and ends before its encoder is dropped.
//! - Every signal is blocked in it: handlers belong to the main thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use howdah_bridge::spare_memory;
use howdah_bridge::upper::with_signals_blocked;
use howdah_columnar::{ColumnarError, EncodeOptions, EncodedRowGroup, RowGroupBuilder};

use super::encode::set_aside_for;
use crate::settings;
use crate::stop_point;
use crate::thread_budget::Lease;

/// How often a backend that waits for a thread looks for interrupts.
const IDLE: Duration = Duration::from_millis(2);

type Outcome = Result<EncodedRowGroup, ColumnarError>;

/// Rows that are being encoded.
pub struct Encoder {
    rows: Arc<RowGroupBuilder>,
    outcome: Receiver<Outcome>,
    /// The outcome is needed no more.
    is_dropped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Given back when the thread has ended: fields are dropped after [`Drop::drop`].
    _lease: Lease,
}

impl Encoder {
    /// Starts to encode the rows, or returns them where no thread can be had.
    // The rows are returned to be encoded otherwise.
    #[allow(clippy::result_large_err)]
    pub fn start(
        rows: RowGroupBuilder,
        encoding: EncodeOptions,
    ) -> Result<Encoder, RowGroupBuilder> {
        let lease = Lease::take(settings::threads().min(1));
        if lease.count == 0 {
            return Err(rows);
        }
        set_aside_for(&rows);
        let rows = Arc::new(rows);
        let (sender, outcome) = sync_channel(1);
        let shared = Arc::clone(&rows);
        let is_dropped = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&is_dropped);
        let panics = stop_point::panics_at("encode-thread");
        let mut work = Some(move || {
            assert!(!panics, "as asked at encode-thread");
            // After a rollback no receiver is left.
            let stops = || is_stopped.load(Ordering::Relaxed) || spare_memory::was_needed();
            let _ = sender.send(shared.encode_unless(&encoding, &stops));
        });
        let mut thread = None;
        with_signals_blocked(&mut || {
            let builder = Builder::new().name("howdah encode".to_owned());
            thread = work.take().and_then(|work| builder.spawn(work).ok());
        });
        if thread.is_none() {
            // The closure is gone, and with it the other reference.
            return Err(Arc::try_unwrap(rows).unwrap_or_else(|shared| (*shared).clone()));
        }
        Ok(Encoder {
            rows,
            outcome,
            is_dropped,
            thread,
            _lease: lease,
        })
    }

    /// The rows, all of them finished.
    pub fn rows(&self) -> &RowGroupBuilder {
        &self.rows
    }

    /// Whether nothing is to be waited for.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the encoded group, which is handed out once. A pending interrupt is served.
    ///
    /// # Errors
    /// What the encoder returned, or that it panicked.
    pub fn wait(&self) -> Outcome {
        loop {
            match self.outcome.recv_timeout(IDLE) {
                Ok(outcome) => {
                    // It stops by itself where memory is refused.
                    howdah_bridge::check_for_interrupts!();
                    return outcome;
                }
                Err(RecvTimeoutError::Timeout) => {
                    howdah_bridge::check_for_interrupts!();
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(ColumnarError::Encode {
                        detail: "the encoder's thread panicked".to_owned(),
                    });
                }
            }
        }
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic, if any, was told by the channel.
            let _ = thread.join();
        }
    }
}
