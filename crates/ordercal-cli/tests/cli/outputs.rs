//! Outputs that would do harm are refused, and signals end a run with the code that shells expect.

use crate::files::{BUNDLE, csv};
use crate::harness::Folder;

fn refuse(place: &Folder, line: &str, words: &[&str]) {
    let before = place.tree("");
    let run = place.run(line);
    assert_eq!(run.code, 2, "{line}: {}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{line}: {}", run.stderr);
    for word in words {
        assert!(run.stderr.contains(word), "{line}: {}", run.stderr);
    }
    assert!(place.tree("") == before, "{line} changed something");
}

#[test]
fn an_input_is_never_replaced() {
    let place = Folder::new();
    place.write("d.csv", csv(60)).write("c.safetensors", "x");
    place.run("fit d.csv --method ts -o m.safetensors").ok();
    for line in [
        "apply m.safetensors d.csv -o d.csv",
        "apply m.safetensors d.csv -o ./m.safetensors",
        "evaluate d.csv --state-out d.csv",
        "evaluate d.csv --model m.safetensors --state-out m.safetensors",
        "fit d.csv --config c.safetensors --method ts -o c.safetensors",
    ] {
        let word = if line.starts_with("fit") {
            "c.safetensors"
        } else {
            "also an input"
        };
        refuse(&place, line, &[word]);
    }
    for (line, right) in [
        ("fit d.csv --method ts -o d.npz", "d.safetensors"),
        ("fit d.csv --method ts -o d.csv", "d.safetensors"),
        ("fit d.csv --method ts -o m.onnx", "m.safetensors"),
        ("export m.safetensors -o m.safetensors", "m.onnx"),
        ("export m.safetensors -o n.npz", "n.onnx"),
    ] {
        refuse(&place, line, &[right]);
    }
}

#[test]
fn sizes_beyond_reason_get_a_sentence_or_a_cap() {
    let place = Folder::new();
    place.write("d.csv", csv(60)).write("b.npz", BUNDLE);
    refuse(
        &place,
        "fit d.csv --method oi --hidden 1000000000 -o m.safetensors",
        &["hidden"],
    );
    refuse(
        &place,
        "curve b.npz --over calib-size --seeds 1000000000000",
        &["--seeds"],
    );
    place.run("evaluate d.csv --threads 1000000").ok();
}

#[test]
#[cfg(unix)]
fn existing_files_keep_their_permissions_and_read_only_ones_stay() {
    use std::os::unix::fs::PermissionsExt;
    let place = Folder::new();
    place.write("d.csv", csv(60)).write("m.safetensors", "old");
    let path = place.path("m.safetensors");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o604)).unwrap();
    place.run("fit d.csv --method ts -o m.safetensors").ok();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o604);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o400)).unwrap();
    refuse(
        &place,
        "fit d.csv --method ts -o m.safetensors",
        &["read-only"],
    );
}

#[test]
#[cfg(unix)]
fn a_limit_on_the_size_of_files_is_one_sentence() {
    let place = Folder::new();
    place.write("b.npz", BUNDLE);
    place.run("fit b.npz --method ts -o m.safetensors").ok();
    let line = "apply m.safetensors b.npz -o p.npy";
    let script = format!(
        "ulimit -f 16; exec {} {line}",
        env!("CARGO_BIN_EXE_ordercal")
    );
    let output = std::process::Command::new("bash")
        .args(["-c", &script])
        .current_dir(place.path(""))
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("p.npy") && stderr.lines().count() == 1,
        "{stderr}"
    );
    assert_eq!(place.names(), ["b.npz", "m.safetensors"]);
}
