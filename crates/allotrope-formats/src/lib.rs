//! Reads and writes the stack formats that other tools use.
#![forbid(unsafe_code)]
