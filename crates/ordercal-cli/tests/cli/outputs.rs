//! What is printed and written, what happens when it cannot be, and outputs that are refused because they would do harm.

use std::process::{Command, Stdio};

use crate::files::{BUNDLE, csv};
use crate::harness::Folder;

#[test]
#[cfg(target_os = "linux")]
fn results_that_cannot_be_written_are_an_error() {
    let place = Folder::new();
    place.write("d.csv", csv(60)).write("e.csv", csv(70));
    place.run("fit d.csv --method ts -o m.safetensors").ok();
    place.run("evaluate d.csv --state-out d.state").ok();
    place.write("b.safetensors", crate::files::three_classes(60));
    for line in [
        "--help",
        "--version",
        "fit d.csv --method ts -o n.safetensors",
        "fit d.csv --method ts -o n.safetensors --json",
        "apply m.safetensors d.csv -o p.npy",
        "evaluate d.csv",
        "evaluate d.csv --json",
        "merge d.state",
        "compare b.safetensors --methods ts --bootstrap 0",
        "curve b.safetensors --over calib-size --methods ts --seeds 1",
        "plot reliability d.csv -o f.svg",
        "export m.safetensors -o m.onnx",
        "inspect d.csv",
        "completions bash",
    ] {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_ordercal"))
            .args(line.split_whitespace())
            .current_dir(place.path(""))
            .stdout(Stdio::from(full))
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(
            stderr.contains("error: standard output: cannot write"),
            "{line}: {stderr}"
        );
    }
}

#[test]
#[cfg(unix)]
fn a_reader_that_leaves_early_is_no_error() {
    let place = Folder::new();
    place.write("d.csv", csv(60));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_ordercal"))
        .args(["evaluate", "d.csv"])
        .current_dir(place.path(""))
        .stdout(Stdio::from(writer))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stderr, b"");
}

#[test]
fn failed_thresholds_are_said_in_json_and_on_stderr() {
    let place = Folder::new();
    place.write("d.csv", csv(300));
    let line = "evaluate d.csv --metrics nll --fail-if ece>0.001 --fail-if accuracy<0.01";
    let run = place.run(&format!("{line} --json"));
    assert_eq!(run.code, 1);
    let failed = &run.json()["failed"];
    assert_eq!(failed.as_array().unwrap().len(), 1);
    assert_eq!(failed[0]["condition"], "ece>0.001");
    assert_eq!(failed[0]["metric"], "ece");
    assert!(failed[0]["value"].as_f64() > Some(0.001));
    assert!(
        run.stderr.starts_with("failed: ece>0.001 (ece is 0."),
        "{}",
        run.stderr
    );
    assert_eq!(run.stderr.lines().count(), 1);
    let passed = place.run("evaluate d.csv --fail-if ece>0.9 --json").ok();
    assert_eq!(passed.json()["failed"], serde_json::json!([]));
    assert_eq!(passed.stderr, "");
}

#[test]
fn a_shard_is_merged_once() {
    let place = Folder::new();
    place.write("a.csv", csv(80)).write("b.csv", csv(90));
    place.run("evaluate a.csv --state-out a.state").ok();
    place.run("evaluate b.csv --state-out b.state").ok();
    std::fs::copy(place.path("a.state"), place.path("c.state")).unwrap();
    for line in [
        "merge a.state b.state a.state",
        "merge a.state b.state c.state --state-out m.state",
    ] {
        let run = place.run(line);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{line}");
        assert!(
            run.stderr.contains("same rows as a.state"),
            "{}",
            run.stderr
        );
    }
    assert!(!place.path("m.state").exists());
    // Nor is one that is part of a merged state.
    place.write("d.csv", csv(100));
    place.run("evaluate d.csv --state-out d.state").ok();
    place.run("merge a.state b.state --state-out ab.state").ok();
    place
        .run("merge ab.state d.state --state-out abd.state")
        .ok();
    for line in ["merge ab.state b.state", "merge d.state abd.state"] {
        let run = place.run(line);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{line}");
        assert!(run.stderr.contains("merged already"), "{}", run.stderr);
    }
    place
        .run("evaluate a.csv --bins 9 --state-out n.state")
        .ok();
    let run = place.run("merge b.state n.state");
    assert_eq!(run.code, 2);
    for part in [
        "n.state",
        "b.state",
        "the number of bins is 15 in one and 9 in the other",
    ] {
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
}

#[test]
fn no_metric_is_dropped_without_a_word() {
    let place = Folder::new();
    place.write("a.csv", csv(80)).write("b.csv", csv(90));
    for name in ["a", "b"] {
        place
            .run(&format!("evaluate {name}.csv --state-out {name}.state"))
            .ok();
        let line = format!("evaluate {name}.csv --metrics nll,marginal_ce --state-out {name}.kept");
        place.run(&line).ok();
    }
    let merged = place.run("merge a.state b.state").ok().stdout;
    assert!(
        merged.contains("marginal_ce is not in these states"),
        "{merged}"
    );
    let merged = place.run("merge a.state b.state --json").ok().json();
    assert_eq!(merged["missing"], serde_json::json!(["marginal_ce"]));
    let kept = place.run("merge a.kept b.kept --json").ok().json();
    assert_eq!(kept["missing"], serde_json::json!([]));
    assert!(kept["rows"][0]["metrics"]["marginal_ce"].is_f64());
    // A state that keeps it does not go with one that does not.
    let run = place.run("merge a.kept b.state");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("marginal_ce"), "{}", run.stderr);
}

#[test]
fn messages_say_what_to_do() {
    let place = Folder::new();
    place
        .write("d.csv", csv(60))
        .write(
            "case.csv",
            csv(60)
                .replace("logit_0", "Logit_0")
                .replace("logit_1", "x")
                .replace("logit_2", "y"),
        )
        .write("big.csv", "label,logit_0,logit_1\n0,1e307,0\n")
        .write("c.toml", "method = \"oi\"\nlambda = nan\n");
    for (line, part) in [
        (
            "fit d.csv --method oi --lambda nan -o m.safetensors",
            "--lambda: NaN is not a finite number",
        ),
        (
            "fit d.csv --config c.toml -o m.safetensors",
            "c.toml: `lambda` must be a finite number",
        ),
        (
            "evaluate d.csv --metrics zz",
            "there is no metric `zz`; the metrics are",
        ),
        ("evaluate case.csv", "rename `Logit_0`?"),
        ("evaluate big.csv", "the score 1e307 is too large"),
        ("evaluate d.csv --fail-if", "--fail-if <CONDITION>"),
        (
            "evaluate d.csv --model d.csv",
            "d.csv: this file holds no fitted model",
        ),
        (
            "plot reliability d.csv --scale 1000 -o f.png",
            "the scale 1000.0 is out of range",
        ),
    ] {
        let run = place.run(line);
        assert_eq!(run.code, 2, "{line}");
        assert!(run.stderr.contains(part), "{line}: {}", run.stderr);
    }
}

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
    let output = Command::new("bash")
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
