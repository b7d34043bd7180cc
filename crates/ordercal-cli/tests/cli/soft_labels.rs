//! Labels that are distributions over the classes, groups of rows, and the limit of memory.

use crate::files::csv;
use crate::harness::Folder;

/// The file of [`csv`] with the columns `q_0`, `q_1` and so on beside its label: the label's class has the share, and the
/// next one the rest.
fn with_shares(rows: usize, share: f64) -> String {
    let text = csv(rows);
    let mut lines = text.lines();
    let header = lines.next().unwrap();
    let classes = header.matches("logit_").count();
    let label_at = header.split(',').position(|name| name == "label").unwrap();
    let names: Vec<String> = (0..classes).map(|class| format!("q_{class}")).collect();
    let mut out = format!("{header},{}\n", names.join(","));
    for line in lines {
        let label: usize = line.split(',').nth(label_at).unwrap().parse().unwrap();
        let of = |class: usize| match class {
            class if class == label => share,
            class if class == (label + 1) % classes => 1.0 - share,
            _ => 0.0,
        };
        let shares: Vec<String> = (0..classes).map(|class| of(class).to_string()).collect();
        out.push_str(&format!("{line},{}\n", shares.join(",")));
    }
    out
}

#[test]
fn one_hot_columns_give_the_bytes_of_the_label_column() {
    let place = Folder::new();
    place.write("d.csv", with_shares(60, 1.0));
    for method in ["ts", "sms", "auto"] {
        let fit = format!("fit d.csv --method {method}");
        place.run(&format!("{fit} -o a.safetensors")).ok();
        place
            .run(&format!("{fit} --soft-labels q_* -o b.safetensors"))
            .ok();
        let [a, b] =
            ["a", "b"].map(|name| std::fs::read(place.path(&format!("{name}.safetensors"))));
        assert!(a.unwrap() == b.unwrap(), "{method}");
    }
}

#[test]
fn soft_labels_are_fitted_and_evaluated() {
    let place = Folder::new();
    place.write("d.csv", with_shares(80, 0.7));
    let fit = "fit d.csv --soft-labels q_* --method ts -o m.safetensors --json";
    let fitted = place.run(fit).ok().json();
    assert_eq!(fitted["n"], 80);
    let evaluate = "evaluate d.csv --soft-labels q_* --model m.safetensors";
    let found = place.run(&format!("{evaluate} --json")).ok().json();
    assert_eq!(found["n"], 80);
    let metrics = found["rows"][1]["metrics"].as_object().unwrap();
    let keys: Vec<&str> = metrics.keys().map(String::as_str).collect();
    assert_eq!(keys, ["brier", "brier_sum", "nll"]);
    let difference = metrics["nll"].as_f64().unwrap() - fitted["nll_after"].as_f64().unwrap();
    assert!(difference.abs() < 1e-6, "{difference}");
    for (more, word) in [
        ("--metrics ece", "ece"),
        ("--fail-if ece>0.1", "ece"),
        ("--bootstrap 100", "bootstrap"),
        ("--state-out d.state", "state"),
    ] {
        let run = place.run(&format!("{evaluate} {more}"));
        assert_eq!(run.code, 2, "{more}");
        assert!(run.stderr.contains(word), "{more}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{more}: {}", run.stderr);
    }
    let plot = place.run("plot reliability d.csv --soft-labels q_* -o f.svg");
    assert_eq!(plot.code, 2);
    assert!(plot.stderr.contains("soft labels"), "{}", plot.stderr);
    assert!(!place.path("f.svg").exists() && !place.path("d.state").exists());
    place.write("e.csv", with_shares(80, 0.7).replace("0.7", "0.9"));
    let run = place.run("evaluate e.csv --soft-labels q_*");
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("row 0: the soft label sums to 1.2"),
        "{}",
        run.stderr
    );
}

#[test]
fn groups_go_with_folds() {
    let place = Folder::new();
    let text = csv(90);
    let mut lines = text.lines();
    let mut grouped = format!("{},patient\n", lines.next().unwrap());
    for (row, line) in lines.enumerate() {
        grouped.push_str(&format!("{line},p{}\n", row / 4));
    }
    place.write("d.csv", grouped);
    let loss = |more: &str| {
        let line = format!("fit d.csv --method auto -o m.safetensors --json {more}");
        place.run(&line).ok().json()["report"]["loss"].as_f64()
    };
    assert_ne!(loss(""), loss("--groups patient"));
    place
        .run("fit d.csv --method ts --folds 3 --groups patient -o m.safetensors")
        .ok();
    for (more, word) in [
        ("--method ts --groups patient", "--groups is about folds"),
        ("--groups doctor", "doctor"),
        (
            "--method ts --groups patient --folds 3 --stratified",
            "stratified",
        ),
    ] {
        let run = place.run(&format!("fit d.csv {more} -o n.safetensors"));
        assert_eq!(run.code, 2, "{more}");
        assert!(run.stderr.contains(word), "{more}: {}", run.stderr);
    }
    assert!(!place.path("n.safetensors").exists());
}

#[test]
fn what_exceeds_the_limit_of_memory_is_a_sentence() {
    let place = Folder::new();
    place.write("d.csv", csv(300));
    for (line, word) in [
        (
            "fit d.csv --method sms -o m.safetensors --max-memory 9kB",
            "a linear map of",
        ),
        (
            "evaluate d.csv --max-memory 1kB",
            "the scores of all rows would take",
        ),
        ("evaluate d.csv --max-memory many", "500MB"),
    ] {
        let run = place.run(line);
        assert_eq!(run.code, 2, "{line}");
        assert!(run.stderr.contains(word), "{line}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{line}: {}", run.stderr);
    }
    place.run("evaluate d.csv --max-memory 1GB").ok();
}

#[test]
fn another_kind_than_that_of_the_fit_is_a_warning() {
    let place = Folder::new();
    place.write("d.csv", csv(300));
    place.run("fit d.csv --method ts -o m.safetensors").ok();
    place
        .run("apply m.safetensors d.csv --as probs -o p.npy")
        .ok();
    for line in [
        "apply m.safetensors p.npy --kind probs -o q.npy",
        "apply m.safetensors p.npy --kind log-probs -o q.npy --strict",
    ] {
        let run = place.run(line);
        let said = run.stderr.contains("the model was fitted to logits");
        // Probabilities are no logarithms, which is an error of its own.
        assert!(
            said || run.stderr.contains("log-prob"),
            "{line}: {}",
            run.stderr
        );
    }
    let run = place.run("apply m.safetensors d.csv -o q.npy").ok();
    assert!(!run.stderr.contains("fitted to"), "{}", run.stderr);
}
