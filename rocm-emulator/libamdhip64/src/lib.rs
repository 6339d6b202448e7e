//! rocm-emulator as a drop-in libamdhip64.so.
