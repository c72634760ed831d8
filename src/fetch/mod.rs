//! fetch.
