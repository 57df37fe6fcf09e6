//! poireau's README: a sampling allocation debugger for programs in production.
