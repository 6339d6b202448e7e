//! Which GPUs a build compiles for.

use rocm_toolchain::topology::NoGpu;
use rocm_toolchain::{architectures, Notice};

#[test]
fn architectures_are_those_of_the_machine_or_all() {
    let known = [
        "gfx900",
        "gfx90a",
        "gfx942",
        "gfx1030",
        "gfx1100",
        "gfx10-3-generic",
        "gfx11-generic",
        "gfx12-generic",
    ];
    let known = known.map(str::to_string).to_vec();
    let choose = |choice: &str, found: &[&str]| {
        let found = match found {
            [] => Err(NoGpu),
            found => Ok(found.iter().map(|name| name.to_string()).collect()),
        };
        architectures::chosen(choice, &known, found)
    };
    let found = choose("", &["gfx1100", "gfx1036", "gfx1100"]).unwrap();
    assert_eq!(found.archs, ["gfx10-3-generic", "gfx11-generic"]);
    assert!(
        found.by_itself && found.reason.contains("the GPUs of this machine"),
        "{found:?}"
    );
    // A GPU that no kernel serves does not stop the build for the one beside it.
    assert_eq!(choose("", &["gfx900", "gfx942"]).unwrap().archs, ["gfx942"]);
    let all = choose("", &["gfx900"]).unwrap();
    assert_eq!(
        all.archs,
        [
            "gfx10-3-generic",
            "gfx11-generic",
            "gfx12-generic",
            "gfx90a",
            "gfx942"
        ]
    );
    assert!(
        all.by_itself
            && all
                .reason
                .contains("no kernel serves this machine's gfx900"),
        "{all:?}"
    );
    let none = choose("", &[]).unwrap();
    assert_eq!(none.archs, all.archs);
    assert!(none.reason.contains("lists no AMD GPU"), "{none:?}");
    let asked = choose("default", &["gfx1100"]).unwrap();
    assert_eq!((&asked.archs, asked.by_itself), (&none.archs, false));

    let named = choose(" gfx942, gfx1100,gfx942", &["gfx1030"]).unwrap();
    assert_eq!(
        (named.archs.join(" "), named.by_itself),
        ("gfx1100 gfx942".to_string(), false)
    );
    // What the compiler does not know, a generic target may cover.
    let covered = choose("gfx1201", &[]).unwrap();
    assert_eq!(covered.archs, ["gfx12-generic"]);
    assert_eq!(
        covered.notices.into_iter().collect::<Vec<_>>(),
        [Notice::Covered {
            name: "gfx1201".into(),
            target: "gfx12-generic".into()
        }]
    );
    assert!(named.notices.is_empty());
    let native = choose("native", &["gfx1030"]).unwrap();
    assert_eq!(
        (native.archs.join(" "), native.by_itself),
        ("gfx1030".to_string(), false)
    );
    assert!(choose("native", &[])
        .unwrap_err()
        .to_string()
        .contains("lists no AMD GPU"));
    assert!(choose("gfx1234", &[])
        .unwrap_err()
        .to_string()
        .contains("does not know the architecture gfx1234"));
    assert!(choose(",", &[])
        .unwrap_err()
        .to_string()
        .contains("names no architecture"));
    assert_eq!(
        architectures::serving("gfx1151", &known).as_deref(),
        Some("gfx11-generic")
    );
    assert_eq!(
        architectures::serving("gfx942", &known).as_deref(),
        Some("gfx942")
    );
    assert_eq!(architectures::serving("gfx803", &known), None);
}
