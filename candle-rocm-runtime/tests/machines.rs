//! Machines with several GPUs, each emulated: which is GPU 0, which is the best, and what is said of it.

mod common;

use candle_rocm_runtime::runtime;
use common::{in_process, select};

/// The GPUs of a machine as HIP lists them, the best of them, and what the advice or the summary holds.
struct Shape<'a> {
    archs: &'a [&'a str],
    best: Option<usize>,
    says: &'a [&'a str],
}

/// What builds have by default.
const TARGETS: &[&str] = &[
    "gfx90a",
    "gfx942",
    "gfx10-3-generic",
    "gfx11-generic",
    "gfx12-generic",
];

fn hold(test: &str, variables: &[(&str, &str)], targets: &[&str], shape: &Shape<'_>) {
    in_process(test, variables, || {
        select();
        let machine = runtime::current().unwrap().machine();
        let listed = machine.listed.iter().flatten();
        let archs: Vec<&str> = listed.map(|gpu| gpu.arch.as_str()).collect();
        assert_eq!(archs, shape.archs);
        assert_eq!(machine.best(targets), shape.best);
        let text = format!("{}; {}", machine.advice(targets), machine.summary());
        for part in shape.says {
            assert!(text.contains(part), "{part}: {text}");
        }
    });
}

/// A test for each machine: its GPUs with their memory, the variables, the targets, and what [`Shape`] has.
macro_rules! machines {
    ($($test:ident: $gpus:literal $memory:literal, $variables:expr, $targets:expr => $archs:expr, $best:expr, $says:expr;)*) => {
        $(
            #[test]
            fn $test() {
                let gpus = [("ROCM_EMU_ARCH", $gpus), ("ROCM_EMU_MEMORY", $memory)];
                let variables: &[(&str, &str)] = &$variables;
                let shape = Shape { archs: &$archs, best: $best, says: &$says };
                hold(stringify!($test), &[&gpus[..], variables].concat(), $targets, &shape);
            }
        )*
    };
}

machines! {
    graphics_before_the_card: "gfx1036,gfx1100" "512MiB,24GiB", [], TARGETS
        => ["gfx1036", "gfx1100"], Some(1),
        ["use GPU 1, AMD Radeon RX 7900 XTX (emulated) (gfx1100): HIP_VISIBLE_DEVICES=1 makes it GPU 0"];
    graphics_with_much_memory: "gfx1151,gfx1102" "96GiB,8GiB", [], TARGETS
        => ["gfx1151", "gfx1102"], Some(1), ["use GPU 1, AMD Radeon RX 7600"];
    the_card_before_the_graphics: "gfx1100,gfx1036" "24GiB,512MiB", [], TARGETS
        => ["gfx1100", "gfx1036"], Some(0), ["use GPU 0", "it is the first"];
    two_generations: "gfx1030,gfx1201" "16GiB", [], TARGETS
        => ["gfx1030", "gfx1201"], Some(0), ["GPU 0, AMD Radeon RX 6900 XT", "GPU 1, AMD Radeon RX 9070 XT"];
    two_generations_of_other_memory: "gfx1030,gfx1201" "12GiB,16GiB", [], TARGETS
        => ["gfx1030", "gfx1201"], Some(1), ["use GPU 1, AMD Radeon RX 9070 XT"];
    two_generations_and_code_for_one: "gfx1100,gfx1201" "24GiB,16GiB", [], &["gfx12-generic"]
        => ["gfx1100", "gfx1201"], Some(1), ["HIP_VISIBLE_DEVICES=1"];
    hips_list_is_the_order: "gfx1036,gfx1100" "512MiB,24GiB", [("HIP_VISIBLE_DEVICES", "1,0")], TARGETS
        => ["gfx1100", "gfx1036"], Some(0), ["HIP_VISIBLE_DEVICES=1,0 is set"];
    the_card_is_hidden_from_hip: "gfx1036,gfx1100" "512MiB,24GiB", [("HIP_VISIBLE_DEVICES", "0")], &["gfx1100"]
        => ["gfx1036"], None, ["unset HIP_VISIBLE_DEVICES: it hides gfx1100 (the driver's node 2)"];
    the_graphics_are_hidden_from_rocr: "gfx1036,gfx1100" "512MiB,24GiB", [("ROCR_VISIBLE_DEVICES", "1")], TARGETS
        => ["gfx1100"], Some(0), ["hidden from HIP, gfx1036 (the driver's node 1)"];
    hips_numbers_count_what_rocr_shows: "gfx1036,gfx1100,gfx1201" "512MiB,24GiB,16GiB",
        [("ROCR_VISIBLE_DEVICES", "1,2"), ("HIP_VISIBLE_DEVICES", "1")], TARGETS
        => ["gfx1201"], Some(0), ["ROCR_VISIBLE_DEVICES=1,2 HIP_VISIBLE_DEVICES=1 is set"];
    an_override_for_the_card_breaks_the_graphics: "gfx1036,gfx1101" "512MiB,16GiB",
        [("HSA_OVERRIDE_GFX_VERSION", "11.0.0")], TARGETS
        => ["gfx1100", "gfx1100"], Some(1),
        ["(gfx1036, which passes for gfx1100 by HSA_OVERRIDE_GFX_VERSION=11.0.0)", "use GPU 1"];
    an_override_for_the_graphics_breaks_the_card: "gfx1036,gfx1201" "512MiB,16GiB",
        [("HSA_OVERRIDE_GFX_VERSION", "10.3.0")], &["gfx12-generic"]
        => ["gfx1030", "gfx1030"], None, ["unset HSA_OVERRIDE_GFX_VERSION: the GPU is a gfx1201, which has code here"];
    an_override_of_one_node: "gfx1036,gfx1201" "512MiB,16GiB", [("HSA_OVERRIDE_GFX_VERSION_1", "10.3.0")], TARGETS
        => ["gfx1030", "gfx1201"], Some(1), ["by HSA_OVERRIDE_GFX_VERSION_1=10.3.0"];
}
