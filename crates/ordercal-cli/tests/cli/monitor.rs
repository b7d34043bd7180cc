//! Calibration over time.

use std::fmt::Write as _;

use crate::harness::Folder;

/// Calibrated rows, a hundred in each window; `more` are other columns.
fn table(windows: &[&str], header: &str, more: &str) -> String {
    let mut text = format!("label,logit_0,logit_1,when{header}\n");
    for (place, window) in windows.iter().enumerate() {
        for row in 0..100 {
            // A probability of 0.75 for the label, which is the class in three rows of four.
            let label = usize::from((row + place) % 4 > 0);
            let _ = writeln!(text, "{label},0,1.0986,{window}{more}");
        }
    }
    text
}

fn windows(found: &serde_json::Value) -> Vec<String> {
    let windows = found["segments"][0]["windows"].as_array().unwrap();
    let names = windows.iter().map(|w| w["window"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

#[test]
fn windows_are_in_the_order_in_which_people_read_them() {
    let folder = Folder::new();
    for expected in [
        ["2", "9", "10", "100"],
        ["week 2", "week 10", "week 11", "week 100"],
        ["2025-12-31", "2026-01-02", "2026-01-10", "2026-11-01"],
    ] {
        let mut given = expected;
        given.reverse();
        folder.write("d.csv", table(&given, "", ""));
        let found = folder.run("monitor d.csv --by when --json").ok().json();
        assert_eq!(windows(&found), expected);
    }
    folder.write("d.csv", table(&["31.12.2025", "01.01.2026"], "", ""));
    let run = folder.run("monitor d.csv --by when --json");
    assert!(
        run.error().contains("write dates as 2024-12-31"),
        "{}",
        run.stdout
    );
    folder.write("d.csv", table(&["1", ""], "", ""));
    let run = folder.run("monitor d.csv --by when --json");
    assert!(
        run.error().contains("column `when`: a row has no window"),
        "{}",
        run.stdout
    );
}

#[test]
fn segments_may_have_other_windows() {
    let folder = Folder::new();
    let early = table(&["1", "2"], ",where", ",north");
    let late = table(&["2", "10"], ",where", ",south");
    let late = late.split_once('\n').unwrap().1.to_owned();
    folder.write("d.csv", early + &late);
    let found = folder.run("monitor d.csv --by when --segment where --json -o m.svg");
    let found = found.ok().json();
    assert_eq!(windows(&found), ["1", "2"]);
    let south = &found["segments"][1];
    assert_eq!(south["windows"][1]["window"], "10");
    // Three windows in all, and the last belongs to one of the segments only.
    let figure = std::fs::read_to_string(folder.path("m.svg")).unwrap();
    assert!(figure.contains("3 windows"), "{figure}");
}

#[test]
fn data_is_read_and_warned_about_as_in_evaluate() {
    let folder = Folder::new();
    let ignored = table(&["1", "2"], "", "") + "-100,5,1,2\n-100,5,1,2\n";
    folder.write("d.csv", &ignored);
    let run = folder.run("monitor d.csv --by when --json");
    assert!(
        run.code == 2 && run.error().contains("-100"),
        "{}",
        run.stdout
    );
    let found = folder.run("monitor d.csv --by when --ignore-label -100 --json");
    assert_eq!(found.ok().json()["segments"][0]["windows"][1]["n"], 100);

    // Probabilities that are taken for logits.
    let probs = table(&["1", "2"], "", "").replace(",0,1.0986,", ",0.25,0.75,");
    folder.write("probs.csv", &probs);
    let run = folder.run("monitor probs.csv --by when");
    assert!(
        run.stderr.contains("look like probabilities"),
        "{}",
        run.stderr
    );
    let run = folder.run("monitor probs.csv --by when --strict --json -o m.svg");
    assert!(
        run.code == 2 && run.error().contains("look like probabilities"),
        "{}",
        run.stdout
    );
    assert!(!folder.names().contains(&"m.svg".to_owned()));
    let run = folder.run("monitor probs.csv --by when --kind probs").ok();
    assert_eq!(run.stderr, "");
    folder
        .run("fit probs.csv --kind probs --method ts -o m.safetensors")
        .ok();
    folder.write("d.csv", table(&["1", "2"], "", ""));
    let run = folder.run("monitor d.csv --by when --model m.safetensors");
    assert!(
        run.stderr.contains("fitted to probabilities"),
        "{}",
        run.stderr
    );
    let run = folder.run("monitor probs.csv --kind probs --by when --model m.safetensors");
    assert!(
        run.stderr
            .contains("the model was fitted on these very rows"),
        "{}",
        run.stderr
    );

    let weights = table(&["1", "2"], ",weight", ",2");
    folder.write("weights.csv", weights);
    let run = folder.run("monitor weights.csv --by when --json");
    assert!(
        run.code == 2 && run.error().contains("its rows have weights"),
        "{}",
        run.stdout
    );

    // The class that gives the alarm is called by its name.
    let shifted = table(&["1", "2", "3", "4"], "", "").replace("\n1,", "\n0,");
    folder.write("shifted.csv", shifted);
    let line = "monitor shifted.csv --by when --class-names cat,dog --json";
    let alarm = folder.run(line).json()["segments"][0]["alarm"].clone();
    assert!(
        ["class cat", "class dog", "the predicted class"].contains(&alarm["of"].as_str().unwrap())
    );
}

#[test]
fn states_are_windows_and_have_no_columns() {
    let folder = Folder::new();
    folder.write("a.csv", table(&["1"], "", ""));
    folder.write("b.csv", table(&["2"], "", "").replace("1.0986", "1.0987"));
    folder.write("three.csv", "label,logit_0,logit_1,logit_2\n0,1,0,0\n");
    folder.write(
        "weights.csv",
        "label,logit_0,logit_1,weight\n0,1,0,3\n1,1,0,1\n",
    );
    for name in ["a", "b", "three", "weights"] {
        folder
            .run(&format!("evaluate {name}.csv --state-out {name}.state"))
            .ok();
    }
    let found = folder.run("monitor b.state a.state --json").ok().json();
    assert_eq!(windows(&found), ["b", "a"]);
    let state = std::fs::read(folder.path("a.state")).unwrap();
    folder.write("cut.state", &state[..state.len() / 2]);
    folder.write("empty.state", "");
    for (line, said) in [
        (
            "monitor a.state three.state --json",
            "three.state: the state is of 3 classes, and that of a.state of 2",
        ),
        (
            "monitor a.state b.state a.state --json",
            "same rows as a.state",
        ),
        ("monitor a.state cut.state --json", "cut.state"),
        ("monitor a.state empty.state --json", "empty.state"),
        ("monitor a.state nowhere.state --json", "nowhere.state"),
        ("monitor a.state weights.state --json", "rows with weights"),
        ("monitor a.state --label-column y --json", "go with --by"),
        (
            "monitor a.state --class-names cat,dog --json",
            "go with --by",
        ),
        ("monitor a.state --kind probs --json", "--by"),
        ("monitor a.state --ignore-label 3 --json", "--by"),
        ("monitor a.csv --by when --format csv --json", "--format"),
    ] {
        let run = folder.run(line);
        assert!(
            run.code == 2 && run.error().contains(said),
            "{line}: {}",
            run.stdout
        );
        assert!(
            !run.error().contains("--by with") || !line.contains("--by"),
            "{}",
            run.stdout
        );
    }
}

#[test]
fn what_cannot_be_read_or_written_is_said() {
    let folder = Folder::new();
    folder.write("empty.csv", "");
    folder.write("header.csv", "label,logit_0,logit_1,when\n");
    folder.write(
        "nan.csv",
        "label,logit_0,logit_1,when\n0,1,2,a\n0,nan,2,b\n",
    );
    folder.write("one.csv", "label,logit_0,logit_1,when\n0,1,2,a\n1,1,2,b\n");
    for (line, said) in [
        ("monitor empty.csv --by when --json", "empty.csv"),
        ("monitor header.csv --by when --json", "header.csv"),
        (
            "monitor nan.csv --by when --json",
            "nan.csv: row 1, column 0",
        ),
        ("monitor one.csv --by day --json", "no column `day`"),
        (
            "monitor one.csv --by when --segment day --json",
            "no column `day`",
        ),
        ("monitor one.csv --by when -o no/m.svg --json", "no/m.svg"),
        (
            "monitor one.csv --by when --prometheus no/m.prom --json",
            "no/m.prom",
        ),
        (
            "monitor one.csv --by when --prometheus one.csv --json",
            "also an input",
        ),
        (
            "monitor one.csv --by when --prometheus - --json",
            "standard output",
        ),
    ] {
        let run = folder.run(line);
        assert!(
            run.code == 2 && run.error().contains(said),
            "{line}: {}",
            run.stdout
        );
    }
    let found = folder.run("monitor one.csv --by when --json").ok().json();
    assert_eq!(found["segments"][0]["windows"][0]["n"], 1);
    assert_eq!(
        folder.names(),
        ["empty.csv", "header.csv", "nan.csv", "one.csv"]
    );
    let text = folder
        .run("monitor one.csv --by when --prometheus -")
        .ok()
        .stdout;
    check_exposition(&text);
}

#[test]
fn prometheus_reads_any_name() {
    let folder = Folder::new();
    folder.write(
        "d.csv",
        "label,logit_0,logit_1,when,where\n0,3,1,1,a\\b\n0,3,1,1,\"c\"\"d\ne\"\n1,3,1,1,\"f,{g}\"\n",
    );
    folder
        .run("monitor d.csv --by when --segment where --prometheus m.prom")
        .ok();
    let text = std::fs::read_to_string(folder.path("m.prom")).unwrap();
    let samples = check_exposition(&text);
    let segments: Vec<&str> = samples
        .iter()
        .map(|labels| labels[0].as_str())
        .take(3)
        .collect();
    assert_eq!(segments, ["a\\b", "c\"d\ne", "f,{g}"]);
    // An impossible label makes the NLL infinite.
    folder.write("zero.csv", "label,prob_0,prob_1,when\n0,0,1,1\n");
    folder
        .run("monitor zero.csv --by when --prometheus m.prom")
        .ok();
    let text = std::fs::read_to_string(folder.path("m.prom")).unwrap();
    check_exposition(&text);
}

/// Reads Prometheus' text format strictly, and returns the labels' values of every sample.
fn check_exposition(text: &str) -> Vec<Vec<String>> {
    assert!(text.ends_with('\n'));
    let mut samples = Vec::new();
    let mut family = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            family = rest.split(' ').next().unwrap().to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert_eq!(rest, format!("{family} gauge"));
        } else {
            let rest = line.strip_prefix(&family).expect(line);
            let rest = rest.strip_prefix('{').expect(line);
            let (labels, value) = read_labels(rest);
            let known = ["+Inf", "-Inf", "NaN"].contains(&value);
            assert!(
                known || value.parse::<f64>().is_ok_and(f64::is_finite),
                "{line}"
            );
            samples.push(labels);
        }
    }
    assert!(!samples.is_empty());
    samples
}

/// The values of `name="value",…}`, and what follows after a space.
fn read_labels(text: &str) -> (Vec<String>, &str) {
    let mut values = Vec::new();
    let mut rest = text;
    loop {
        let (name, tail) = rest.split_once("=\"").expect(text);
        assert!(
            name.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
            "{name}"
        );
        let (mut value, mut end, mut escaped) = (String::new(), None, false);
        for (place, c) in tail.char_indices() {
            match (escaped, c) {
                (true, 'n') => value.push('\n'),
                (true, '\\' | '"') => value.push(c),
                (true, _) => panic!("\\{c} in {text}"),
                (false, '\\') => {}
                (false, '"') => {
                    end = Some(place);
                    break;
                }
                (false, _) => value.push(c),
            }
            escaped = !escaped && c == '\\';
        }
        values.push(value);
        rest = &tail[end.expect(text) + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return (values, rest.strip_prefix("} ").expect(text)),
        }
    }
}
