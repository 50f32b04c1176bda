//! Git repositories and archives as content-addressed trees.
