//! Standard input and output, pipes, and columns with other names.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::files::{BUNDLE, csv, three_classes};
use crate::harness::{Finished, Folder};

/// Runs a line of arguments with bytes on stdin; what it writes to stdout need not be text.
fn run_with(place: &Folder, line: &str, input: &[u8]) -> (i32, Vec<u8>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ordercal"))
        .args(line.split_whitespace())
        .current_dir(place.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A run that refuses its arguments does not read.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap_or(-1), output.stdout, stderr)
}

fn temporary_copies() -> Vec<String> {
    let entries = std::fs::read_dir(std::env::temp_dir()).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|n| n.starts_with(".ordercal-copy.")).collect()
}

#[test]
fn data_comes_from_stdin_and_goes_to_stdout() {
    let place = Folder::new();
    place.write("b.npz", BUNDLE);
    place.run("fit b.npz --method ts -o m.safetensors").ok();
    let (code, model, stderr) = run_with(&place, "fit - --format npz --method ts -o -", BUNDLE);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(model, std::fs::read(place.path("m.safetensors")).unwrap());
    assert!(stderr.contains("NLL"), "remarks go to stderr: {stderr}");
    for format in [
        "npz",
        "npy",
        "csv",
        "parquet",
        "arrow",
        "safetensors",
        "jsonl",
    ] {
        let line = format!("apply m.safetensors b.npz#test -o p.{format}");
        place.run(&line).ok();
        let expected = std::fs::read(place.path(&format!("p.{format}"))).unwrap();
        let line = format!("apply m.safetensors b.npz#test -o - --format {format} --quiet");
        let (code, found, stderr) = run_with(&place, &line, b"");
        assert_eq!((code, stderr.as_str()), (0, ""), "{format}");
        assert!(found == expected, "{format}");
        let line = format!("inspect - --format {format} --json --kind probs");
        let (code, found, stderr) = run_with(&place, &line, &expected);
        assert_eq!(code, 0, "{format}: {stderr}");
        let found: serde_json::Value = serde_json::from_slice(&found).unwrap();
        assert_eq!(found["sets"][0]["classes"], 26, "{format}");
    }
    let (code, _, stderr) = run_with(
        &place,
        "evaluate /dev/stdin#test --format npz --metrics nll",
        BUNDLE,
    );
    assert_eq!(code, 0, "{stderr}");
    let pid = std::process::id().to_string();
    assert!(!temporary_copies().iter().any(|name| name.contains(&pid)));
}

#[test]
fn what_stdin_cannot_tell_is_asked_for() {
    let place = Folder::new();
    place.write("d.csv", csv(30));
    for (line, words) in [
        ("evaluate -", "--format"),
        ("evaluate - --format npy", "npy"),
        ("evaluate d.csv --format csv", "--format"),
        ("fit - --format csv --json --method ts -o -", "--json"),
    ] {
        let (code, _, stderr) = run_with(&place, line, b"label,logit_0,logit_1\n0,1,2\n");
        assert_eq!(code, 2, "{line}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{line}: {stderr}");
        assert!(stderr.contains(words), "{line}: {stderr}");
    }
    let (code, _, stderr) = run_with(&place, "evaluate - --format csv", b"");
    assert!(code == 2 && stderr.contains("empty"), "{stderr}");
}

#[test]
#[cfg(unix)]
fn a_reader_of_data_may_leave_early() {
    let place = Folder::new();
    place.write("b.npz", BUNDLE);
    place.run("fit b.npz --method ts -o m.safetensors").ok();
    let line = "apply m.safetensors b.npz -o - --format csv | head -c 10";
    let script = format!("set -o pipefail; {} {line}", env!("CARGO_BIN_EXE_ordercal"));
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(place.path(""))
        .output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(!String::from_utf8(output.stderr).unwrap().contains("error"));
}

fn words(run: &Finished) -> String {
    format!("{}{}", run.stdout, run.stderr)
}

