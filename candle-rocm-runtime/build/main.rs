//! Refuses at once what a build would fail at after minutes: features of candle-core that bring NVIDIA's crates, which
//! no patch stands for.

mod absent;
#[allow(dead_code)]
#[path = "../../candle-rocm-cuda/src/lock.rs"]
mod lock;

fn main() {
    for file in ["build", "../candle-rocm-cuda/src/lock.rs"] {
        println!("cargo::rerun-if-changed={file}");
    }
    if let Some(sentence) = absent::asked_for() {
        println!("cargo::error={sentence}");
    }
}
