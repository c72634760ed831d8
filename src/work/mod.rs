//! work.
