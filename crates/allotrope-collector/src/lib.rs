//! Drains the rings of recorded programs and writes their trace.
