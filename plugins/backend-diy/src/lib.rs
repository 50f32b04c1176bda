//! The backend adapter for self-managed state.
