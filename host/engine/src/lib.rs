//! Snapshot, decide, perform: the loop around the pure core, over ports.
