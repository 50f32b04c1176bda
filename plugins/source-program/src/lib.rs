//! The Program source provider.
