//! Refuses at once what a build would fail at after minutes: features of candle-core that bring NVIDIA's crates, which
//! no patch stands for.

mod absent;

fn main() {
    println!("cargo::rerun-if-changed=build");
    if let Some(sentence) = absent::asked_for() {
        println!("cargo::error={sentence}");
    }
}
