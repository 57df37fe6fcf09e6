//! The container: file header, chunk header and their limits. What a chunk's
//! payload means is no business of this file.
