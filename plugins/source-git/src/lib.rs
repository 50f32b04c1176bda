//! The Git source provider.
