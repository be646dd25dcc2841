//! Loops compiled for the widest vectors that the processor has.
//!
//! ```text
//!   wide(loop) ─▶ the loop compiled with AVX-512 · with AVX2 · for any processor of its kind
//! ```
//!
//! The code is compiled for any x86-64, whose vectors have 128 bits. A loop that is passed to
//! [`wide`] is compiled again with instructions of newer processors, and run with the widest that
//! exist here. All forms are the same Rust code, and floats are neither contracted nor reordered,
//! so that results do not depend on the processor.
//!
//! The loop is a closure that owns what it captures (`move`), closures in it included: what is
//! captured by reference is read again in every step, and the loop stays as narrow as it was.
//!
//! Invariant: only what is inlined into the loop is compiled again. The closure itself says
//! `#[inline(always)]`, since a large one is not inlined by itself; a kernel that is passed here
//! calls nothing but closures, small functions and iterators. It processes a block of rows, not
//! one: a call takes a few nanoseconds.

#[cfg(target_arch = "x86_64")]
use fearless_simd::{Level, Simd};

/// Runs a loop with the widest vectors that the processor has.
#[inline(always)]
pub fn wide<R>(run: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    match Level::new() {
        Level::Avx512(simd) => return simd.vectorize(run),
        Level::Avx2(simd) => return simd.vectorize(run),
        _ => {}
    }
    run()
}

/// The levels of instructions that exist here, for tests of loops whose vectors are used by name.
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) fn levels() -> Vec<Level> {
    let widest = Level::new();
    let lower = [
        widest.as_sse2().map(Level::Sse2),
        widest.as_sse4_2().map(Level::Sse4_2),
        widest.as_avx2().map(Level::Avx2),
    ];
    lower.into_iter().flatten().chain([widest]).collect()
}
