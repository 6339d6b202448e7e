//! An AMD GPU in software: loads HSACO code objects and executes their instructions on the CPU.
