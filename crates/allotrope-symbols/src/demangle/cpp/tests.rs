//! C++ names.
