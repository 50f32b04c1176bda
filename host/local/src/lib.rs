//! The engine's ports on one machine.
