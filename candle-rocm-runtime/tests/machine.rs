//! Machines on which the first GPU is not the one that is meant: errors name the GPU that works, and one thing to do.

mod common;

use candle_rocm_runtime::runtime::machine::{word_on_shared_memory, Listed, Machine};
use candle_rocm_runtime::{runtime, Context, ErrorKind, Image};
use common::{in_process, select};
use rocm_nvcc::{text, Compiler, Options, Source};
use rocm_toolchain::topology::{pci_address, Node};

const APU: (&str, usize) = ("gfx1036", 512 << 20);
const CARD: (&str, usize) = ("gfx1100", 24 << 30);

/// A machine on which the driver lists these processors and HIP those of these numbers, under these names.
fn machine(nodes: &[&str], listed: &[(usize, (&str, usize))], set: &[(&str, &str)]) -> Machine {
    let address = |card: usize| Some(pci_address(0, card as u32 + 3, 0));
    let node = |(card, processor): (usize, &&str)| Node {
        number: card as u32 + 1,
        processor: processor.to_string(),
        name: String::new(),
        compute_units: 2,
        render_minor: 128,
        pci_address: address(card),
    };
    let nodes: Vec<Node> = nodes.iter().enumerate().map(node).collect();
    let listed = listed.iter().map(|(card, (arch, memory))| {
        Some(Listed {
            name: format!("Radeon {card}"),
            arch: arch.to_string(),
            memory: *memory,
            pci_address: address(*card),
        })
    });
    let variable = |name: &str| {
        let found = set.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.to_string())
    };
    Machine {
        listed: listed.collect(),
        variables: Machine::variables(&nodes, &variable),
        nodes,
    }
}

#[test]
fn the_card_is_meant_and_not_the_processors_graphics() {
    let both = machine(&["gfx1036", "gfx1100"], &[(0, APU), (1, CARD)], &[]);
    assert_eq!(both.best(&["gfx11-generic"]), Some(1));
    assert_eq!(
        both.advice(&["gfx11-generic"]),
        "use GPU 1, Radeon 1 (gfx1100): HIP_VISIBLE_DEVICES=1 makes it GPU 0"
    );
    // Of two that work, the card; of none, a build for the card.
    assert_eq!(both.best(&["gfx10-3-generic", "gfx1100"]), Some(1));
    assert_eq!(
        both.advice(&["gfx942"]),
        "build again with CANDLE_ROCM_ARCHS=gfx1100"
    );
    // A list that is set already has the numbers that count.
    let set = [("HIP_VISIBLE_DEVICES", "2, 0")];
    let nodes = ["gfx1100", "gfx1201", "gfx1036"];
    let turned = machine(&nodes, &[(2, APU), (0, CARD)], &set);
    assert_eq!(
        turned.advice(&["gfx1100"]),
        "use GPU 1, Radeon 0 (gfx1100): HIP_VISIBLE_DEVICES=0 makes it GPU 0"
    );
    assert!(turned
        .summary()
        .contains("hidden from HIP, gfx1201 (the driver's node 2)"));
}

#[test]
fn an_overridden_gpu_has_both_names() {
    let set = [("HSA_OVERRIDE_GFX_VERSION", "9.0.0")];
    let one = machine(&["gfx1031"], &[(0, ("gfx900", 12 << 30))], &set);
    assert_eq!(
        one.describe(0),
        "GPU 0, Radeon 0 (gfx1031, which passes for gfx900 by HSA_OVERRIDE_GFX_VERSION=9.0.0)"
    );
    assert_eq!(
        one.advice(&["gfx10-3-generic"]),
        "unset HSA_OVERRIDE_GFX_VERSION: the GPU is a gfx1031, which has code here"
    );
    // What no build has is not advised.
    assert_eq!(
        one.advice(&["gfx942"]),
        "build again with CANDLE_ROCM_ARCHS=gfx1031, and unset HSA_OVERRIDE_GFX_VERSION"
    );
    // The variable of a node goes before the other.
    let set = [set[0], ("HSA_OVERRIDE_GFX_VERSION_1", "10.3.0")];
    let own = machine(&["gfx1031"], &[(0, ("gfx1030", 12 << 30))], &set);
    assert!(own
        .describe(0)
        .contains("by HSA_OVERRIDE_GFX_VERSION_1=10.3.0"));
    assert!(own.works(0, &["gfx10-3-generic"]), "the same instructions");
    // Set for a card, it makes the graphics beside it pass for what it is not.
    let set = [("HSA_OVERRIDE_GFX_VERSION", "11.0.0")];
    let graphics = ("gfx1100", 512 << 20);
    let both = machine(&["gfx1036", "gfx1101"], &[(0, graphics), (1, CARD)], &set);
    assert!(!both.works(0, &["gfx1100"]));
    assert_eq!(both.best(&["gfx1100"]), Some(1));
}

