//! The shared-memory contract between a recorded program and the collector.
