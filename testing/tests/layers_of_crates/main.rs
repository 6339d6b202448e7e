//! The crates whose files stand in layers: each imports only from its own layer and from those below, in no circle.
//!
//! Here for all crates: `layers` reads Rust by features of `syn` and `proc-macro2` that no other build has. A crate that
//! is used by build scripts and asked for them would have every derive macro compiled a second time.

mod backend;
mod emulator;
mod kfd_emulator;
mod runtime;
mod toolchain;

use std::path::Path;

use candle_rocm_testing::layers::{House, Layer};

/// Holds the crate whose root file this is, below the repository's folder.
fn hold(root: &str, layers: &[Layer]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(root);
    House::read(&root).unwrap().assert_layers(layers);
}

#[test]
fn backend_stands_in_order() {
    hold("candle-rocm-backend/src/lib.rs", backend::LAYERS);
}

#[test]
fn runtime_stands_in_order() {
    hold("candle-rocm-runtime/src/lib.rs", runtime::LAYERS);
}

#[test]
fn toolchain_stands_in_order() {
    hold("rocm-toolchain/src/lib.rs", toolchain::LAYERS);
}

#[test]
fn emulator_stands_in_order() {
    hold("rocm-emulator/src/lib.rs", emulator::LIBRARY);
}

#[test]
fn tool_of_the_emulator_stands_in_order() {
    hold("rocm-emulator/src/bin/rocm-emu/main.rs", emulator::TOOL);
}

#[test]
fn kfd_emulator_stands_in_order() {
    hold(
        "rocm-emulator/kfd-emulator/src/lib.rs",
        kfd_emulator::LAYERS,
    );
}