#[test]
fn what_is_hidden_is_named_with_what_hides_it() {
    let set = [("ROCR_VISIBLE_DEVICES", "0"), ("CUDA_VISIBLE_DEVICES", "0")];
    let one = machine(&["gfx1036", "gfx1100"], &[(0, APU)], &set);
    assert_eq!(
        one.advice(&["gfx1100"]),
        "unset ROCR_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES: they hide gfx1100 (the driver's node 2), which has code \
         here"
    );
    let none = machine(&["gfx1100"], &[], &set[..1]);
    let text = none.nothing_listed().unwrap();
    assert!(
        text.contains("gfx1100 (node 1); ROCR_VISIBLE_DEVICES=0 is set"),
        "{text}"
    );
    assert_eq!(machine(&[], &[], &set).nothing_listed(), None);
}

#[test]
fn a_processor_without_kernels_is_said_to_have_none() {
    let old = machine(&["gfx803"], &[(0, ("gfx803", 8 << 30))], &[]);
    let advice = old.advice(&["gfx942"]);
    assert!(
        advice.starts_with("no build has kernels for this GPU"),
        "{advice}"
    );
    assert!(!advice.contains("CANDLE_ROCM_ARCHS"), "{advice}");
}

#[test]
fn little_memory_is_the_firmwares_share_on_apus_alone() {
    let word = word_on_shared_memory("gfx1151", 512 << 20).unwrap();
    for part in ["512 MiB", "GTT", "ttm.pages_limit", "firmware"] {
        assert!(word.contains(part), "{word}");
    }
    for (arch, memory) in [
        ("gfx1151", 64 << 30),
        ("gfx1100", 512 << 20),
        ("sm_90", 512 << 20),
    ] {
        assert_eq!(word_on_shared_memory(arch, memory), None, "{arch}");
    }
}

/// Code for gfx1100 as text.
fn code_for_the_card() -> String {
    let source = Source::Text {
        name: "one.cu".to_owned(),
        text: "extern \"C\" __global__ void one(float *x) { x[threadIdx.x] = 1; }".to_owned(),
    };
    let program = Compiler::at_run_time("gfx1100").unwrap();
    text::encode(&program.compile(&source, &Options::default()).unwrap())
}

#[test]
fn the_first_error_describes_the_machine_and_later_ones_are_short() {
    let variables = [
        ("ROCM_EMU_ARCH", "gfx1036,gfx1100"),
        ("ROCM_EMU_MEMORY", "512MiB,16GiB"),
    ];
    in_process(
        "the_first_error_describes_the_machine_and_later_ones_are_short",
        &variables,
        || {
            select();
            let code = code_for_the_card();
            let load = |ordinal| {
                let context = Context::new(ordinal).unwrap();
                context.load_module(Image::from_src(code.clone()))
            };
            let first = load(0).unwrap_err();
            assert_eq!(*first.kind(), ErrorKind::Module);
            let advice = "use GPU 1, AMD Radeon RX 7900 XTX (emulated) (gfx1100): HIP_VISIBLE_DEVICES=1 makes it GPU 0";
            let holds = "`one` holds no code for GPU 0, AMD Radeon Graphics (emulated) (gfx1036)";
            for part in [
                holds,
                "there is code for gfx1100",
                advice,
                "the machine has GPU 0",
            ] {
                assert!(first.message().contains(part), "{first}");
            }
            let second = load(0).unwrap_err();
            assert!(second.message().contains(advice), "{second}");
            assert!(!second.message().contains("the machine has"), "{second}");
            assert!(second.message().len() < first.message().len());
            load(1).expect("the card");
        },
    );
}

