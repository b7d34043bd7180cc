//! Every loop of `cargo measure kernels` runs, and its instructions are written down.

use std::process::Command;

#[test]
fn every_kernel_runs_and_has_a_count() {
    let output = Command::new(env!("CARGO_BIN_EXE_ordercal-bench"))
        .args(["kernels", "--once"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let names = String::from_utf8(output.stdout).unwrap();
    let counts = include_str!("../instructions.txt").lines().skip(1);
    let counted: Vec<&str> = counts
        .map(|line| line.trim().split_once(' ').unwrap().1)
        .collect();
    assert_eq!(
        names.lines().collect::<Vec<_>>(),
        counted,
        "write the counts with cargo xtask instructions --fix"
    );
}