#[test]
fn columns_are_chosen_and_handed_through() {
    let place = Folder::new();
    let text = csv(60);
    let mut renamed = String::from("row;truth;s_cat;s_dog;s_cow\n");
    for (row, line) in text.lines().skip(1).enumerate() {
        let name = ["cat", "dog", "cow"][line[..1].parse::<usize>().unwrap()];
        renamed.push_str(&format!("r{row};{name};{}\n", line[2..].replace(',', ";")));
    }
    place.write("d.csv", &text).write("e.csv", &renamed);
    place.run("fit d.csv --method ts -o a.safetensors").ok();
    let columns = "e.csv --delimiter ; --label-column truth --score-columns s_*";
    let run = place
        .run(&format!(
            "fit {columns} --method ts -o b.safetensors --json"
        ))
        .ok();
    assert_eq!(run.json()["n"], 60);
    let run = place.run(&format!(
        "apply b.safetensors {columns} --id-columns row,truth -o p.csv"
    ));
    assert_eq!(run.code, 0, "{}", words(&run));
    let written = std::fs::read_to_string(place.path("p.csv")).unwrap();
    let mut lines = written.lines();
    assert_eq!(lines.next(), Some("row,truth,prob_cat,prob_dog,prob_cow"));
    assert!(lines.next().unwrap().starts_with("r0,"), "{written}");
    place.run("apply a.safetensors d.csv -o q.csv").ok();
    let plain = std::fs::read_to_string(place.path("q.csv")).unwrap();
    let (ours, theirs) = (
        written.lines().nth(7).unwrap(),
        plain.lines().nth(7).unwrap(),
    );
    assert!(ours.ends_with(theirs), "{ours} {theirs}");
    // Columns in another order are matched to the model's classes by their names.
    let turned = |line: &str| {
        let cells: Vec<&str> = line.split(';').collect();
        [cells[0], cells[1], cells[4], cells[2], cells[3]].join(";") + "\n"
    };
    place.write("f.csv", renamed.lines().map(turned).collect::<String>());
    let line = format!("apply b.safetensors {columns} --id-columns row,truth -o r.csv");
    place.run(&line.replace("e.csv", "f.csv")).ok();
    let turned = std::fs::read_to_string(place.path("r.csv")).unwrap();
    assert_eq!(turned, written);
    let run = place.run(&format!(
        "apply b.safetensors {columns} --id-columns row -o p.npy"
    ));
    assert!(
        run.code == 2 && run.stderr.contains("p.npy"),
        "{}",
        words(&run)
    );
    let run = place.run("fit e.csv --delimiter ;; -o c.safetensors");
    assert!(
        run.code == 2 && run.stderr.contains("--delimiter"),
        "{}",
        words(&run)
    );
}

#[test]
fn rows_to_ignore_and_other_names_of_the_calibration_split() {
    let place = Folder::new();
    let text = csv(60);
    let more = format!("{text}-100,0,0,0\n-100,9,9,9\n");
    place.write("d.csv", &text).write("e.csv", more);
    let plain = place.run("evaluate d.csv --json").ok().json();
    let without = place
        .run("evaluate e.csv --ignore-label -100 --json")
        .ok()
        .json();
    assert_eq!(plain, without);
    assert_eq!(place.run("evaluate e.csv").code, 2);
    place
        .run("fit e.csv --method ts --ignore-label -100 -o a.safetensors")
        .ok();

    let mut bundle = three_classes(40);
    let header = bundle.windows(6).position(|w| w == b"calib_").unwrap();
    assert!(header > 0);
    while let Some(at) = bundle.windows(8).position(|w| w == b"\"calib_l") {
        // Of the same length, so that the header keeps its size: JSON may have spaces.
        bundle.splice(at..at + 8, *b"\"val_l");
        let end = bundle[at..].iter().position(|&b| b == b':').unwrap() + at;
        bundle.splice(end..end, *b"  ");
    }
    place.write("v.safetensors", &bundle);
    let run = place
        .run("fit v.safetensors --method ts -o b.safetensors --json")
        .ok();
    assert_eq!(run.json()["n"], 40);
    place
        .run("compare v.safetensors --methods ts --metrics nll --bootstrap 0")
        .ok();
}

#[test]
fn errors_are_json_too_and_never_control_the_terminal() {
    let place = Folder::new();
    let run = place.run("evaluate none.csv --json");
    assert_eq!(run.code, 2);
    assert!(run.error().contains("none.csv"));
    assert_eq!(run.stderr.lines().count(), 1);
    let run = place.run("evaluate --json --bins x none.csv");
    assert!(run.error().contains("--bins"));
    let run = place.run_args(["evaluate", "none\u{1b}[31m.csv"]);
    assert!(
        run.code == 2 && !run.stderr.contains('\u{1b}'),
        "{:?}",
        run.stderr
    );
    place.write(
        "d.csv",
        "label,logit_a\u{1b}[2J,logit_b\n0,1,2\n1,2,1\n0,3,1\n",
    );
    let run = place.run("fit d.csv --method ts -o m.safetensors").ok();
    assert!(!words(&run).contains('\u{1b}'));
    let run = place.run("inspect m.safetensors").ok();
    assert!(!words(&run).contains('\u{1b}'));
}

#[test]
fn manual_pages_completions_and_the_version() {
    let place = Folder::new();
    let page = place.run("man fit").ok().stdout;
    assert!(
        page.contains(".TH") && page.contains("\\-\\-method"),
        "{page}"
    );
    assert!(place.run("man").ok().stdout.contains("evaluate"));
    assert_eq!(place.run("man fitt").code, 2);
    let script = place.run("completions bash").ok().stdout;
    for key in ["sms+order", "classwise_ece", "safetensors"] {
        assert!(script.contains(key), "{key}");
    }
    assert!(place.run("--version").ok().stdout.contains("parquet"));
}