#[test]
fn an_override_for_other_instructions_is_refused_before_the_gpu_meets_them() {
    let variables = [
        ("ROCM_EMU_ARCH", "gfx1036"),
        ("HSA_OVERRIDE_GFX_VERSION", "11.0.0"),
    ];
    in_process(
        "an_override_for_other_instructions_is_refused_before_the_gpu_meets_them",
        &variables,
        || {
            select();
            let context = Context::new(0).unwrap();
            let error = context
                .kernel(&candle_rocm_kernels::AFFINE, "affine_f32")
                .unwrap_err();
            let text = error.message();
            assert!(text.contains("gfx1036, which passes for gfx1100"), "{text}");
            assert!(text.contains("HSA_OVERRIDE_GFX_VERSION=11.0.0"), "{text}");
            assert!(text.contains("unset HSA_OVERRIDE_GFX_VERSION"), "{text}");
        },
    );
}

#[test]
fn a_number_beyond_the_list_names_what_is_hidden() {
    let variables = [
        ("ROCM_EMU_ARCH", "gfx1036,gfx1100"),
        ("HIP_VISIBLE_DEVICES", "1"),
    ];
    in_process(
        "a_number_beyond_the_list_names_what_is_hidden",
        &variables,
        || {
            select();
            let error = Context::new(1).unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::NoDevice);
            for part in [
                "there is no GPU 1",
                "hidden from HIP, gfx1036",
                "HIP_VISIBLE_DEVICES=1 is set",
            ] {
                assert!(error.message().contains(part), "{error}");
            }
        },
    );
}

#[test]
fn all_hidden_is_said_so() {
    let variables = [("ROCM_EMU_ARCH", "gfx1100"), ("HIP_VISIBLE_DEVICES", "-1")];
    in_process("all_hidden_is_said_so", &variables, || {
        let error = runtime::select(candle_rocm_runtime::RuntimeKind::Emulator).unwrap_err();
        let text = error.message();
        assert!(
            text.contains("HIP_VISIBLE_DEVICES=-1 hides every GPU"),
            "{text}"
        );
    });
}

#[test]
fn running_out_of_the_firmwares_share_says_where_more_is() {
    let variables = [("ROCM_EMU_ARCH", "gfx1151"), ("ROCM_EMU_MEMORY", "512MiB")];
    in_process(
        "running_out_of_the_firmwares_share_says_where_more_is",
        &variables,
        || {
            select();
            let stream = Context::new(0).unwrap().default_stream();
            let error = stream.alloc_zeros::<u8>(600 << 20).unwrap_err();
            assert!(error.is_out_of_memory(), "{error}");
            assert!(error.message().contains("GTT"), "{error}");
        },
    );
}

#[test]
fn libraries_that_were_tried_are_listed_once() {
    let variables = [("CANDLE_ROCM_HIP_LIBRARY", "/nowhere/libamdhip64.so")];
    in_process(
        "libraries_that_were_tried_are_listed_once",
        &variables,
        || {
            let fails = || runtime::select(candle_rocm_runtime::RuntimeKind::Amd).unwrap_err();
            let (first, second) = (fails(), fails());
            let tried = runtime::libraries_tried().unwrap();
            assert!(tried.contains("/nowhere/libamdhip64.so"), "{tried}");
            assert!(first.message().contains(&tried), "{first}");
            assert!(!second.message().contains("/nowhere"), "{second}");
            for part in [
                "was not found",
                "Install ROCm",
                "in the first error of this process",
            ] {
                assert!(second.message().contains(part), "{second}");
            }
        },
    );
}
