//! The fuzzer: one program for all targets, of which the variable `TARGET` names one. Seeds are written to the folder
//! that `SEEDS` names. `cargo xtask fuzz` runs it.

#![no_main]

mod seeds;
mod targets;

use std::sync::LazyLock;

use targets::Target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("TARGET").expect("the variable TARGET names what to fuzz");
    let named = |target: &Target| target.name() == name;
    let found = targets::all().into_iter().find(named);
    found.unwrap_or_else(|| panic!("there is no target `{name}`"))
});

libfuzzer_sys::fuzz_target!(
    init: {
        if let Some(folder) = std::env::var_os("SEEDS") {
            seeds::write(*TARGET, folder.as_ref());
        }
    },
    |bytes: &[u8]| TARGET.run(bytes)
);
