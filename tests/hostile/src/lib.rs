//! Hostile components, repositories and archives.
