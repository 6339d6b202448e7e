//! The questions that people come with: each has a heading that answers it.

use crate::pages;

/// A question, the page and heading with its answer, and words that the answer has.
const ANSWERS: [(&str, &str, &str, &[&str]); 14] = [
    (
        "what do I need for an RX 9070 XT",
        "docs/user/gpus.md",
        "what-do-i-need-for-an-rx-9070-xt",
        &["ROCm 6.4", "gfx1201"],
    ),
    (
        "which ROCm for gfx1151",
        "docs/user/gpus.md",
        "which-rocm-for-gfx1151",
        &["7.2"],
    ),
    (
        "no kernel image",
        "docs/user/troubleshooting.md",
        "no-kernel-image-holds-no-code-for",
        &["no kernel image", "CANDLE_ROCM_ARCHS"],
    ),
    (
        "holds no code for",
        "docs/user/troubleshooting.md",
        "no-kernel-image-holds-no-code-for",
        &["holds no code for", "HIP_VISIBLE_DEVICES"],
    ),
    (
        "the integrated GPU is chosen",
        "docs/user/devices.md",
        "the-integrated-gpu-is-chosen",
        &["HIP_VISIBLE_DEVICES=1", "cargo xtask doctor"],
    ),
    (
        "it is slow",
        "docs/user/troubleshooting.md",
        "it-is-slow",
        &["--release", "CANDLE_ROCM_GEMM_TUNE", "graphs.md"],
    ),
    (
        "output is garbage",
        "docs/user/troubleshooting.md",
        "output-is-garbage",
        &["CANDLE_ROCM_GRAPHS=0", "candle-host-bugs.md"],
    ),
    (
        "how do I use mistral.rs",
        "docs/user/models.md",
        "mistralrs",
        &["0.8.1", "project.md"],
    ),
    (
        "how do I compile my own .cu",
        "docs/user/cuda-kernels.md",
        "how-do-i-compile-my-own-cu",
        &["cudaforge", "cargo xtask nvcc"],
    ),
    (
        "how do I turn graphs off",
        "docs/user/graphs.md",
        "how-do-i-turn-graphs-off",
        &["CANDLE_ROCM_GRAPHS=0"],
    ),
    (
        "how do I add an operator",
        "docs/contributing/operator.md",
        "an-operator",
        &["tests/tests/op_matrix/", "gradient"],
    ),
    (
        "what is a K-block here",
        "docs/kernels/glossary.md",
        "what-is-a-k-block-here",
        &["LDS stages", "PREFETCH"],
    ),
    (
        "what has been run on real hardware",
        "docs/evidence/README.md",
        "what-has-been-run-on-real-hardware",
        &["NVIDIA H200", "nothing"],
    ),
    (
        "it runs on a card: what now",
        "docs/user/troubleshooting.md",
        "it-runs-on-a-card-what-now",
        &["Report from a card"],
    ),
];

#[test]
fn questions_have_answers() {
    let pages = pages::all();
    for (question, path, anchor, words) in ANSWERS {
        let page = pages.iter().find(|page| page.path == path);
        let sections = page
            .unwrap_or_else(|| panic!("{question}: there is no {path}"))
            .sections();
        let section = sections.iter().find(|section| section.anchor == anchor);
        let section = section.unwrap_or_else(|| panic!("{question}: {path} has no #{anchor}"));
        for word in words {
            assert!(
                section.text.contains(word),
                "{question}: {path}#{anchor} does not say {word:?}"
            );
        }
    }
}
