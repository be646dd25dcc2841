//! Procedures that commit as they go.

use std::marker::PhantomData;

use pgrx::pg_sys;

/// Defines a procedure for `LANGUAGE C`: it calls `$body` with the
/// [`Call`](crate::procedure::Call).
#[macro_export]
macro_rules! procedure {
    ($name:ident, $finfo:ident, $body:path) => {
        #[unsafe(no_mangle)]
        extern "C" fn $finfo() -> *const $crate::procedure::Info {
            &$crate::procedure::VERSION_1
        }

        /// # Safety
        /// To be called by the function manager only.
        #[pgrx::pg_guard]
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(info: $crate::procedure::RawCall) -> $crate::Datum {
            // SAFETY: the call interface passes what lives as long as the call.
            $body(unsafe { $crate::procedure::Call::of(info) });
            $crate::Datum::from(0)
        }
    };
}

/// `Pg_finfo_record`
pub type Info = pg_sys::Pg_finfo_record;
/// `FunctionCallInfo`
pub type RawCall = pg_sys::FunctionCallInfo;

/// The only version there is.
pub static VERSION_1: Info = pg_sys::Pg_finfo_record { api_version: 1 };

/// A call of a procedure.
pub struct Call<'a> {
    raw: RawCall,
    call: PhantomData<&'a ()>,
}

impl Call<'_> {
    /// # Safety
    /// Valid as long as the result.
    pub unsafe fn of(raw: RawCall) -> Self {
        Call {
            raw,
            call: PhantomData,
        }
    }

    /// The first argument, declared `regclass` or `oid`; `None` if it is NULL, or if there is none.
    pub fn oid_argument(&self) -> Option<pg_sys::Oid> {
        // SAFETY: the call has as many arguments as it says.
        unsafe {
            let argument = (*self.raw)
                .args
                .as_slice((*self.raw).nargs as usize)
                .first()?;
            (!argument.isnull).then(|| pg_sys::Oid::from(argument.value.value() as u32))
        }
    }

    /// Whether it must not end transactions: it runs inside of a transaction block or a function.
    pub fn is_atomic(&self) -> bool {
        // SAFETY: CALL passes a CallContext; a plain function call passes none.
        unsafe {
            let context = (*self.raw).context;
            context.is_null()
                || (*context).type_ != pg_sys::NodeTag::T_CallContext
                || (*context.cast::<pg_sys::CallContext>()).atomic
        }
    }
}

/// Runs the body of a procedure that is not [atomic](Call::is_atomic), connected to SPI: it may end
/// transactions.
pub fn with_transactions<R>(body: impl FnOnce() -> R) -> R {
    // SAFETY: connected once and finished once; an ERROR cleans up by itself.
    unsafe {
        pg_sys::SPI_connect_ext(pg_sys::SPI_OPT_NONATOMIC as i32);
        let result = body();
        pg_sys::SPI_finish();
        result
    }
}
