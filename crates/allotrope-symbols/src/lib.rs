//! Addresses of an ELF file to function names, files, lines and inlined frames.
