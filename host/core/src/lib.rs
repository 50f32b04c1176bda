//! What to do next for one Stack: a pure function of a snapshot.
