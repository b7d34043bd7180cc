//! Input that is valid but probably not what was meant: a warning on stderr, or exit code 2 with `--strict`.

use crate::files::csv;
use crate::harness::{Finished, Folder};

#[track_caller]
fn assert_warned(run: &Finished, parts: &[&str]) {
    assert_eq!(run.code, 0, "{}", run.stderr);
    let lines: Vec<&str> = run.stderr.lines().collect();
    assert!(
        lines.iter().all(|line| line.starts_with("warning: ")),
        "{lines:?}"
    );
    for part in parts {
        assert!(
            lines.iter().any(|line| line.contains(part)),
            "no `{part}` in {lines:?}"
        );
    }
}

/// The csv table with other labels.
fn relabelled(rows: usize, label: impl Fn(usize) -> usize) -> String {
    let text = csv(rows);
    let mut lines = text.lines();
    let mut table = format!("{}\n", lines.next().unwrap());
    for line in lines {
        let (own, scores) = line.split_once(',').unwrap();
        let own: usize = own.parse().unwrap();
        table.push_str(&format!("{},{scores}\n", label(own)));
    }
    table
}

#[test]
fn probabilities_that_are_called_logits() {
    let place = Folder::new();
    let mut table = String::from("label,logit_0,logit_1,logit_2\n");
    for row in 0..90 {
        let mut cells = ["0.2", "0.2", "0.2"];
        cells[row % 3] = "0.6";
        table.push_str(&format!("{},{}\n", (row + row / 9) % 3, cells.join(",")));
    }
    place
        .write("p.csv", &table)
        .write("q.csv", table.replace("0.6", "0.9"));
    for line in [
        "fit p.csv --method ts -o m.safetensors --json",
        "evaluate p.csv --json",
        "plot reliability p.csv -o f.svg",
    ] {
        let run = place.run(line);
        assert_warned(
            &run,
            &["p.csv: the logits look like probabilities", "--kind probs"],
        );
        let strict = place.run(&format!("{line} --strict"));
        assert_eq!(strict.code, 2, "{line}");
        assert!(
            strict.stderr.starts_with("error: p.csv: the logits look"),
            "{}",
            strict.stderr
        );
        if line.contains("--json") {
            assert!(strict.error().starts_with("p.csv: the logits look"));
        } else {
            assert_eq!(strict.stdout, "", "{line}");
        }
        // Said as it is, there is nothing to warn of.
        assert_eq!(
            place
                .run(&format!("{line} --kind probs --strict"))
                .ok()
                .stderr,
            ""
        );
    }
    assert_warned(&place.run("evaluate q.csv"), &["sigmoids"]);
    // The other way round it is an error, with what to write instead.
    place.write("l.csv", csv(60));
    let run = place.run("evaluate l.csv --kind probs");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("--kind logits"), "{}", run.stderr);
}

#[test]
fn labels_that_are_shifted_or_missing() {
    let place = Folder::new();
    place
        .write("fine.csv", csv(300))
        .write("shifted.csv", relabelled(300, |label| (label + 1) % 3))
        .write("two.csv", relabelled(300, |label| label.min(1)))
        .write("few.csv", csv(49));
    assert_eq!(
        place
            .run("fit fine.csv --method ts -o m.safetensors")
            .ok()
            .stderr,
        ""
    );
    assert_eq!(place.run("evaluate fine.csv").ok().stderr, "");
    assert_warned(&place.run("evaluate shifted.csv"), &["shifted by one"]);
    let line = "fit shifted.csv --method ts -o s.safetensors";
    assert_warned(&place.run(line), &["shifted by one"]);
    let line = "fit two.csv --method ts -o t.safetensors";
    assert_warned(&place.run(line), &["two.csv: class 2 is never the label"]);
    assert_eq!(place.run("evaluate two.csv").ok().stderr, "");
    let line = "fit few.csv --method ts -o f.safetensors";
    assert_warned(&place.run(line), &["only 49 rows"]);
    assert_warned(&place.run("evaluate few.csv --quiet"), &["only 49 rows"]);
    // Labels that count from 1 fail at the last class.
    place.write("one.csv", relabelled(300, |label| label + 1));
    let run = place.run("evaluate one.csv");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("count from 1"), "{}", run.stderr);
}

#[test]
fn the_rows_of_the_fit_are_recognised() {
    let place = Folder::new();
    place.write("a.csv", csv(120)).write("b.csv", csv(150));
    place.run("fit a.csv --method ts -o m.safetensors").ok();
    let evaluate = |file: &str| place.run(&format!("evaluate {file} --model m.safetensors"));
    assert_warned(&evaluate("a.csv"), &["fitted on these very rows"]);
    assert_eq!(evaluate("b.csv").ok().stderr, "");
    // In another order and another format they are the same rows.
    let text = csv(120);
    let mut lines: Vec<&str> = text.lines().collect();
    lines[1..].reverse();
    place.write("reversed.csv", lines.join("\n"));
    assert_warned(&evaluate("reversed.csv"), &["fitted on these very rows"]);
    let strict = place.run("evaluate a.csv --model m.safetensors --state-out s.state --strict");
    assert_eq!(strict.code, 2);
    assert!(!place.path("s.state").exists());
    let line = "plot reliability a.csv --model m.safetensors -o f.svg";
    assert_warned(&place.run(line), &["fitted on these very rows"]);
}

#[test]
fn columns_that_are_ignored_are_named() {
    let place = Folder::new();
    let text = csv(80);
    let mut table = String::new();
    for (row, line) in text.lines().enumerate() {
        let weight = if row == 0 { "sample_weight" } else { "2" };
        table.push_str(&format!("{line},{weight}\n"));
    }
    place.write("d.csv", &table);
    for line in [
        "fit d.csv --method ts -o m.safetensors",
        "evaluate d.csv",
        "plot reliability d.csv -o f.svg",
    ] {
        assert_warned(&place.run(line), &["d.csv: `sample_weight` is not read"]);
    }
    // apply reads no weights on purpose.
    assert_eq!(
        place.run("apply m.safetensors d.csv -o p.npy").ok().stderr,
        ""
    );
    let words = place.run("inspect d.csv").ok().stdout;
    assert!(words.contains("`sample_weight` is not read"), "{words}");
    assert_eq!(place.run("inspect d.csv --strict").code, 2);
}

#[test]
fn comparisons_warn_about_their_splits() {
    let place = Folder::new();
    place.write("b.safetensors", crate::files::three_classes(40));
    let line = "compare b.safetensors --methods ts --bootstrap 0";
    assert_warned(
        &place.run(line),
        &[
            "b.safetensors#calib: only 40",
            "b.safetensors#test: only 40",
        ],
    );
    let line = "curve b.safetensors --over calib-size --methods ts --seeds 1";
    assert_warned(&place.run(line), &["b.safetensors#calib: only 40"]);
    let strict = place.run("compare b.safetensors --methods ts --out r --strict");
    assert_eq!(strict.code, 2);
    assert!(!place.path("r").exists());
}

#[test]
fn a_fit_that_changes_nothing_is_noticed() {
    let place = Folder::new();
    // auto leaves so few rows alone.
    place.write("d.csv", csv(12));
    assert_warned(
        &place.run("fit d.csv -o m.safetensors"),
        &["changed nothing"],
    );
    let line = "fit d.csv --method uncalibrated -o m.safetensors";
    let run = place.run(line).ok();
    assert!(!run.stderr.contains("changed nothing"), "{}", run.stderr);
}
