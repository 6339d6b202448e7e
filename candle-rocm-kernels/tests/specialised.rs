//! Kernels compiled for constants: each is there under its name, is not the one for any shape, and is found again.

use candle_rocm_kernels::grouped::{
    invocation, kernel_name, skinny_columns, skinny_name, Element, HEADER, TILES,
};
use candle_rocm_kernels::{Processor, SOURCES};
use object::{Object as _, ObjectSymbol as _};
use rocm_toolchain::specialised::{Constant, Error, Kernel, Specialiser};

const SHAPE: [Constant; 8] = [
    ("product.gemm.m", 4096),
    ("product.gemm.k", 7168),
    ("product.gemm.lda", 7168),
    ("product.gemm.ldb", 7168),
    ("product.splits", 1),
    ("product.k_per_split", 7168),
    ("product.residual", 0),
    ("grouping", 0),
];

/// All kernels of the grouped module.
fn names(arch: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (element, blocks) in [
        (Element::Bf16, false),
        (Element::F8e4m3, false),
        (Element::F8e4m3, true),
    ] {
        for tile in TILES {
            for transposed in [[false; 2], [false, true], [true, false], [true; 2]] {
                names.push(kernel_name(element, blocks, tile, transposed));
            }
        }
        let skinny = skinny_columns(Processor::of(arch)).iter();
        names.extend(skinny.map(|&columns| skinny_name(element, blocks, columns)));
    }
    names.sort();
    // Narrow tiles are the same for both.
    names.dedup();
    names
}

/// The bytes of instructions in a code object that has the kernel.
fn code_bytes(object: &[u8], kernel: &str) -> u64 {
    let file = object::File::parse(object).expect("a code object");
    let symbols: Vec<_> = file
        .symbols()
        .filter(|symbol| symbol.name() == Ok(kernel))
        .collect();
    assert_eq!(symbols.len(), 1, "{kernel}");
    symbols[0].size()
}

fn kernel<'a>(name: &'a str, invocation: &'a str) -> Kernel<'a> {
    Kernel {
        name,
        header: HEADER,
        invocation,
    }
}

fn check(arch: &str, names: &[String]) {
    let specialiser = Specialiser::new(&SOURCES).unwrap();
    for name in names {
        let invocation = invocation(name).unwrap_or_else(|| panic!("{name}"));
        let kernel = kernel(name, &invocation);
        let [general, special] = [&[][..], &SHAPE].map(|constants| {
            let code = specialiser.compile(&kernel, constants, arch).unwrap();
            code_bytes(&code.object, name)
        });
        // Loops whose turns are known may be unrolled further, in those for few columns.
        let is_shorter = special < general || name.contains("skinny") && special != general;
        assert!(is_shorter, "{arch} {name}: {special} of {general}");
        let again = specialiser.compile(&kernel, &SHAPE, arch).unwrap();
        assert!(!again.compiled, "{arch} {name}");
    }
    let notices = specialiser.finish();
    assert!(notices.is_empty(), "{notices:?}");
}

#[test]
fn every_kernel_is_made_for_a_shape() {
    check("gfx942", &names("gfx942"));
}

#[test]
fn every_architecture_has_them() {
    for arch in ["gfx90a", "gfx1030", "gfx1100", "gfx1201"] {
        let skinny = skinny_name(
            Element::F8e4m3,
            true,
            *skinny_columns(Processor::of(arch)).last().unwrap(),
        );
        let tile = kernel_name(Element::F8e4m3, true, TILES[0], [true, false]);
        check(arch, &[skinny, tile]);
    }
}

#[test]
fn the_sum_of_parts_is_made_for_none() {
    assert_eq!(invocation("grouped_sum"), None);
    assert_eq!(invocation("gemm_f32"), None);
}

#[test]
fn errors_are_the_compilers() {
    let specialiser = Specialiser::new(&SOURCES).unwrap();
    let name = kernel_name(Element::Bf16, false, TILES[1], [true, false]);
    let invocation = invocation(&name).unwrap();
    let constants: [Constant; 1] = [("product.no_such_field", 1)];
    for (constants, arch, expected) in [
        (&constants[..], "gfx1100", "no_such_field"),
        (&[], "gfx9999", "gfx9999"),
    ] {
        match specialiser.compile(&kernel(&name, &invocation), constants, arch) {
            Err(error @ (Error::Compile(_) | Error::Setup(_))) => {
                let text = error.to_string();
                assert!(text.contains(expected) && text.contains(&name), "{text}");
            }
            Ok(_) => panic!("{expected} was compiled"),
        }
    }
}
