//! Whether a lock is left over.

use windlass_sdk::{LockHolder, LockVerdict, ReportedLock};

/// Releases only when exactly one lock is left and it names a host that is proven dead. Locks have no owner and no
/// term, so everything else may be somebody at work.
pub fn stale_lock(locks: &[ReportedLock], holders: &[LockHolder]) -> LockVerdict {
    let [lock] = locks else {
        return LockVerdict::Keep;
    };
    let mut namesakes = holders
        .iter()
        .filter(|holder| holder.hostname == lock.hostname && !lock.hostname.is_empty())
        .peekable();
    if namesakes.peek().is_some() && namesakes.all(|holder| holder.dead) {
        LockVerdict::Release
    } else {
        LockVerdict::Keep
    }
}
