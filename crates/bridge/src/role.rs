//! The role whose rights count, and the restrictions under which its code runs.

use pgrx::pg_sys;

/// A role with its restrictions (`SECURITY_…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Role {
    user: pg_sys::Oid,
    security_context: i32,
}

impl Role {
    pub fn current() -> Role {
        let (mut user, mut security_context) = (pg_sys::InvalidOid, 0);
        // SAFETY: plain reads of this backend's state.
        unsafe { pg_sys::GetUserIdAndSecContext(&mut user, &mut security_context) };
        Role {
            user,
            security_context,
        }
    }

    /// Another role in a security-restricted operation, under the restrictions of this one.
    pub fn restricted_to(self, user: pg_sys::Oid) -> Role {
        Role {
            user,
            security_context: self.security_context | pg_sys::SECURITY_RESTRICTED_OPERATION as i32,
        }
    }

    /// Makes it the current one, until another is, or the current (sub)transaction is aborted,
    /// which restores the role of its start.
    pub fn assume(self) {
        // SAFETY: a role that was once current, or a table's owner.
        unsafe { pg_sys::SetUserIdAndSecContext(self.user, self.security_context) };
    }

    /// What `work` returns under this role. After an ERROR of `work` the current (sub)transaction
    /// is aborted, and with it the role.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        let current = Role::current();
        if current == self {
            return work();
        }
        self.assume();
        let result = work();
        current.assume();
        result
    }
}
