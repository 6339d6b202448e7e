//! The device's address space: live allocations, and the check of every access against them.
